"""Rollout strategies: groups of hosts, their order, members, success criteria and time windows.

Reading strategies from YAML belongs to ``documents``, deciding by them to ``state_machine``.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.base.values import dataclass
from zkdeployment.strategies.analysis import AnalysisClock, AnalysisMetric

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from zkdeployment.base.host import Facts


#: The default of ``absent_after``: seconds after which an unregistered host counts as absent.
ABSENT_AFTER = 300.0

#: The default of ``progress_deadline``: seconds without progress after which a phase fails.
PROGRESS_DEADLINE = 7200.0

#: The same default for fleets, whose own rollouts take long.
FLEET_DEADLINE = 86_400.0


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects the hosts that match one value of each field that is not empty; ``names`` are host names or ids."""

    names: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    labels: frozenset[tuple[str, str]] = frozenset()
    racks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Criteria:
    """The success criteria of a group in each phase; ``None`` is no requirement."""

    percent_successful: int | None = None
    minimum_successful: int | None = None
    maximum_failed: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """The times at which a group may start: on ``days`` (Monday is 0), from ``start`` until ``end``.

    Both are minutes after midnight in ``zone``. A window that ends before it starts ends on the next day.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: str


@dataclass(frozen=True, slots=True)
class ParallelLimit:
    """The number of hosts of a group that deploy at the same time, as a number or in percent of the group."""

    number: int
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a group. Times are in seconds; a timeout of ``None`` is the strategy's default.

    With ``healthy_checks`` the checks of a host must be OK at the end of the bake time. During the bake time, the
    metrics of ``analysis`` are measured.
    """

    max_parallel: ParallelLimit | None = None
    bake_time: float = 0.0
    prepare_timeout: float | None = None
    deploy_timeout: float | None = None
    progress_deadline: float | None = None
    manual: bool = False
    windows: tuple[Window, ...] = ()
    healthy_checks: bool = False
    analysis: tuple[AnalysisMetric, ...] = ()

    @property
    def analysis_clock(self) -> AnalysisClock:
        """The times of the group's analysis."""
        deadline = PROGRESS_DEADLINE if self.progress_deadline is None else self.progress_deadline
        return AnalysisClock(self.bake_time, deadline)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of hosts, which prepare and then deploy together after the groups in ``depends_on`` succeeded.

    A group without selectors selects every host. A group without criteria always succeeds. The group waits until
    ``require_hosts`` of its hosts are registered, or until an operator promotes it.
    """

    name: str
    critical: bool
    depends_on: tuple[str, ...] = ()
    selectors: tuple[Selector, ...] = ()
    criteria: Criteria = Criteria()
    pace: Pace = Pace()
    require_hosts: int | None = None


class OnFailure(Enum):
    """The reaction to a failed critical group: the fleet stops, and the coordinator may roll back."""

    STOP = "stop"
    ROLLBACK = "rollback"


class MemberKind(Enum):
    """The kind of the members of groups: a coordinator deploys to hosts, a promoter promotes to fleets.

    The value has the words of messages: the noun, a member that takes part, the reason of its absence, the rollout
    as a ``whole``, the daemon that leads it, and the group of verbs with which operators direct it.
    """

    HOST = ("host", "registered", "its agent has been absent", "rollout", "coordinator", "rollout")
    FLEET = ("fleet", "reachable", "its service has been unreachable", "promotion", "promoter", "promote")

    def __init__(self, noun: str, takes_part: str, is_absent: str, whole: str, leader: str, verb: str) -> None:
        self.noun = noun
        self.takes_part = takes_part
        self.is_absent = is_absent
        self.whole = whole
        self.leader = leader
        self.verb = verb


@dataclass(frozen=True, slots=True)
class Strategy:
    """A valid strategy: names of groups are unique, dependencies exist and have no cycles.

    Times are in seconds. An unregistered host counts as absent after ``absent_after``. The timeouts apply to
    groups without timeouts of their own. ``on_failure`` is the reaction to the failure of a critical group.
    ``member_kind`` is not part of the document: the kind of the document determines it.
    """

    name: str
    groups: tuple[Group, ...] = ()
    absent_after: float = ABSENT_AFTER
    prepare_timeout: float | None = None
    deploy_timeout: float | None = None
    on_failure: OnFailure = OnFailure.STOP
    member_kind: MemberKind = MemberKind.HOST

    def group(self, name: str) -> Group:
        """Return the group with this name."""
        return next(group for group in self.groups if group.name == name)


#: The strategy that applies when a configuration requires one and none is published.
ALL_HOSTS = Strategy("all-hosts", (Group("all-hosts", critical=True, criteria=Criteria(percent_successful=100)),))


#: Values of a criterion that a message names.
_NAMED = 3


def members(group: Group, hosts: Mapping[str, Facts]) -> frozenset[str]:
    """Return the names of the hosts that match any selector of a group; all hosts if it has no selectors.

    Hosts that can be leased are in no group.
    """
    if not group.selectors:
        return frozenset(name for name, facts in hosts.items() if not facts.is_leasable)
    return frozenset(
        name
        for name, facts in hosts.items()
        if any(is_selected_by(selector, name, facts) for selector in group.selectors)
    )


def is_selected(strategy: Strategy, name: str, facts: Facts) -> bool:
    """Whether a host is in any group of a strategy; a host in no group does not deploy."""
    return any(members(group, {name: facts}) for group in strategy.groups)


def selects_only_by_name(strategy: Strategy, names: Collection[str]) -> bool:
    """Whether all selectors of a strategy select by names, and only by these ``names``."""
    selectors = [selector for group in strategy.groups for selector in group.selectors]
    return all(
        selector.names.issubset(names) and not (selector.tags or selector.labels or selector.racks)
        for selector in selectors
    )


def unmatched_selectors(strategy: Strategy, hosts: Mapping[str, Facts]) -> tuple[str, ...]:
    """Return a warning for each selector of a strategy that matches none of ``hosts``, the known members."""
    noun = strategy.member_kind.noun
    return tuple(
        f"selector {number} of group {group.name} matches no known {noun} ({_describe(selector, noun)});"
        f" correct the selector or the {noun}s' configuration"
        for group in strategy.groups
        for number, selector in enumerate(group.selectors, 1)
        if not any(is_selected_by(selector, name, facts) for name, facts in hosts.items())
    )


def _describe(selector: Selector, noun: str) -> str:
    """Return the criteria of a selector as text, each with its first values."""
    criteria = {
        "node_names": selector.names,
        "node_tags": selector.tags,
        "node_labels": [f"{key}: {value}" for key, value in selector.labels],
        "rack_names": selector.racks,
    }
    return "; ".join(f"{name} {_first(values)}" for name, values in criteria.items() if values) or f"any {noun}"


def _first(values: Collection[str]) -> str:
    rest = f" or {len(values) - _NAMED} more" if len(values) > _NAMED else ""
    return " or ".join(sorted(values)[:_NAMED]) + rest


def is_selected_by(selector: Selector, name: str, facts: Facts) -> bool:
    """Whether a host, given by its id or name and its facts, meets every criterion of a selector."""
    return (
        not facts.is_leasable
        and (not selector.names or name in selector.names or facts.name in selector.names)
        and (not selector.racks or facts.rack in selector.racks)
        and (not selector.tags or not selector.tags.isdisjoint(facts.tags))
        and (not selector.labels or not selector.labels.isdisjoint(facts.labels.items()))
    )


def misses(
    criteria: Criteria, *, successful: int, failed: int, total: int, kind: MemberKind = MemberKind.HOST
) -> Iterator[str]:
    """Return a sentence for each criterion that these numbers miss; a group without hosts misses no percentage."""
    members_of = f"{total} {kind.noun}s"
    percent = criteria.percent_successful
    if percent is not None and successful * 100 < percent * total:
        share = f"{successful * 100 / total:.4g} %"
        yield f"{successful} of {members_of} successful ({share}), expected at least {percent} %"
    if criteria.minimum_successful is not None and successful < criteria.minimum_successful:
        yield f"{successful} of {members_of} successful, expected at least {criteria.minimum_successful}"
    if criteria.maximum_failed is not None and failed > criteria.maximum_failed:
        yield f"{failed} of {members_of} failed, expected at most {criteria.maximum_failed}"


#: A window opens at least once a week, unless a change of the clocks skips its hour.
_DAYS_AHEAD = 15


def is_open(windows: Collection[Window], now: float) -> bool:
    """Whether any window is open at ``now`` (seconds since the epoch), or there are no windows."""
    return not windows or any(start <= now < end for window in windows for start, end in _spans(window, now))


def next_opening(windows: Collection[Window], now: float) -> float:
    """Return when the first of the windows opens after ``now``, in seconds since the epoch."""
    return min(start for window in windows for start, _ in _spans(window, now) if start > now)


def _spans(window: Window, now: float) -> Iterator[tuple[float, float]]:
    """Return when the window opens and closes, from the day before ``now`` on."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415  agents need less memory without it

    zone = ZoneInfo(window.zone)
    today = datetime.fromtimestamp(now, zone).date()
    length = (window.end - window.start) % (24 * 60) or 24 * 60
    for ahead in range(-1, _DAYS_AHEAD + 1):
        day = today + timedelta(days=ahead)
        if day.weekday() in window.days:
            begin = datetime.combine(day, time()) + timedelta(minutes=window.start)
            end = begin + timedelta(minutes=length)
            span = begin.replace(tzinfo=zone).timestamp(), end.replace(tzinfo=zone).timestamp()
            if span[0] < span[1]:  # otherwise the change of the clocks skips its hour
                yield span
