"""The simulation of a rollout, and the order in which hosts deploy a tree under its strategy."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from zkdeployment.base.host import Facts, Host, is_host_name
from zkdeployment.base.values import dataclass
from zkdeployment.strategies.analysis import (
    AnalysisMetric,
    MetricProgress,
    Series,
    describe_failure,
    describe_waiting,
    play,
    verdict,
)
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.state_machine import (
    GroupProgress,
    GroupVerdict,
    HostProgress,
    Rollout,
    Task,
    begin,
    hold,
    is_closed,
    next_task,
    record,
    width,
)
from zkdeployment.strategies.strategy import Group, Strategy, unmatched_selectors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.json_values import Value
    from zkdeployment.base.publication import Targets


@dataclass(frozen=True, slots=True)
class Faults:
    """The simulated failures: hosts that fail in each phase, and phases of groups that time out."""

    prepare: frozenset[str] = frozenset()
    deploy: frozenset[str] = frozenset()
    times_out: frozenset[tuple[str, Phase]] = frozenset()


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulated rollout: ``analyses`` has the metrics of each group, if values were played.

    ``waiting`` are the groups with a metric that waited for data in vain.
    """

    rollout: Rollout
    analyses: Mapping[str, Mapping[str, MetricProgress]] | None = None
    waiting: frozenset[str] = frozenset()

    @property
    def result(self) -> str:
        """The outcome of the rollout: ``waiting``, or a ``RolloutResult``."""
        groups = self.rollout.strategy.groups
        needed = {parent for group in groups for parent in group.depends_on}
        needed |= {group.name for group in groups if group.critical}
        return "waiting" if needed & self.waiting else self.rollout.result.value


#: The values of metrics, by group and metric.
Measures: TypeAlias = "Mapping[str, Mapping[str, Series]]"


def simulate(
    strategy: Strategy, hosts: Mapping[str, Facts], faults: Faults, measures: Measures | None = None
) -> Simulation:
    """Return the ended rollout; the hosts of a group enter each phase in waves of ``max_parallel``.

    Without ``measures`` all analyses pass.
    """
    rollout, waiting = begin(strategy, hosts), set[str]()
    analyses = {group.name: _unmeasured(group) for group in strategy.groups}
    while (task := next_task(rollout)) is not None:
        group = strategy.group(task.group)
        required, present = group.require_hosts or 0, len(rollout.members[task.group])
        if present < required:
            fault = f"it would wait: requires {required} hosts, found {present}"
            rollout = record(rollout, replace(task, hosts=()), (), fault=fault)
            continue
        times_out = bool(task.hosts) and (task.group, task.phase) in faults.times_out
        failing = faults.prepare if task.phase is Phase.PREPARE else faults.deploy
        entered = _entered(rollout, task, failing, waves=1 if times_out else None)
        succeeded = frozenset() if times_out else frozenset(entered) - failing
        fault = (
            f"{len(task.hosts)} of {len(task.hosts)} hosts did not end in time" if times_out and entered else ""
        )
        task = replace(task, hosts=entered)
        judged = record(rollout, task, succeeded, fault=fault)
        if measures is not None and _is_analysed(judged, group):
            analyses[group.name] = play(
                group.pace.analysis, group.pace.analysis_clock, measures.get(group.name, {})
            )
            fault = describe_failure(group.pace.analysis, analyses[group.name])
            if fault:
                judged = record(rollout, task, succeeded, fault=fault)
            elif describe_waiting(group.pace.analysis, analyses[group.name]):
                judged = hold(rollout, task, succeeded)
                waiting.add(group.name)
        rollout = judged
    return Simulation(rollout, None if measures is None else analyses, frozenset(waiting))


def _unmeasured(group: Group) -> Mapping[str, MetricProgress]:
    return {metric.name: MetricProgress() for metric in group.pace.analysis}


def _is_analysed(rollout: Rollout, group: Group) -> bool:
    """Whether all hosts of a group are done and the bake time begins: some have succeeded."""
    deployed = rollout.progress[group.name].verdict is GroupVerdict.SUCCESS
    return deployed and any(rollout.hosts[host] is HostProgress.SUCCESS for host in rollout.members[group.name])


def _entered(rollout: Rollout, task: Task, failing: frozenset[str], waves: int | None) -> tuple[str, ...]:
    """Return the hosts that enter a phase, wave by wave, until the group is certain to miss its criteria."""
    size, entered = width(rollout, task.group), 0
    limit = len(task.hosts) if waves is None else waves * size
    while entered < min(limit, len(task.hosts)):
        failed = failing.intersection(task.hosts[:entered])
        if is_closed(rollout, task, begun=entered > 0, failed=failed):
            break
        entered += size
    return task.hosts[:entered]


def summarize(simulation: Simulation) -> dict[str, object]:
    """Return an ended rollout as plain data."""
    rollout = simulation.rollout
    return {
        "members": {name: sorted(hosts) for name, hosts in rollout.members.items()},
        "order": list(rollout.order),
        "sent": {
            name: {phase.value: list(progress.submitted.get(phase, ())) for phase in Phase}
            for name, progress in rollout.progress.items()
        },
        "groups": {group.name: _summarize_group(simulation, group) for group in rollout.strategy.groups},
        "hosts": {name: state.value for name, state in rollout.hosts.items()},
        "critical_failed": rollout.critical_failed,
        "result": simulation.result,
    }


def _summarize_group(simulation: Simulation, group: Group) -> dict[str, object]:
    progress = simulation.rollout.progress[group.name]
    values: dict[str, object] = {phase.value: phase_result(progress, phase) for phase in Phase}
    values |= {"result": group_result(progress), "critical": group.critical}
    values["reason"] = group_reason(simulation, group)
    if simulation.analyses is not None:
        analysis = simulation.analyses[group.name]
        values["analysis"] = {
            metric.name: _summarize_metric(metric, analysis[metric.name]) for metric in group.pace.analysis
        }
    return values


def phase_result(progress: GroupProgress, phase: Phase) -> str:
    """Return the outcome of a phase of a simulated group; ``waiting`` without a verdict."""
    verdict = progress.verdicts.get(phase)
    return "waiting" if verdict is None else verdict.value


def group_result(progress: GroupProgress) -> str:
    """Return the outcome of a simulated group; ``waiting`` without a verdict."""
    return "waiting" if progress.verdict is None else progress.verdict.value


def group_reason(simulation: Simulation, group: Group) -> str:
    """Return why a simulated group failed, or for what it waits."""
    progress = simulation.rollout.progress[group.name]
    if progress.verdict is not None:
        return progress.reason
    if group.name in simulation.waiting and simulation.analyses is not None:
        return f"waits for an operator: {describe_waiting(group.pace.analysis, simulation.analyses[group.name])}"
    return f"after {', '.join(group.depends_on)}"


def _summarize_metric(metric: AnalysisMetric, progress: MetricProgress) -> dict[str, object]:
    return {
        "verdict": verdict(metric, progress),
        "passed": progress.passed,
        "failed": progress.failed,
        "no_data": progress.no_data,
    }


#: Numbers, NaN and infinities, as YAML and Prometheus write them.
_NUMERIC = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|\.?nan|[+-]?\.?inf", re.ASCII | re.IGNORECASE
)

#: The most characters of an invalid value that a message shows.
_LONGEST = 100

_VALUE = {"type": ["number", "null", "string"], "description": "a number, NaN, +Inf, -Inf or null"}

#: The form of a file of measures: ``{GROUP: {METRIC: [[SECONDS, VALUE], …], "METRIC.before": VALUE}}``.
MEASURES: dict[str, Any] = {
    "type": "object",
    "description": "a mapping of groups to their metrics",
    "additionalProperties": {
        "type": "object",
        "description": "a mapping of metrics to their values",
        "additionalProperties": {
            "anyOf": [
                {
                    "type": "array",
                    "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": _VALUE},
                },
                _VALUE,
            ],
            "description": "a list of [SECONDS, VALUE], or the VALUE of METRIC.before",
        },
    },
}


def read_measures(value: Mapping[str, Mapping[str, Any]], strategy: Strategy) -> Measures:
    """Return the values of metrics in a value of the form ``MEASURES``.

    Raises ``ValueError`` for the name of a group or metric that the strategy does not have, and for values that
    are no numbers.
    """
    groups = {group.name: group.pace.analysis for group in strategy.groups}
    found: dict[str, dict[str, Series]] = {}
    for group, values in value.items():
        if group not in groups:
            raise ValueError(f"there is no group {group}; expected {_one_of(groups)}")
        names = [metric.name for metric in groups[group]]
        series = dict.fromkeys(names, Series())
        for key, content in values.items():
            name, _, part = (key, "", "values") if key in names else key.rpartition(".")
            if name not in names or part not in {"values", "others", "before"}:
                expected = _one_of(names) if names else "nothing: the group has no analysis"
                raise ValueError(f"{group}: there is no metric {key}; expected {expected}")
            try:
                match part:
                    case "before":
                        series[name] = replace(series[name], before=_reading(content))
                    case "others":
                        series[name] = replace(series[name], others=_timed(content))
                    case _:
                        series[name] = replace(series[name], values=_timed(content))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{group}: {key}: {error}") from error
        found[group] = series
    return found


def _one_of(names: Iterable[str]) -> str:
    return f"one of: {', '.join(names)}"


def _timed(content: Any) -> tuple[tuple[float, float | None], ...]:
    if not isinstance(content, list):
        raise TypeError(f"expected a list of [SECONDS, VALUE], found {content!r}")
    pairs = []
    for since, value in content:
        seconds = _reading(since)
        if seconds is None or not math.isfinite(seconds):
            raise ValueError(f"expected seconds, found {since!r}")
        pairs.append((seconds, _reading(value)))
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def _reading(value: Any) -> float | None:
    """Return a number, ``NaN`` or an infinity; ``None`` for no value."""
    if value is None:
        return None
    if isinstance(value, int | float) and abs(value) <= sys.float_info.max:
        return float(value)
    if isinstance(value, str) and _NUMERIC.fullmatch(value):
        return float(value.lower().replace(".nan", "nan").replace(".inf", "inf"))
    raise ValueError(f"expected a number, NaN, +Inf, -Inf or null, found {ascii(value)[:_LONGEST]}")


@dataclass(frozen=True, slots=True)
class Turn:
    """One group: the ids of the ``hosts`` that deploy with the group.

    ``before`` are the ids of members that deploy with an earlier group. ``fault`` is the reason why the group
    fails although no host fails.
    """

    group: Group
    hosts: tuple[str, ...]
    before: tuple[str, ...] = ()
    fault: str = ""

    def to_json(self) -> dict[str, Value]:
        """Return the JSON form, as ``-o json`` prints it."""
        return {
            "name": self.group.name,
            "critical": self.group.critical,
            "depends_on": [*self.group.depends_on],
            "manual": self.group.pace.manual,
            "hosts": [*self.hosts],
            "before": [*self.before],
            "fault": self.fault or None,
            **({"analysis": [*self.decides]} if self.decides else {}),
        }

    @property
    def decides(self) -> tuple[str, ...]:
        """The metrics that decide whether the group succeeds, each with its comparison."""
        return tuple(
            f"{metric.name} {metric.passes.text.strip()}"
            for metric in self.group.pace.analysis
            if not metric.dry_run
        )


@dataclass(frozen=True, slots=True)
class Order:
    """The groups in the order of their rollout, then groups that never begin; ``others`` are hosts in no group.

    ``warnings`` name the selectors that match no known host.
    """

    strategy: str
    turns: tuple[Turn, ...]
    others: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def only(self, hosts: Collection[str]) -> Order:
        """Return the order of these hosts alone."""
        turns = (
            replace(turn, hosts=_selected(turn.hosts, hosts), before=_selected(turn.before, hosts))
            for turn in self.turns
        )
        return replace(self, turns=tuple(turns), others=_selected(self.others, hosts))

    def to_json(self) -> dict[str, Value]:
        """Return the JSON form, as ``-o json`` prints it."""
        return {
            "strategy": self.strategy,
            "groups": [turn.to_json() for turn in self.turns],
            "others": [*self.others],
            "warnings": [*self.warnings],
        }


def order(strategy: Strategy, hosts: Iterable[Host], known: Iterable[KnownHost], targets: Targets) -> Order:
    """Return the order for registered ``hosts``, ``known`` hosts and hosts that only targets name."""
    known_hosts = {host.identity.id: host for host in known} | {host.identity.id: host for host in hosts}
    facts = _facts(known_hosts, targets)
    rollout = simulate(strategy, facts, Faults()).rollout
    begun = [strategy.group(name) for name in rollout.order]
    turns = []
    for group in (*begun, *(group for group in strategy.groups if group not in begun)):
        progress, members = rollout.progress[group.name], rollout.members[group.name]
        submitted = progress.submitted.get(Phase.PREPARE, ())
        before = tuple(sorted(members.difference(submitted))) if group in begun else ()
        fault = progress.reason if progress.verdict is GroupVerdict.FAILED else ""
        turns.append(Turn(group, submitted if group in begun else tuple(sorted(members)), before, fault))
    grouped = frozenset[str]().union(*rollout.members.values())
    others = tuple(sorted(name for name in facts.keys() - grouped if not facts[name].is_leasable))
    known_facts = {host_id: host.facts for host_id, host in known_hosts.items()}
    return Order(strategy.name, tuple(turns), others, unmatched_selectors(strategy, known_facts))


def _facts(hosts: Mapping[str, Host | KnownHost], targets: Targets) -> Mapping[str, Facts]:
    names = {name for host in hosts.values() for name in host.identity.target_names}
    unknown = {name: Facts() for name in targets if name not in names and is_host_name(name)}
    return unknown | {host_id: host.facts for host_id, host in hosts.items()}


def _selected(hosts: Iterable[str], wanted: Collection[str]) -> tuple[str, ...]:
    return tuple(host for host in hosts if host in wanted)
