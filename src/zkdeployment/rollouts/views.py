"""The page of the rollout: its groups in order, the work or the obstacle of each, and the acts of operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from zkdeployment.base.cluster import ClusterState, short
from zkdeployment.base.durations import age
from zkdeployment.rollouts.acts import group_acts, rollout_acts
from zkdeployment.service.views.fleet import HostLink, Tone
from zkdeployment.service.views.frame import host_page, moment
from zkdeployment.strategies.analysis import MetricStage
from zkdeployment.strategies.analysis_views import plot
from zkdeployment.strategies.picture import pace_facts, picture
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.views import GroupState, RolloutProgressState, rollout_status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.service.act import ActLink
    from zkdeployment.service.views.frame import Moment
    from zkdeployment.strategies.analysis_views import MetricPlot, MetricStatus
    from zkdeployment.strategies.picture import RolloutPicture
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.strategies.views import GroupStatus, RolloutStatus

#: The limit of hosts that the page names for a group, and for a rollout.
_NAMED = 8

_GROUP_TONES = {
    GroupState.WAITING: Tone.UNKNOWN,
    GroupState.PREPARING: Tone.BUSY,
    GroupState.DEPLOYING: Tone.BUSY,
    GroupState.BAKING: Tone.BUSY,
    GroupState.OPERATOR: Tone.HALTED,
    GroupState.SUCCESS: Tone.GOOD,
    GroupState.FAILED: Tone.BAD,
}
_TONES = {
    RolloutProgressState.UNDER_WAY: Tone.BUSY,
    RolloutProgressState.PAUSED: Tone.HALTED,
    RolloutProgressState.SUCCESS: Tone.GOOD,
    RolloutProgressState.PARTIAL: Tone.BAD,
    RolloutProgressState.FAILED: Tone.BAD,
    RolloutProgressState.ABORTED: Tone.HALTED,
    RolloutProgressState.SUPERSEDED: Tone.UNKNOWN,
}
_HEADLINES = {
    RolloutProgressState.UNDER_WAY: "The rollout is under way",
    RolloutProgressState.PAUSED: "The rollout is paused",
    RolloutProgressState.SUCCESS: "The rollout succeeded",
    RolloutProgressState.PARTIAL: "The rollout ended, and some hosts failed",
    RolloutProgressState.FAILED: "The rollout failed",
    RolloutProgressState.ABORTED: "The rollout was aborted",
    RolloutProgressState.SUPERSEDED: "A newer publication replaced the rollout",
}


#: The headlines of a rollout whose hosts may start nothing.
_HALTS = {
    ClusterState.STOPPED: "The rollout stands still: the fleet is stopped",
    ClusterState.HELD: "The rollout stands still: the fleet is held",
}


#: The most metrics of a group with a plot, and the most characters of a query on the page.
_PLOTS = 6
_LONGEST_QUERY = 1500

_METRIC_TONES = {
    MetricStage.UNPROVEN: Tone.BUSY,
    MetricStage.PROVEN: Tone.BUSY,
    MetricStage.WAITING: Tone.HALTED,
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


@dataclass(frozen=True, slots=True)
class FailedHost:
    """A host that failed in the rollout, with its error."""

    host: HostLink
    error: str


@dataclass(frozen=True, slots=True)
class RolloutView:
    """The values of the page of the rollout. Without a rollout, only ``headline`` and ``sentence`` are set."""

    tone: Tone
    headline: str
    sentence: str
    id: str = ""
    revision: str = ""
    strategy: str = ""
    begun: Moment | None = None
    took: str = ""
    done: int = 0
    total: int = 0
    picture: RolloutPicture | None = None
    groups: tuple[GroupRow, ...] = ()
    failures: tuple[FailedHost, ...] = ()
    more_failures: int = 0
    history: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    acts: tuple[ActLink, ...] = ()


def rollout_view(snapshot: FleetSnapshot, *, now: float, may_act: bool) -> RolloutView:
    """Return the page of the present rollout at ``now``, in seconds since the epoch."""
    state = snapshot.rollout
    if state is None:
        return _no_rollout(snapshot)
    led = snapshot.coordinator is not None
    status = rollout_status(state, led=led, now=now, governed=snapshot.governed, known=snapshot.facts)
    names = {identity.id: identity.name for identity in snapshot.identities}
    failures = sorted({*status.errors, *(id_ for id_, at in status.hosts.items() if at is HostProgress.FAILURE)})
    tone, headline = _TONES[status.state], _HEADLINES[status.state]
    halt = None if snapshot.cluster is None or status.is_over else _HALTS.get(snapshot.cluster.state)
    if halt is not None:
        tone, headline = Tone.BAD if any(stop.is_failure for stop in snapshot.stops) else Tone.HALTED, halt
    elif status.state is RolloutProgressState.UNDER_WAY and not led:
        tone, headline = Tone.BAD, "The rollout does not continue"
    return RolloutView(
        tone=tone,
        headline=headline,
        sentence=f"{'Result' if status.is_over else 'Now'}: {status.description}.",
        id=status.id,
        revision=short(status.revision),
        strategy=status.strategy,
        begun=moment(status.begun, now),
        took="" if status.ended is None else age(status.ended - status.begun),
        done=sum(at is HostProgress.SUCCESS for at in status.hosts.values()),
        total=len(status.hosts),
        picture=picture(state, status.groups) if status.groups else None,
        groups=tuple(_group(group, state, names, now, may_act=may_act) for group in status.groups),
        failures=tuple(_failure(status, id_, names) for id_ in failures[:_NAMED]),
        more_failures=max(0, len(failures) - _NAMED),
        history=status.acts,
        warnings=status.warnings,
        acts=rollout_acts(state, "/rollout") if may_act else (),
    )


def _no_rollout(snapshot: FleetSnapshot) -> RolloutView:
    if snapshot.strategy is None:
        sentence = (
            "No strategy is published, so all hosts deploy a revision at once, each service one host at a time."
        )
        return RolloutView(Tone.UNKNOWN, "There is no rollout", sentence)
    begun = f"The rollout by {snapshot.strategy} has not begun."
    if snapshot.coordinator is None:
        return RolloutView(Tone.BAD, "The rollout does not begin", f"{begun} No coordinator runs.")
    return RolloutView(Tone.BUSY, "The rollout is about to begin", f"{begun} {snapshot.coordinator} coordinates.")


def _group(
    group: GroupStatus, state: RolloutState, names: Mapping[str, str], now: float, *, may_act: bool
) -> GroupRow:
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
        facts=pace_facts(state, group, now),
        active=tuple(HostLink(names.get(id_, id_), host_page(id_)) for id_ in active[:_NAMED]),
        more_active=max(0, len(active) - _NAMED),
        metrics=tuple(map(_metric, group.analysis[:_PLOTS])),
        more_metrics=max(0, len(group.analysis) - _PLOTS),
        acts=group_acts(state, group, "/rollout") if may_act else (),
    )


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


def _failure(status: RolloutStatus, host_id: str, names: Mapping[str, str]) -> FailedHost:
    link = HostLink(names.get(host_id, host_id), host_page(host_id))
    return FailedHost(link, status.errors.get(host_id, "failed"))
