"""The documents of rollouts: strategies, the configuration that chooses one, their forms, faults and changes.

Their source is the document "Deployment Grouping for Baremetal Nodes" of Airship's Shipyard. The keys of a group's
pace (``max_parallel``, ``bake_time`` and so on) are additions of this project.
"""

from __future__ import annotations

import graphlib
import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.durations import clock_time, duration_seconds
from zkdeployment.base.values import dataclass
from zkdeployment.documents.forms import NAME, TEXT, Fault, form_faults, mapping_form, one_of
from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.strategies.analysis import INTERVAL, AnalysisMetric, NoData, parse_comparison
from zkdeployment.strategies.queries import query_faults, syntax_fault, variables_in
from zkdeployment.strategies.strategy import (
    ABSENT_AFTER,
    ALL_HOSTS,
    PROGRESS_DEADLINE,
    Criteria,
    Group,
    OnFailure,
    Pace,
    ParallelLimit,
    Selector,
    Strategy,
    Window,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.json_values import Value
    from zkdeployment.base.source_files import Problem
    from zkdeployment.documents.collection import Documents
    from zkdeployment.documents.yaml_values import Way


STRATEGY_SCHEMA = "shipyard/DeploymentStrategy/v1"
CONFIGURATION_SCHEMA = "shipyard/DeploymentConfiguration/v1"

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_NAMES = {"type": "array", "items": NAME}
_COUNT = {"type": "integer", "minimum": 0}
_DURATION = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": 99_999 * 86_400},
        {"type": "string", "pattern": r"^([0-9]{1,9}s|[0-9]{1,8}m|[0-9]{1,6}h|[0-9]{1,5}d)$"},
    ],
    "description": "seconds, or a number with s, m, h or d as in 15m, of at most 99999d",
}
_TIME = {
    "type": "string",
    "pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9]$",
    "description": "a time of day as in 22:30",
}

_LABEL_PART = r"^[^:]*[^:\s][^:]*$"
LABEL = {
    "anyOf": [
        {"type": "string", "pattern": r"^[^:]*[^:\s][^:]*:[^:]*[^:\s][^:]*$"},
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "propertyNames": {"pattern": _LABEL_PART},
            "additionalProperties": {"type": "string", "pattern": _LABEL_PART},
        },
    ],
    "description": "a label as in 'tier: web', with one colon",
}

#: The form of a selector of hosts; other kinds of documents use it, too.
SELECTOR = mapping_form(
    {},
    {
        "node_names": _NAMES,
        "node_tags": _NAMES,
        "node_labels": {"type": "array", "items": LABEL},
        "rack_names": _NAMES,
    },
) | {"minProperties": 1}

_CRITERIA = mapping_form(
    {},
    {
        "percent_successful_nodes": {"type": "integer", "minimum": 0, "maximum": 100},
        "minimum_successful_nodes": _COUNT,
        "maximum_failed_nodes": _COUNT,
    },
) | {"minProperties": 1}

WINDOW = mapping_form(
    {"from": _TIME, "to": _TIME},
    {"days": {"type": "array", "minItems": 1, "items": {"enum": list(DAYS)}}, "zone": NAME},
)

_METRIC = mapping_form(
    {"name": NAME, "query": TEXT, "pass": TEXT},
    {
        "interval": _DURATION,
        "initial_delay": _DURATION,
        "failure_limit": _COUNT,
        "no_data": {"enum": ["wait", "pass", "fail"], "description": "wait, pass or fail"},
        "compare": {"enum": ["others", "before"], "description": "others or before"},
        "dry_run": {"type": "boolean"},
        "server": NAME,
    },
)

_GROUP = mapping_form(
    {
        "name": NAME,
        "critical": {"type": "boolean"},
        "depends_on": _NAMES,
        "selectors": {"type": "array", "items": SELECTOR},
    },
    {
        "success_criteria": _CRITERIA,
        "max_parallel": {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^([1-9][0-9]?|100)%$"},
            ],
            "description": "a number of hosts, or a share as in '25%'",
        },
        "bake_time": _DURATION,
        "prepare_timeout": _DURATION,
        "deploy_timeout": _DURATION,
        "progress_deadline": _DURATION,
        "require_hosts": {"type": "integer", "minimum": 1},
        "manual": {"type": "boolean"},
        "healthy_checks": {"type": "boolean"},
        "windows": {"type": "array", "minItems": 1, "items": WINDOW},
        "analysis": {"type": "array", "minItems": 1, "items": _METRIC},
    },
)

#: The most measurements of a metric.
_MOST_MEASUREMENTS = 1_000_000

_METADATA = {"type": "object", "required": ["name"], "properties": {"name": NAME}}

#: The form of the data of a strategy; the documents of promotions extend it.
STRATEGY_DATA = mapping_form(
    {"groups": {"type": "array", "items": _GROUP}},
    {
        "absent_after": _DURATION,
        "prepare_timeout": _DURATION,
        "deploy_timeout": _DURATION,
        "on_failure": {"enum": ["stop", "rollback"], "description": "stop or rollback"},
    },
)

#: The form of each document, by the value of its key ``schema``.
SCHEMAS: dict[str, dict[str, Any]] = {
    STRATEGY_SCHEMA: mapping_form({"metadata": _METADATA, "data": STRATEGY_DATA}, {"schema": {}}),
    # Shipyard's configuration has many more keys, which are not checked.
    CONFIGURATION_SCHEMA: {
        "type": "object",
        "required": ["data"],
        "properties": {
            "data": {
                "type": "object",
                "properties": {
                    "deployment_strategy": NAME,
                    "physical_provisioner": {"type": "object", "properties": {"deployment_strategy": NAME}},
                },
            },
        },
    },
}


def group_faults(groups: list[dict[str, Any]]) -> Iterator[Fault]:
    """Return the faults of groups of a valid form.

    Faults are duplicate names, unknown or circular dependencies, impossible windows, checks without a bake time,
    and metrics that cannot be measured or judged.
    """
    times = Counter(group["name"] for group in groups)
    for number, group in enumerate(groups):
        way: Way = ("data", "groups", number)
        if times[group["name"]] > 1:
            yield (*way, "name"), f"there are {times[group['name']]} groups {group['name']}; expected one"
        for position, parent in enumerate(group["depends_on"]):
            if parent not in times:
                yield (*way, "depends_on", position), f"there is no group {parent}; expected {one_of(times)}"
        if group.get("healthy_checks") and not _seconds(group.get("bake_time", 0)):
            yield (*way, "healthy_checks"), "expected a bake_time, in which the checks must become OK; found none"
        for position, window in enumerate(group.get("windows", ())):
            yield from window_faults((*way, "windows", position), window)
        yield from _analysis_faults((*way, "analysis"), group)
    try:
        graphlib.TopologicalSorter({group["name"]: group["depends_on"] for group in groups}).prepare()
    except graphlib.CycleError as error:
        circle = list(reversed(error.args[1]))  # graphlib lists a group before the groups that depend on it
        number = next(number for number, group in enumerate(groups) if group["name"] == circle[0])
        message = f"groups depend on each other in a circle: {' > '.join(circle)}"
        yield ("data", "groups", number, "depends_on"), message


def _analysis_faults(way: Way, group: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults of a group's metrics, except for the syntax of their queries."""
    metrics: Sequence[Mapping[str, Any]] = group.get("analysis", ())
    bake_time = _seconds(group.get("bake_time", 0))
    longest = bake_time + _seconds(group.get("progress_deadline", PROGRESS_DEADLINE))
    if metrics and not bake_time:
        yield way, "expected a bake_time, during which the metrics are measured; found none"
    times = Counter(metric["name"] for metric in metrics)
    for number, metric in enumerate(metrics):
        here = (*way, number)
        if times[metric["name"]] > 1:
            yield (
                (*here, "name"),
                f"there are {times[metric['name']]} metrics {metric['name']} in the group; expected one",
            )
        interval = _seconds(metric.get("interval", INTERVAL))
        if interval * _MOST_MEASUREMENTS <= longest:
            yield (
                (*here, "interval"),
                f"expected more than {longest / _MOST_MEASUREMENTS:g} s between two, found {interval:g} s",
            )
        yield from (((*here, "query"), fault) for fault in query_faults(metric["query"]))
        try:
            parse_comparison(metric["pass"])
        except ValueError as error:
            yield (*here, "pass"), str(error)


def _syntax_faults(groups: list[dict[str, Any]]) -> Iterator[Fault]:
    """Yield the faults that PromQL's parser finds in queries without other faults."""
    for number, group in enumerate(groups):
        for position, metric in enumerate(group.get("analysis", ())):
            fault = "" if any(query_faults(metric["query"])) else syntax_fault(metric["query"])
            if fault:
                yield ("data", "groups", number, "analysis", position, "query"), fault


def group_advice(groups: Iterable[Group]) -> Iterator[Fault]:
    """Return advice for critical groups that would succeed with selectors that match no host, and for metrics.

    Metrics may be late for the bake time, or compare a query with itself.
    """
    for number, group in enumerate(groups):
        selective = group.selectors and all(selector != Selector() for selector in group.selectors)
        if group.critical and selective and group.require_hosts is None:
            way = ("data", "groups", number, "selectors")
            yield (
                way,
                f"critical group {group.name} may be empty; add require_hosts: N, the hosts that it waits for",
            )
        for position, metric in enumerate(group.pace.analysis):
            if metric.initial_delay > group.pace.bake_time:
                key = "interval" if metric.initial_delay == metric.interval else "initial_delay"
                yield (
                    ("data", "groups", number, "analysis", position, key),
                    f"metric {metric.name} is not measured within the bake time of {group.name}",
                )
            if metric.uses("others") and not variables_in(metric.query) & {"instances", "hosts"}:
                yield (
                    ("data", "groups", number, "analysis", position, "query"),
                    f"metric {metric.name} compares a query with itself; expected $instances or $hosts in it",
                )


def window_faults(way: Way, window: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault for an unknown time zone, and for a window that ends when it starts."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415  agents need less memory without it

    try:
        ZoneInfo(window.get("zone", "UTC"))
    except (KeyError, ValueError, OSError):
        yield (*way, "zone"), f"there is no time zone {window['zone']}; expected a name as in Europe/Berlin"
    if window["from"] == window["to"]:
        yield way, "the window ends when it starts; expected two different times"


def strategy_to_json(strategy: Strategy) -> dict[str, object]:
    """Return a strategy in the form of its document; equal strategies give equal values."""
    data = {
        "groups": [_group_to_json(group) for group in strategy.groups],
        "absent_after": None if strategy.absent_after == ABSENT_AFTER else strategy.absent_after,
        "prepare_timeout": strategy.prepare_timeout,
        "deploy_timeout": strategy.deploy_timeout,
        "on_failure": None if strategy.on_failure is OnFailure.STOP else strategy.on_failure.value,
    }
    return {"schema": STRATEGY_SCHEMA, "metadata": {"name": strategy.name}, "data": _given(data)}


def strategy_from_json(value: object) -> Strategy:
    """Return the strategy that ``strategy_to_json`` encoded; raises ``ValueError`` for an invalid one."""
    document: Any = value
    faults = list(form_faults(document, SCHEMAS[STRATEGY_SCHEMA]))
    for _, message in faults or group_faults(document["data"]["groups"]):
        raise ValueError(f"not a valid strategy: {message}")
    return strategy_from_value(document)


def strategy_from_value(value: Any) -> Strategy:
    """Return the strategy in a document of a valid form."""
    data = value["data"]
    return Strategy(
        value["metadata"]["name"],
        tuple(_group(group) for group in data["groups"]),
        absent_after=_seconds(data.get("absent_after", ABSENT_AFTER)),
        prepare_timeout=_optional_seconds(data.get("prepare_timeout")),
        deploy_timeout=_optional_seconds(data.get("deploy_timeout")),
        on_failure=OnFailure(data.get("on_failure", OnFailure.STOP.value)),
    )


def _group(value: Mapping[str, Any]) -> Group:
    criteria = value.get("success_criteria", {})
    return Group(
        name=value["name"],
        critical=value["critical"],
        depends_on=tuple(dict.fromkeys(value["depends_on"])),
        selectors=tuple(selector_from_value(selector) for selector in value["selectors"]),
        criteria=Criteria(
            percent_successful=_optional_count(criteria.get("percent_successful_nodes")),
            minimum_successful=_optional_count(criteria.get("minimum_successful_nodes")),
            maximum_failed=_optional_count(criteria.get("maximum_failed_nodes")),
        ),
        pace=Pace(
            max_parallel=_share(value.get("max_parallel")),
            bake_time=_seconds(value.get("bake_time", 0)),
            prepare_timeout=_optional_seconds(value.get("prepare_timeout")),
            deploy_timeout=_optional_seconds(value.get("deploy_timeout")),
            progress_deadline=_optional_seconds(value.get("progress_deadline")),
            manual=value.get("manual", False),
            windows=tuple(window_from_json(window) for window in value.get("windows", ())),
            healthy_checks=value.get("healthy_checks", False),
            analysis=tuple(_metric(metric) for metric in value.get("analysis", ())),
        ),
        require_hosts=_optional_count(value.get("require_hosts")),
    )


def _metric(value: Mapping[str, Any]) -> AnalysisMetric:
    interval = _seconds(value.get("interval", INTERVAL))
    return AnalysisMetric(
        name=value["name"],
        query=value["query"],
        passes=parse_comparison(value["pass"]),
        interval=interval,
        initial_delay=_seconds(value.get("initial_delay", interval)),
        failure_limit=int(value.get("failure_limit", 0)),
        no_data=NoData(value.get("no_data", NoData.WAITS.value)),
        compare=value.get("compare", ""),
        dry_run=value.get("dry_run", False),
        server=value.get("server", ""),
    )


def selector_from_value(value: Mapping[str, Any]) -> Selector:
    """Return the selector of hosts in a value of a valid form."""
    return Selector(
        names=frozenset(value.get("node_names", ())),
        tags=frozenset(value.get("node_tags", ())),
        labels=frozenset(label_from_value(label) for label in value.get("node_labels", ())),
        racks=frozenset(value.get("rack_names", ())),
    )


def label_from_value(value: str | Mapping[str, str]) -> tuple[str, str]:
    """Return a label from the text ``key: value``, or from the mapping that YAML reads without quotes."""
    if isinstance(value, str):
        key, _, content = value.partition(":")
        return key.strip(), content.strip()
    ((key, content),) = value.items()
    return key.strip(), content.strip()


def _seconds(value: float | str) -> float:
    return (duration_seconds(value, math.inf) or 0.0) if isinstance(value, str) else float(value)


def _optional_seconds(value: float | str | None) -> float | None:
    return None if value is None else _seconds(value)


def _optional_count(value: float | None) -> int | None:
    """Return a count, which a document may also give as a float without a fraction (JSON has no integers)."""
    return None if value is None else int(value)


def _share(value: float | str | None) -> ParallelLimit | None:
    if isinstance(value, str):
        return ParallelLimit(int(value.removesuffix("%")), percent=True)
    return None if value is None else ParallelLimit(int(value))


def window_from_json(value: Mapping[str, Any]) -> Window:
    """Return the window that a part of a valid document describes."""
    days = frozenset(DAYS.index(day) for day in value.get("days", DAYS))
    return Window(days, _minutes(value["from"]), _minutes(value["to"]), value.get("zone", "UTC"))


def _minutes(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


# Encoding


def _group_to_json(group: Group) -> dict[str, object]:
    criteria = {
        "percent_successful_nodes": group.criteria.percent_successful,
        "minimum_successful_nodes": group.criteria.minimum_successful,
        "maximum_failed_nodes": group.criteria.maximum_failed,
    }
    pace = group.pace
    values = {
        "name": group.name,
        "critical": group.critical,
        "depends_on": list(group.depends_on),
        "selectors": [_selector_to_json(selector) for selector in group.selectors],
        "success_criteria": _given(criteria) or None,
        "require_hosts": group.require_hosts,
        "max_parallel": None if pace.max_parallel is None else _share_to_json(pace.max_parallel),
        "bake_time": pace.bake_time or None,
        "prepare_timeout": pace.prepare_timeout,
        "deploy_timeout": pace.deploy_timeout,
        "progress_deadline": pace.progress_deadline,
        "manual": pace.manual or None,
        "windows": [_window_to_json(window) for window in pace.windows] or None,
        "healthy_checks": pace.healthy_checks or None,
        "analysis": [_metric_to_json(metric) for metric in pace.analysis] or None,
    }
    return _given(values)


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _selector_to_json(selector: Selector) -> dict[str, object]:
    return {
        "node_names": sorted(selector.names),
        "node_tags": sorted(selector.tags),
        "node_labels": sorted(f"{key}: {value}" for key, value in selector.labels),
        "rack_names": sorted(selector.racks),
    }


def _share_to_json(share: ParallelLimit) -> int | str:
    return f"{share.number}%" if share.percent else share.number


def _window_to_json(window: Window) -> dict[str, object]:
    return {
        "days": [DAYS[day] for day in sorted(window.days)],
        "from": clock_time(window.start),
        "to": clock_time(window.end),
        "zone": window.zone,
    }


def _metric_to_json(metric: AnalysisMetric) -> dict[str, object]:
    values = {
        "name": metric.name,
        "query": metric.query,
        "pass": metric.passes.text,
        "interval": metric.interval,
        "initial_delay": None if metric.initial_delay == metric.interval else metric.initial_delay,
        "failure_limit": metric.failure_limit or None,
        "no_data": None if metric.no_data is NoData.WAITS else metric.no_data.value,
        "compare": metric.compare or None,
        "dry_run": metric.dry_run or None,
        "server": metric.server or None,
    }
    return _given(values)


_CHOICE = "deployment_strategy"
_CHOICES: tuple[Way, ...] = (("data", _CHOICE), ("data", "physical_provisioner", _CHOICE))


def choice_faults(value: Any) -> Iterator[Fault]:
    """Return the faults of misspelt keys for the choice of a strategy, and of contradicting choices."""
    yield from _near_choices((), value)
    named = {way: name for way, name in _choices(value) if isinstance(name, str)}
    if len(set(named.values())) > 1:
        yield _CHOICES[1], f"expected one strategy, found {' and '.join(named.values())}"


def choice(value: Any) -> tuple[Way, str | None]:
    """Return the place and the name of the strategy that a valid configuration chooses."""
    return next(_choices(value), (("data",), None))


def _choices(value: Any) -> Iterator[tuple[Way, Any]]:
    for way in _CHOICES:
        place = value
        for key in way:
            place = place.get(key) if isinstance(place, dict) else None
        if place is not None:
            yield way, place


def _near_choices(way: Way, value: object) -> Iterator[Fault]:
    if not isinstance(value, dict):
        return
    import difflib  # noqa: PLC0415  agents need less memory without it

    for key, content in value.items():
        here = (*way, key)
        name = key.lower().replace("-", "_")
        if here not in _CHOICES and difflib.get_close_matches(name, [_CHOICE], cutoff=0.85):
            yield here, f"{key} chooses no strategy here; expected {_CHOICE} in data"
        yield from _near_choices(here, content)


def strategy_faults(groups: list[dict[str, Any]]) -> Iterator[Fault]:
    """Yield the faults of groups of a valid form, also those that PromQL's parser finds."""
    yield from group_faults(groups)
    yield from _syntax_faults(groups)


def _group_advice(value: Any) -> Iterator[Fault]:
    return group_advice(strategy_from_value(value).groups)


def _chosen_name(value: Any) -> str | None:
    return choice(value)[1]


STRATEGY: DocumentKind[Strategy] = DocumentKind(
    name="strategy",
    schema=STRATEGY_SCHEMA,
    form=SCHEMAS[STRATEGY_SCHEMA],
    parse=strategy_from_value,
    subject=lambda value: (value["metadata"]["name"],),
    faults=lambda value: strategy_faults(value["data"]["groups"]),
    advice=_group_advice,
    has_own_changes=True,
)

#: The value is the name of the strategy that the configuration chooses, ``None`` if it chooses none.
CONFIGURATION: DocumentKind[str | None] = DocumentKind(
    name="configuration",
    schema=CONFIGURATION_SCHEMA,
    form=SCHEMAS[CONFIGURATION_SCHEMA],
    parse=_chosen_name,
    subject=lambda _: (),
    place=(),
    faults=choice_faults,
    typed=False,
    has_own_changes=True,
)


#: The strategy's name where the configuration names none.
DEFAULT_NAME = "deployment-strategy"


def strategies(documents: Documents) -> dict[str, Strategy]:
    """Return the strategies of a revision by name."""
    return {name: strategy for (name,), strategy in documents.of(STRATEGY).items()}


def strategy_in_force(documents: Documents) -> Strategy | None:
    """Return the fleet's strategy, ``None`` if it has none; only meaningful for documents without ``errors``."""
    configurations = [*documents.of(CONFIGURATION).values()]
    chosen = next(iter(configurations), None)
    if chosen is not None:
        return strategies(documents).get(chosen)
    return strategies(documents).get(DEFAULT_NAME, ALL_HOSTS if configurations else None)


def judge_choice(documents: Documents) -> Documents:
    """Return valid documents with the problems of a missing strategy and of strategies that are not in force.

    A strategy that is not in force is an error, unless another one is: then the fleet has a strategy.
    """
    configuration = documents.entries.get((CONFIGURATION.name, ()))
    way, chosen = (("data",), None) if configuration is None else choice(configuration.content)
    names = strategies(documents)
    if configuration is not None and chosen is not None and chosen not in names:
        expected = one_of(names) if names else "a DeploymentStrategy of that name"
        problem = configuration.problem(way, f"there is no strategy {chosen}; expected {expected}")
        return replace(documents, problems=(problem,))
    in_force = chosen or DEFAULT_NAME
    unused = tuple(_unused_strategies(documents, in_force))
    return replace(documents, spare=unused) if in_force in names else replace(documents, unused=unused)


def _unused_strategies(documents: Documents, in_force: str) -> Iterator[Problem]:
    """Yield a problem for each strategy that is not ``in_force``, at the place of its name."""
    for entry in documents.entries.values():
        name = "".join(entry.subject)
        if entry.kind.name != STRATEGY.name or name == in_force:
            continue
        configure = f"data: {{deployment_strategy: {name}}} in a DeploymentConfiguration"
        if (STRATEGY.name, (in_force,)) in documents.entries:
            message = f"strategy {name} is not in force, {in_force} is; remove it, or choose it with {configure}"
        else:
            message = f"strategy {name} is not in force; name it {DEFAULT_NAME}, or choose it with {configure}"
        yield entry.problem(STRATEGY.place, message)


@dataclass(frozen=True, slots=True)
class StrategyChange:
    """The published strategy and the next one; without a strategy, only locks limit which hosts deploy."""

    before: Strategy | None = None
    after: Strategy | None = None

    def __bool__(self) -> bool:
        return self.before != self.after

    @property
    def kind(self) -> str:
        """The kind of the change: ``added``, ``changed`` or ``deleted``."""
        return "added" if self.before is None else "deleted" if self.after is None else "changed"

    def describe(self) -> Iterator[str]:
        """Return one line for each changed strategy and group."""
        old, new = _name(self.before), _name(self.after)
        if old == new and self:
            yield f"change strategy {new}"
        elif old != new:
            yield from (f"delete strategy {name}" for name in (old,) if name is not None)
            yield from (f"add strategy {name}" for name in (new,) if name is not None)
        for kind, groups in self._groups().items():
            yield from (f"{_VERBS[kind]} group {group}" for group in groups)

    def to_json(self) -> dict[str, Value]:
        """Return the change as ``-o json`` prints it."""
        return {
            "before": _name(self.before),
            "after": _name(self.after),
            "groups": {kind: [*groups] for kind, groups in self._groups().items()},
        }

    def _groups(self) -> dict[str, list[str]]:
        """Return the names of the groups that are added, changed and deleted, in the order of their documents."""
        old, new = _groups(self.before), _groups(self.after)
        return {
            "added": [name for name in new if name not in old],
            "changed": [name for name in new if name in old and new[name] != old[name]],
            "deleted": [name for name in old if name not in new],
        }


_VERBS = {"added": "add", "changed": "change", "deleted": "delete"}


def _name(strategy: Strategy | None) -> str | None:
    return None if strategy is None else strategy.name


def _groups(strategy: Strategy | None) -> dict[str, Group]:
    return {} if strategy is None else {group.name: group for group in strategy.groups}


DOCUMENT_KINDS: tuple[DocumentKind[Any], ...] = (STRATEGY, CONFIGURATION)
DOCUMENT_RULES = (judge_choice,)
