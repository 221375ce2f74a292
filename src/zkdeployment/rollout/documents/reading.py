"""Strategies and configurations, read from YAML files with all problems of all files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zkdeployment.model.problem import Problem, Severity
from zkdeployment.model.source_files import DOCUMENT_SUFFIXES, SourceFile
from zkdeployment.model.strategy import ALL_HOSTS, Strategy
from zkdeployment.rollout.documents.encoding import strategy_from_value
from zkdeployment.rollout.documents.faults import (
    Fault,
    choice,
    choice_faults,
    form_faults,
    group_advice,
    group_faults,
    mentions_documents,
    one_of,
    schema_faults,
)
from zkdeployment.rollout.documents.schema import CONFIGURATION_SCHEMA, SCHEMAS, STRATEGY_SCHEMA
from zkdeployment.rollout.documents.typed_values import typed_values
from zkdeployment.rollout.documents.yaml_values import Document, Way, YamlTextError, read_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


#: The strategy's name where the configuration names none.
DEFAULT_NAME = "deployment-strategy"


@dataclass(frozen=True, slots=True)
class Documents:
    """The strategies and the configuration in YAML files.

    ``configured`` is whether there is a configuration, ``chosen`` the strategy that it names. If there are
    ``problems``, the other fields have only the valid documents. ``unused`` are warnings on strategies that are
    not in force, ``advice`` the warnings of a strict check. ``files`` are the files that were read.
    """

    strategies: Mapping[str, Strategy] = field(default_factory=dict)
    configured: bool = False
    chosen: str | None = None
    problems: tuple[Problem, ...] = ()
    unused: tuple[Problem, ...] = ()
    advice: tuple[Problem, ...] = ()
    files: tuple[SourceFile, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that prevent publication; strategies of which none is in force are such a problem."""
        return self.problems if self.in_force else (*self.problems, *self.unused)

    @property
    def in_force(self) -> bool:
        """Whether one of the strategies is the fleet's."""
        return (DEFAULT_NAME if self.chosen is None else self.chosen) in self.strategies

    def strategy(self) -> Strategy | None:
        """Return the fleet's strategy, ``None`` if it has none; only meaningful without ``errors``."""
        if self.chosen is not None:
            return self.strategies.get(self.chosen)
        return self.strategies.get(DEFAULT_NAME, ALL_HOSTS if self.configured else None)


def read_strategies(files: Iterable[SourceFile], known: Documents | None = None) -> Documents:
    """Return the rollout documents of YAML files, checked; ``known`` itself if the files did not change.

    Other documents and other files are ignored.
    """
    documents = tuple(sorted(files, key=lambda file: file.name))
    if known is not None and known.files == documents:
        return known
    collection = _Collection()
    for file in documents:
        if not file.name.endswith(DOCUMENT_SUFFIXES):
            continue
        try:
            for document in read_documents(file.content.decode("utf-8-sig")):
                collection.add(file.name, document)
        except YamlTextError as error:
            collection.problems.append(Problem(str(error), file.name, error.line, error.column))
        except UnicodeDecodeError as error:
            message = f"expected UTF-8, found the byte {error.object[error.start]:#04x}"
            line = error.object.count(b"\n", 0, error.start) + 1
            collection.problems.append(Problem(message, file.name, line, 1))
    return collection.documents(documents)


def document_files(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Return the YAML files that may contain rollout documents, sorted by name."""
    matches = [
        file for file in files if file.name.endswith(DOCUMENT_SUFFIXES) and mentions_documents(file.content)
    ]
    return sorted(matches, key=lambda file: file.name)


class _Collection:
    """The documents read so far, and their problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._advice: list[Problem] = []
        self._strategies: dict[str, Strategy] = {}
        self._origins: dict[str, tuple[str, Document]] = {}
        self._configurations: list[tuple[str, Document]] = []

    def add(self, file: str, document: Document) -> None:
        """Add a document and its problems, if it is a strategy or a configuration."""
        value: Any = document.value
        if not isinstance(value, dict):
            return
        schema = value.get("schema")
        if schema == STRATEGY_SCHEMA:
            faults = self._add_strategy(file, document)
        elif schema == CONFIGURATION_SCHEMA:
            faults = self._add_configuration(file, document)
        else:
            faults = schema_faults(value)
        self.problems += [_problem(file, document, way, message) for way, message in faults]

    def _add_strategy(self, file: str, document: Document) -> Iterator[Fault]:
        value: Any = typed_values(document.value, SCHEMAS[STRATEGY_SCHEMA])
        faults = list(form_faults(value, SCHEMAS[STRATEGY_SCHEMA]))
        yield from faults
        if faults:
            return
        strategy = strategy_from_value(value)
        yield from group_faults(value["data"]["groups"])
        if strategy.name in self._strategies:
            message = f"there is another strategy {strategy.name}; each needs a name of its own"
            yield ("metadata", "name"), message
        self._strategies[strategy.name] = strategy
        self._origins[strategy.name] = file, document
        self._advice += [
            replace(_problem(file, document, way, message), severity=Severity.WARNING)
            for way, message in group_advice(strategy.groups)
        ]

    def _add_configuration(self, file: str, document: Document) -> Iterator[Fault]:
        faults = [*form_faults(document.value, SCHEMAS[CONFIGURATION_SCHEMA]), *choice_faults(document.value)]
        yield from faults
        if faults:
            return
        if self._configurations:
            other = self._configurations[0][0]
            yield (), f"there is a DeploymentConfiguration in {other} already; expected one at most"
        else:
            self._configurations.append((file, document))

    def documents(self, files: tuple[SourceFile, ...]) -> Documents:
        """Return all documents that were read."""
        chosen = None
        for file, document in self._configurations:
            way, chosen = choice(document.value)
            if chosen is not None and chosen not in self._strategies and not self.problems:
                expected = one_of(self._strategies) if self._strategies else "a DeploymentStrategy of that name"
                message = f"there is no strategy {chosen}; expected {expected}"
                self.problems.append(_problem(file, document, way, message))
        return Documents(
            self._strategies,
            configured=bool(self._configurations),
            chosen=chosen,
            problems=tuple(self.problems),
            # A document with problems may choose any strategy.
            unused=() if self.problems else tuple(self._unused(chosen or DEFAULT_NAME)),
            advice=tuple(self._advice),
            files=files,
        )

    def _unused(self, chosen: str) -> Iterator[Problem]:
        """Return a problem for each strategy that is not the chosen one, at the place of its name."""
        for name, (file, document) in self._origins.items():
            if name == chosen:
                continue
            configure = f"data: {{deployment_strategy: {name}}} in a DeploymentConfiguration"
            if chosen in self._strategies:
                message = f"strategy {name} is not in force, {chosen} is; remove it, or choose it with {configure}"
            else:
                message = f"strategy {name} is not in force; name it {DEFAULT_NAME}, or choose it with {configure}"
            yield _problem(file, document, ("metadata", "name"), message)


def _problem(file: str, document: Document, way: Way, message: str) -> Problem:
    line, column = document.place(way)
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in way).removeprefix(".")
    return Problem(message, file, line, column, path or None)
