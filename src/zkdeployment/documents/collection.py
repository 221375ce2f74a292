"""The documents of one revision as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zkdeployment.documents.strategies.kinds import CONFIGURATION, STRATEGY
from zkdeployment.model.problem import Problem
from zkdeployment.model.strategy import ALL_HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.documents.kinds import DocumentKind, Subject, ValueT
    from zkdeployment.documents.yaml_values import Document, Way
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.model.strategy import Strategy

#: The strategy's name where the configuration names none.
DEFAULT_NAME = "deployment-strategy"


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
    some documents are missing from them. ``unused`` are the problems of strategies that are not in force,
    ``advice`` the warnings of a strict check. ``files`` are the files that were read.
    """

    entries: Mapping[tuple[str, Subject], DocumentEntry] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    unused: tuple[Problem, ...] = ()
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
        """The problems that prevent publication; strategies of which none is in force are such a problem."""
        return self.problems if self.in_force else (*self.problems, *self.unused)

    @property
    def strategies(self) -> dict[str, Strategy]:
        """The strategies by name."""
        return {name: strategy for (name,), strategy in self.of(STRATEGY).items()}

    @property
    def chosen(self) -> str | None:
        """The strategy that the configuration names; ``None`` if it names none, or without a configuration."""
        return next(iter(self.of(CONFIGURATION).values()), None)

    @property
    def in_force(self) -> bool:
        """Whether one of the strategies is the fleet's."""
        return (DEFAULT_NAME if self.chosen is None else self.chosen) in self.strategies

    def strategy(self) -> Strategy | None:
        """Return the fleet's strategy, ``None`` if it has none; only meaningful without ``errors``."""
        if self.chosen is not None:
            return self.strategies.get(self.chosen)
        configured = bool(self.of(CONFIGURATION))
        return self.strategies.get(DEFAULT_NAME, ALL_HOSTS if configured else None)


def document_problem(file: str, document: Document, way: Way, message: str) -> Problem:
    """Return a problem at a place of a document."""
    line, column = document.place(way)
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in way).removeprefix(".")
    return Problem(message, file, line, column, path or None)


def unused_strategies(entries: Mapping[tuple[str, Subject], DocumentEntry]) -> Iterator[Problem]:
    """Return a problem for each strategy that is not in force, at the place of its name."""
    documents = Documents(entries)
    chosen = documents.chosen or DEFAULT_NAME
    for (kind, subject), entry in entries.items():
        if kind != STRATEGY.name or subject == (chosen,):
            continue
        name = subject[0]
        configure = f"data: {{deployment_strategy: {name}}} in a DeploymentConfiguration"
        if chosen in documents.strategies:
            message = f"strategy {name} is not in force, {chosen} is; remove it, or choose it with {configure}"
        else:
            message = f"strategy {name} is not in force; name it {DEFAULT_NAME}, or choose it with {configure}"
        yield entry.problem(STRATEGY.place, message)
