"""From YAML files to strategies, with every error of every file."""

from __future__ import annotations

import graphlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from zoneinfo import ZoneInfo

from zkdeployment.model.problem import Problem
from zkdeployment.model.strategy import ALL_HOSTS, Criteria, Group, Pace, Selector, Share, Strategy, Window
from zkdeployment.rollout.schema import CONFIGURATION_SCHEMA, DAYS, SCHEMAS, form_faults
from zkdeployment.rollout.yaml_values import Document, Way, YamlTextError, read_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.publication import SourceFile

#: The strategy's name where the configuration names none.
DEFAULT_NAME = "deployment-strategy"

SUFFIXES = (".yaml", ".yml")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

#: What is wrong with one document, and where.
_Fault: TypeAlias = "tuple[Way, str]"


@dataclass(frozen=True, slots=True)
class Documents:
    """What YAML files say of rollouts.

    ``configured`` says whether there is a configuration, ``chosen`` which strategy it names. With ``problems`` the
    rest is what could be understood.
    """

    strategies: Mapping[str, Strategy] = field(default_factory=dict)
    configured: bool = False
    chosen: str | None = None
    problems: tuple[Problem, ...] = ()

    def strategy(self) -> Strategy | None:
        """Return the fleet's strategy, once there are no problems; ``None`` if it goes without."""
        if self.chosen is not None:
            return self.strategies[self.chosen]
        return self.strategies.get(DEFAULT_NAME, ALL_HOSTS if self.configured else None)


def read_strategies(files: Iterable[SourceFile]) -> Documents:
    """Read and check the rollout documents of YAML files.

    Documents that are about something else are ignored, and so are other files.
    """
    collection = _Collection()
    for file in sorted(files, key=lambda file: file.name):
        if not file.name.endswith(SUFFIXES):
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
    return collection.documents()


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
        faults = list(form_faults(value, SCHEMAS[schema]))
        if not faults and schema == CONFIGURATION_SCHEMA:
            if self._configurations:
                other = self._configurations[0][0]
                faults = [((), f"there is a DeploymentConfiguration in {other} already; expected one at most")]
            else:
                self._configurations.append((file, document))
        elif not faults:
            faults = [*_group_faults(value["data"]["groups"]), *self._add_strategy(_strategy(value))]
        self.problems += [_problem(file, document, way, words) for way, words in faults]

    def _add_strategy(self, strategy: Strategy) -> Iterator[_Fault]:
        if strategy.name in self._strategies:
            words = f"there is another strategy {strategy.name}; each needs a name of its own"
            yield ("metadata", "name"), words
        self._strategies[strategy.name] = strategy

    def documents(self) -> Documents:
        """Return what was read."""
        chosen = None
        for file, document in self._configurations:
            way, chosen = _choice(document.value)
            if chosen is not None and chosen not in self._strategies and not self.problems:
                words = f"there is no strategy {chosen}; expected {_one_of(self._strategies)}"
                self.problems.append(_problem(file, document, way, words))
        return Documents(self._strategies, bool(self._configurations), chosen, tuple(self.problems))


def _one_of(names: Iterable[str]) -> str:
    listed = ", ".join(sorted(names))
    return f"one of: {listed}" if listed else "a DeploymentStrategy document of that name"


def _problem(file: str, document: Document, way: Way, words: str) -> Problem:
    line, column = document.place(way)
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in way).removeprefix(".")
    return Problem(words, file, line, column, path or None)


# What is wrong with one document


def _group_faults(groups: list[dict[str, Any]]) -> Iterator[_Fault]:
    """Check what groups of a sound form say of each other."""
    times = Counter(group["name"] for group in groups)
    for number, group in enumerate(groups):
        way: Way = ("data", "groups", number)
        if times[group["name"]] > 1:
            yield (*way, "name"), f"there are {times[group['name']]} groups {group['name']}; expected one"
        for position, parent in enumerate(group["depends_on"]):
            if parent not in times:
                yield (*way, "depends_on", position), f"there is no group {parent}; expected {_one_of(times)}"
        for position, window in enumerate(group.get("windows", ())):
            yield from _window_faults((*way, "windows", position), window)
    try:
        graphlib.TopologicalSorter({group["name"]: group["depends_on"] for group in groups}).prepare()
    except graphlib.CycleError as error:
        circle = list(reversed(error.args[1]))  # graphlib goes from a group to those that depend on it
        number = next(number for number, group in enumerate(groups) if group["name"] == circle[0])
        words = f"groups depend on each other in a circle: {' > '.join(circle)}"
        yield ("data", "groups", number, "depends_on"), words


def _window_faults(way: Way, window: Mapping[str, str]) -> Iterator[_Fault]:
    try:
        ZoneInfo(window.get("zone", "UTC"))
    except (KeyError, ValueError, OSError):
        yield (*way, "zone"), f"there is no time zone {window['zone']}; expected a name as in Europe/Berlin"
    if window["from"] == window["to"]:
        yield way, "the window ends when it starts; expected two different times"


# From checked values to ours


def _choice(value: Any) -> tuple[Way, str | None]:
    """Return which strategy a configuration names, and where."""
    data = value["data"]
    for way, place in (("data",), data), (("data", "physical_provisioner"), data.get("physical_provisioner", {})):
        if "deployment_strategy" in place:
            return (*way, "deployment_strategy"), place["deployment_strategy"]
    return ("data",), None


def _strategy(value: Any) -> Strategy:
    return Strategy(value["metadata"]["name"], tuple(_group(group) for group in value["data"]["groups"]))


def _group(value: Mapping[str, Any]) -> Group:
    criteria = value.get("success_criteria", {})
    return Group(
        name=value["name"],
        critical=value["critical"],
        depends_on=tuple(dict.fromkeys(value["depends_on"])),
        selectors=tuple(_selector(selector) for selector in value["selectors"]),
        criteria=Criteria(
            percent_successful=criteria.get("percent_successful_nodes"),
            minimum_successful=criteria.get("minimum_successful_nodes"),
            maximum_failed=criteria.get("maximum_failed_nodes"),
        ),
        pace=Pace(
            max_parallel=_share(value.get("max_parallel")),
            bake_time=_seconds(value.get("bake_time")) or 0.0,
            prepare_timeout=_seconds(value.get("prepare_timeout")),
            deploy_timeout=_seconds(value.get("deploy_timeout")),
            progress_deadline=_seconds(value.get("progress_deadline")),
            manual=value.get("manual", False),
            windows=tuple(_window(window) for window in value.get("windows", ())),
        ),
    )


def _selector(value: Mapping[str, Any]) -> Selector:
    return Selector(
        names=frozenset(value.get("node_names", ())),
        tags=frozenset(value.get("node_tags", ())),
        labels=frozenset(_label(label) for label in value.get("node_labels", ())),
        racks=frozenset(value.get("rack_names", ())),
    )


def _label(value: str | Mapping[str, object]) -> tuple[str, str]:
    """Read ``key: value`` as text, or as the mapping that YAML makes of it without quotes."""
    if isinstance(value, str):
        key, _, content = value.partition(":")
        return key.strip(), content.strip()
    ((key, found),) = value.items()
    return key.strip(), str(found).lower() if isinstance(found, bool) else str(found).strip()


def _seconds(value: float | str | None) -> float | None:
    if isinstance(value, str):
        return float(value[:-1]) * _UNITS[value[-1]]
    return None if value is None else float(value)


def _share(value: int | str | None) -> Share | None:
    if isinstance(value, str):
        return Share(int(value.removesuffix("%")), percent=True)
    return None if value is None else Share(value)


def _window(value: Mapping[str, Any]) -> Window:
    days = frozenset(DAYS.index(day) for day in value.get("days", DAYS))
    return Window(days, _minutes(value["from"]), _minutes(value["to"]), value.get("zone", "UTC"))


def _minutes(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)
