"""From YAML files to strategies, with every error of every file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zkdeployment.model.problem import Problem
from zkdeployment.model.publication import DOCUMENT_SUFFIXES, SourceFile
from zkdeployment.model.strategy import ALL_HOSTS, Strategy
from zkdeployment.rollout.encoding import strategy_from_value
from zkdeployment.rollout.schema import (
    CONFIGURATION_SCHEMA,
    SCHEMAS,
    STRATEGY_SCHEMA,
    Fault,
    form_faults,
    group_faults,
    mentions_documents,
    one_of,
)
from zkdeployment.rollout.typed_values import typed_values
from zkdeployment.rollout.yaml_values import Document, Way, YamlTextError, read_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


#: The strategy's name where the configuration names none.
DEFAULT_NAME = "deployment-strategy"


@dataclass(frozen=True, slots=True)
class Documents:
    """What YAML files say of rollouts.

    ``configured`` says whether there is a configuration, ``chosen`` which strategy it names. With ``problems`` the
    rest is what could be understood. ``files`` are what all that was read from.
    """

    strategies: Mapping[str, Strategy] = field(default_factory=dict)
    configured: bool = False
    chosen: str | None = None
    problems: tuple[Problem, ...] = ()
    files: tuple[SourceFile, ...] = ()

    def strategy(self) -> Strategy | None:
        """Return the fleet's strategy, once there are no problems; ``None`` if it goes without."""
        if self.chosen is not None:
            return self.strategies.get(self.chosen)
        return self.strategies.get(DEFAULT_NAME, ALL_HOSTS if self.configured else None)


def read_strategies(files: Iterable[SourceFile], known: Documents | None = None) -> Documents:
    """Read and check the rollout documents of YAML files; if they are those of the ``known`` ones, return these.

    Documents that are about something else are ignored, and so are other files.
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
            words = f"expected UTF-8, found the byte {error.object[error.start]:#04x}"
            line = error.object.count(b"\n", 0, error.start) + 1
            collection.problems.append(Problem(words, file.name, line, 1))
    return collection.documents(documents)


def document_files(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Return the YAML files that are about rollouts, sorted by name; what is in others does not matter."""
    found = [file for file in files if file.name.endswith(DOCUMENT_SUFFIXES) and mentions_documents(file.content)]
    return sorted(found, key=lambda file: file.name)


class _Collection:
    """Documents as they are read, one after another."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._strategies: dict[str, Strategy] = {}
        self._configurations: list[tuple[str, Document]] = []

    def add(self, file: str, document: Document) -> None:
        """Take in a document if it is one of ours, and note its problems."""
        value: Any = document.value
        schema = value.get("schema") if isinstance(value, dict) else None
        if not isinstance(schema, str) or schema not in SCHEMAS:
            return
        add = self._add_strategy if schema == STRATEGY_SCHEMA else self._add_configuration
        self.problems += [_problem(file, document, way, words) for way, words in add(file, document)]

    def _add_strategy(self, _file: str, document: Document) -> Iterator[Fault]:
        value: Any = typed_values(document.value, SCHEMAS[STRATEGY_SCHEMA])
        faults = list(form_faults(value, SCHEMAS[STRATEGY_SCHEMA]))
        yield from faults
        if faults:
            return
        strategy = strategy_from_value(value)
        yield from group_faults(value["data"]["groups"])
        if strategy.name in self._strategies:
            words = f"there is another strategy {strategy.name}; each needs a name of its own"
            yield ("metadata", "name"), words
        self._strategies[strategy.name] = strategy

    def _add_configuration(self, file: str, document: Document) -> Iterator[Fault]:
        faults = list(form_faults(document.value, SCHEMAS[CONFIGURATION_SCHEMA]))
        yield from faults
        if faults:
            return
        if self._configurations:
            other = self._configurations[0][0]
            yield (), f"there is a DeploymentConfiguration in {other} already; expected one at most"
        else:
            self._configurations.append((file, document))

    def documents(self, files: tuple[SourceFile, ...]) -> Documents:
        """Return what was read."""
        chosen = None
        for file, document in self._configurations:
            way, chosen = _choice(document.value)
            if chosen is not None and chosen not in self._strategies and not self.problems:
                expected = one_of(self._strategies) if self._strategies else "a DeploymentStrategy of that name"
                words = f"there is no strategy {chosen}; expected {expected}"
                self.problems.append(_problem(file, document, way, words))
        return Documents(self._strategies, bool(self._configurations), chosen, tuple(self.problems), files)


def _problem(file: str, document: Document, way: Way, words: str) -> Problem:
    line, column = document.place(way)
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in way).removeprefix(".")
    return Problem(words, file, line, column, path or None)


def _choice(value: Any) -> tuple[Way, str | None]:
    """Return which strategy a configuration names, and where."""
    data = value["data"]
    for way, place in (("data",), data), (("data", "physical_provisioner"), data.get("physical_provisioner", {})):
        if "deployment_strategy" in place:
            return (*way, "deployment_strategy"), place["deployment_strategy"]
    return ("data",), None
