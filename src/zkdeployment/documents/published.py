"""The published documents, and the change of the documents that a publication brings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.documents.forms import form_faults
from zkdeployment.documents.strategies.kinds import CONFIGURATION, STRATEGY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.documents.kinds import DocumentKind, Subject, ValueT
    from zkdeployment.model.publishing.publication import DocumentContents, DocumentKey
    from zkdeployment.model.tree import Value

#: The kinds whose changes ``StrategyChange`` describes.
_OF_STRATEGIES = frozenset({STRATEGY.name, CONFIGURATION.name})


@dataclass(frozen=True, slots=True)
class PublishedDocuments:
    """The documents that were published last: the content of each by the name of its kind and its subject."""

    contents: DocumentContents = field(default_factory=dict)

    def of(self, kind: DocumentKind[ValueT]) -> dict[Subject, ValueT]:
        """Return the values of all documents of a kind, by subject, without those that are not valid."""
        return {
            subject: kind.parse(content)
            for (name, subject), content in self.contents.items()
            if name == kind.name and not list(form_faults(content, kind.form))
        }


@dataclass(frozen=True, slots=True)
class DocumentsChange:
    """The published documents and the next ones."""

    before: DocumentContents = field(default_factory=dict)
    after: DocumentContents = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.changed)

    @property
    def changed(self) -> frozenset[DocumentKey]:
        """The documents that are added, changed or deleted."""
        keys = self.before.keys() | self.after.keys()
        return frozenset(key for key in keys if self.before.get(key) != self.after.get(key))

    def describe(self) -> Iterator[str]:
        """Return one line for each document that changes, other than strategies."""
        yield from (f"{verb} {' '.join((kind, *subject))}" for verb, (kind, subject) in self._changes())

    def to_json(self) -> list[Value]:
        """Return the change as ``-o json`` prints it."""
        return [{"change": verb, "kind": kind, "subject": [*subject]} for verb, (kind, subject) in self._changes()]

    def _changes(self) -> Iterator[tuple[str, DocumentKey]]:
        for key in sorted(self.changed):
            if key[0] not in _OF_STRATEGIES:
                verb = "add" if key not in self.before else "delete" if key not in self.after else "change"
                yield verb, key
