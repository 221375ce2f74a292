"""The documents of one revision, and the published documents with the change of a publication."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from zkdeployment.base.source_files import Problem, SourceFile
from zkdeployment.base.values import dataclass
from zkdeployment.documents.forms import form_faults
from zkdeployment.documents.kinds import DocumentKind, Subject, ValueT, known_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.base.json_values import Value
    from zkdeployment.documents.yaml_values import Document, Way


#: The kind and the subject of a document beside the tree.
DocumentKey: TypeAlias = "tuple[str, tuple[str, ...]]"

#: The content of documents in their YAML form, by kind and subject.
DocumentContents: TypeAlias = "Mapping[DocumentKey, Mapping[str, Any]]"


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    """One valid document: its kind, its subject, its value, and its place.

    ``content`` is the document with typed values, in its published form. ``position`` is the number of the
    document in its ``file``, from 0.
    """

    kind: DocumentKind[Any]
    subject: Subject
    value: Any
    content: dict[str, Any]
    file: str
    position: int
    source: Document

    def problem(self, way: Way, message: str) -> Problem:
        """Return a problem at a place of this document."""
        return document_problem(self.file, self.source, way, message)


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of a revision.

    ``entries`` are the valid documents by the name of their kind and their subject. If there are ``problems``,
    some documents are missing from them. ``unused`` are the problems of documents that are not in force although
    no other one is. ``spare`` are the problems of documents that are not in force beside one that is: only
    ``lint`` refuses these. ``advice`` are the warnings of a strict check. ``files`` are the files that were read.
    """

    entries: Mapping[tuple[str, Subject], DocumentEntry] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    unused: tuple[Problem, ...] = ()
    spare: tuple[Problem, ...] = ()
    advice: tuple[Problem, ...] = ()
    files: tuple[SourceFile, ...] = ()

    def of(self, kind: DocumentKind[ValueT]) -> dict[Subject, ValueT]:
        """Return the values of all documents of a kind, by subject."""
        return {subject: entry.value for (name, subject), entry in self.entries.items() if name == kind.name}

    @property
    def contents(self) -> dict[tuple[str, Subject], dict[str, Any]]:
        """The published form of the documents, by the name of their kind and their subject."""
        return {key: entry.content for key, entry in self.entries.items()}

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that prevent publication."""
        return (*self.problems, *self.unused)


def document_problem(file: str, document: Document, way: Way, message: str) -> Problem:
    """Return a problem at a place of a document."""
    line, column = document.place(way)
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in way).removeprefix(".")
    return Problem(message, file, line, column, path or None)


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
        """Return one line for each document that changes, unless another text describes changes of its kind."""
        yield from (f"{verb} {' '.join((kind, *subject))}" for verb, (kind, subject) in self._changes())

    def to_json(self) -> list[Value]:
        """Return the change as ``-o json`` prints it."""
        return [{"change": verb, "kind": kind, "subject": [*subject]} for verb, (kind, subject) in self._changes()]

    def _changes(self) -> Iterator[tuple[str, DocumentKey]]:
        for key in sorted(self.changed):
            kind = known_kinds().by_name.get(key[0])
            if kind is None or not kind.has_own_changes:
                verb = "add" if key not in self.before else "delete" if key not in self.after else "change"
                yield verb, key
