"""The groups of a rollout on pages: for rollouts of hosts, and for promotions of fleets."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from zkdeployment.base.values import dataclass
from zkdeployment.service.views.fleet import HostLink, Tone
from zkdeployment.strategies.analysis import MetricStage
from zkdeployment.strategies.analysis_views import MetricPlot, MetricStatus, plot
from zkdeployment.strategies.picture import pace_facts
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.views import GroupState, GroupStatus, RolloutProgressState, decisions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.service.views.frame import ActLink
    from zkdeployment.strategies.state import RolloutState

#: The limit of active hosts that the page names for a group.
_NAMED = 8

_GROUP_TONES = {
    GroupState.WAITING: Tone.UNKNOWN,
    GroupState.PREPARING: Tone.BUSY,
    GroupState.DEPLOYING: Tone.BUSY,
    GroupState.BAKING: Tone.BUSY,
    GroupState.OPERATOR: Tone.HALTED,
    GroupState.UNFINISHED: Tone.UNKNOWN,
    GroupState.SUCCESS: Tone.GOOD,
    GroupState.FAILED: Tone.BAD,
}
ROLLOUT_TONES = {
    RolloutProgressState.UNDER_WAY: Tone.BUSY,
    RolloutProgressState.PAUSED: Tone.HALTED,
    RolloutProgressState.SUCCESS: Tone.GOOD,
    RolloutProgressState.PARTIAL: Tone.BAD,
    RolloutProgressState.FAILED: Tone.BAD,
    RolloutProgressState.ABORTED: Tone.HALTED,
    RolloutProgressState.SUPERSEDED: Tone.UNKNOWN,
}

#: The most metrics of a group with a plot, and the most characters of a query on the page.
_PLOTS = 6
_LONGEST_QUERY = 1500

_METRIC_TONES = {
    MetricStage.UNPROVEN: Tone.BUSY,
    MetricStage.PROVEN: Tone.BUSY,
    MetricStage.GAP: Tone.BUSY,
    MetricStage.SILENT: Tone.BUSY,
    MetricStage.WAITING: Tone.HALTED,
    MetricStage.STALE: Tone.HALTED,
    MetricStage.PASSED: Tone.GOOD,
    MetricStage.FAILED: Tone.BAD,
    MetricStage.OVERDUE: Tone.HALTED,
}


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric of a group: its verdict so far, its plot over the bake time, and its query to copy."""

    name: str
    tone: Tone
    verdict: str
    counts: str
    last: str
    passes: str
    query: str
    plot: MetricPlot | None
    graph: str


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group of the rollout: ``done`` and ``failed`` of ``total`` hosts, the active ones, and why it waits.

    ``facts`` tell how fast it advances, what is left of it, and how many more of its hosts may fail.
    """

    name: str
    depth: int
    critical: bool
    state: str
    tone: Tone
    after: str
    done: int
    failed: int
    total: int
    description: str
    facts: tuple[str, ...]
    active: tuple[HostLink, ...]
    more_active: int
    metrics: tuple[MetricRow, ...]
    more_metrics: int
    acts: tuple[ActLink, ...]


def group_row(
    group: GroupStatus,
    state: RolloutState,
    now: float,
    link: Callable[[str], HostLink],
    acts: tuple[ActLink, ...],
    *,
    moves: bool,
) -> GroupRow:
    """Return a group of a rollout; ``link`` returns the link to a host, or to a fleet, by its id.

    A rollout that does not move, such as that of a stopped fleet, has no pace.
    """
    phases = {GroupState.PREPARING.value, GroupState.DEPLOYING.value}
    active = [id_ for id_, at in group.hosts.items() if at in phases]
    return GroupRow(
        name=group.name,
        depth=min(group.depth, 6),
        critical=group.critical,
        state=group.state.value,
        tone=_GROUP_TONES[group.state],
        after="" if group.state is GroupState.WAITING else ", ".join(group.depends_on),
        done=group.count(HostProgress.SUCCESS),
        failed=group.count(HostProgress.FAILURE),
        total=len(group.hosts),
        description="" if group.state is GroupState.DEPLOYING else group.description,
        facts=pace_facts(state, group, now) if moves else (),
        active=tuple(map(link, active[:_NAMED])),
        more_active=max(0, len(active) - _NAMED),
        metrics=tuple(map(_metric, group.analysis[:_PLOTS])),
        more_metrics=max(0, len(group.analysis) - _PLOTS),
        acts=acts,
    )


def undecided_groups(state: RolloutState, groups: Sequence[GroupStatus]) -> tuple[GroupStatus, ...]:
    """Return the groups without whose promotion or failure by an operator a rollout does not continue."""
    due = {decision.group for decision in decisions(state)} if state.active_phase is None else ()
    return tuple(group for group in groups if group.name in due)


def _metric(metric: MetricStatus) -> MetricRow:
    query = metric.query if len(metric.query) <= _LONGEST_QUERY else f"{metric.query[:_LONGEST_QUERY]}…"
    return MetricRow(
        name=metric.name,
        tone=Tone.UNKNOWN if metric.dry_run else _METRIC_TONES[metric.stage],
        verdict=metric.verdict,
        counts=metric.counts,
        last=metric.last,
        passes=metric.passes,
        query=query,
        plot=plot(metric),
        graph=_graph(metric),
    )


def _graph(metric: MetricStatus) -> str:
    """Return the address of a query's graph, empty without one; ZooKeeper may hold any text as an address."""
    if not metric.graph.startswith(("http://", "https://")) or len(metric.query) > _LONGEST_QUERY:
        return ""
    return f"{metric.graph}/graph?{urlencode({'g0.expr': metric.query, 'g0.tab': '0'})}"
