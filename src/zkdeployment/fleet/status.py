"""The status of the fleet: its hosts, whether they converged, and a summary.

The status of a single host is in ``host_status``; ``waiting`` decides whether a wait for a revision is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.fleet.host_status import HostState, HostStatus, all_have, select_hosts
from zkdeployment.fleet.rollouts.states import RolloutProgressState, is_attempt_due, rollout_state
from zkdeployment.fleet.rollouts.text import describe_rollout
from zkdeployment.fleet.stops import stops_in_force
from zkdeployment.model.cluster import ClusterState, short
from zkdeployment.planning.convergence import behind, is_completed, is_excluded
from zkdeployment.rollout.groups import unmatched_selectors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from zkdeployment.fleet.daemon_failures import DaemonFailure
    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.publishing.history import Refusal
    from zkdeployment.model.publishing.request import PublicationRequest
    from zkdeployment.model.stop import GroupStop, Stop
    from zkdeployment.model.tree import Value
    from zkdeployment.rollout.state import RolloutState


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """The status of the fleet, or of the hosts that the operator named.

    ``stops`` are the stops in force, the oldest first; ``summary`` is one sentence without their reasons.
    ``rollout`` describes the rollout by the published strategy, ``warnings`` name mistakes in that strategy.
    ``missed`` means that the rollout is over and some hosts lack the revision, ``completed`` that no rollout of
    the wanted revision has yet to begin or to end. ``request`` is an operator's request for a publication,
    ``refusal`` about the tip that the syncer refuses. ``failures`` are the daemons whose cycles fail unexpectedly,
    ``group_stops`` the stops of deployment intent groups: hosts that lack a stopped group count as converged.
    """

    cluster: Cluster | None
    wanted: Revision | None
    hosts: tuple[HostStatus, ...]
    converged: bool
    stops: tuple[Stop, ...]
    summary: str
    rollout: str | None = None
    missed: bool = False
    completed: bool = True
    warnings: tuple[str, ...] = ()
    request: PublicationRequest | None = None
    refusal: Refusal | None = None
    failures: tuple[DaemonFailure, ...] = ()
    group_stops: tuple[GroupStop, ...] = ()

    def to_json(self) -> dict[str, Value]:
        """Return the fleet as ``-o json`` prints it; ``version`` is the present cluster version."""
        return {
            "version": None if self.cluster is None else self.cluster.version,
            "cluster": None if self.cluster is None else self.cluster.state.value,
            "wanted": self.wanted,
            "converged": self.converged,
            "summary": self.summary,
            "rollout": self.rollout,
            "warnings": [*self.warnings],
            "stopped": [str(stop) for stop in self.stops],
            "stops": [stop.properties() for stop in self.stops],
            "stops_recorded": sum(1 + stop.replaced for stop in self.stops),
            "request": None if self.request is None else _request_json(self.request),
            "refusal": None if self.refusal is None else self.refusal.to_json(),
            "failures": [failure.to_json() for failure in self.failures],
            "group_stops": [{"group": stop.group, **stop.properties()} for stop in self.group_stops],
            "hosts": [host.to_json() for host in self.hosts],
        }


def _request_json(request: PublicationRequest) -> dict[str, Value]:
    return {
        "by": request.by,
        "reason": request.reason,
        "time": request.written,
        "age_limit": request.age_limit,
        "error": request.error,
    }


def fleet_status(snapshot: FleetSnapshot, *, names: Collection[str] = ()) -> FleetStatus:
    """Return the status of the fleet, or only of the hosts with these ids or ``names``.

    While the cluster version is null or false, hosts want the last revision that was published completely. Absent
    hosts count if a published target matches them, or if they are named. A fleet without hosts is not converged.
    Under a strategy, hosts in no group do not count, and the fleet converges only with a completed rollout. Of the
    hosts that can be leased, those that are absent, have failed or change their role do not count.
    """
    cluster = snapshot.cluster
    wanted = wanted_revision(cluster, snapshot.published)
    rollout = rollout_of_wanted(snapshot, wanted)
    known = [
        *(host_status(host, wanted, rollout) for host in snapshot.hosts),
        *_absent(snapshot, wanted, rollout),
    ]
    known.sort(key=lambda host: (host.name, host.id))
    hosts = select_hosts(known, names, wanted) if names else tuple(known)
    is_running = cluster is not None and cluster.state is ClusterState.RUNNING
    completed = not snapshot.governed or _is_completed(snapshot)
    stops = stops_in_force(cluster, snapshot.stops)
    return FleetStatus(
        cluster=cluster,
        wanted=wanted,
        hosts=hosts,
        converged=is_running and all_have(hosts) and (completed or bool(names)),
        stops=stops,
        summary=_cluster_summary(cluster, stops) + _hosts_summary(hosts, wanted),
        rollout=_describe_rollout(snapshot),
        missed=_is_missed(snapshot),
        request=snapshot.request,
        refusal=snapshot.refusal,
        failures=snapshot.failures,
        group_stops=snapshot.group_stops,
        completed=completed,
        warnings=_warnings(snapshot),
    )


def rollout_of_wanted(snapshot: FleetSnapshot, wanted: Revision | None) -> RolloutState | None:
    """Return the rollout of the wanted revision, or of the one before it if only documents changed since then."""
    state = snapshot.rollout
    if state is None or str(state.revision) == str(wanted):
        return state
    is_repeated = state.sequence == snapshot.since and str(snapshot.published) == str(wanted)
    return state if is_repeated else None


def _is_completed(snapshot: FleetSnapshot) -> bool:
    """Return whether the rollout is completed; no rollout is needed if every host has the revision."""
    if snapshot.rollout is not None:
        return is_completed(snapshot.rollout)
    return snapshot.cluster is not None and not behind(snapshot.cluster, snapshot.hosts)


def _describe_rollout(snapshot: FleetSnapshot) -> str | None:
    state = snapshot.rollout
    if not snapshot.governed:
        return None
    if state is not None and not is_attempt_due(state):
        return f"rollout {state.id}: {describe_rollout(state, led=snapshot.coordinator is not None)}"
    attempt = "the rollout" if state is None else f"another attempt of the rollout {state.id}"
    leader = (
        "no coordinator runs" if snapshot.coordinator is None else f"{snapshot.coordinator} is the coordinator"
    )
    return f"{attempt} by {snapshot.strategy} has not begun; {leader}"


def _warnings(snapshot: FleetSnapshot) -> tuple[str, ...]:
    """Return the mistakes in the strategy by which hosts deploy the cluster version at present."""
    if snapshot.rollout is None or not snapshot.governed:
        return ()
    return unmatched_selectors(snapshot.rollout.rollout.strategy, snapshot.facts)


def _is_missed(snapshot: FleetSnapshot) -> bool:
    state = snapshot.rollout
    return snapshot.governed and state is not None and rollout_state(state) is RolloutProgressState.PARTIAL


def wanted_revision(cluster: Cluster | None, published: Revision | None) -> Revision | None:
    """Return the revision that hosts want: while the version is null or false, the last one that was published."""
    if cluster is None or cluster.version is None or cluster.version is False:
        return published
    return cluster.version if cluster.importing is None else cluster.importing


def host_status(host: Host, wanted: Revision | None, rollout: RolloutState | None) -> HostStatus:
    """Return the status of a registered host; ``rollout`` is the rollout of the ``wanted`` revision, if any."""
    if host.error is not None:
        state = HostState.FAILED
    elif host.deploying is not None and not host.is_waiting:
        state = HostState.DEPLOYING
    elif wanted is None:
        state = HostState.UNKNOWN
    elif host.has(wanted):
        state = HostState.CONVERGED
    else:
        excluded = is_excluded(rollout, host.identity.id, host.facts)
        state = HostState.EXCLUDED if excluded else HostState.BEHIND
    is_alone = host.is_leasable and (state is HostState.FAILED or host.leased is None)
    return HostStatus(
        id=host.identity.id,
        name=host.identity.name,
        state=state,
        role=host.identity.role,
        version=host.version,
        former=host.former,
        wanted=wanted,
        step=host.step,
        steps=host.steps,
        error=host.error,
        since=host.since,
        expected=state is not HostState.EXCLUDED and not is_alone,
        idle_role=host.idle_role,
        leased=host.leased,
    )


def _absent(
    snapshot: FleetSnapshot, wanted: Revision | None, rollout: RolloutState | None
) -> Iterator[HostStatus]:
    names = {host.identity.name for host in snapshot.hosts}
    for known in snapshot.absent:
        identity = known.identity
        # A registered host of the same name has replaced the absent host: only the id still names the latter.
        target_names = (identity.id,) if identity.name in names else identity.target_names
        yield HostStatus(
            id=identity.id,
            name=identity.name,
            state=HostState.ABSENT,
            role=identity.role,
            wanted=wanted,
            since=known.time or None,
            expected=not snapshot.targets.isdisjoint(target_names)
            and known.idle_role is None
            and not is_excluded(rollout, identity.id, known.facts),
            idle_role=known.idle_role,
        )


def _cluster_summary(cluster: Cluster | None, stops: Sequence[Stop]) -> str:
    if cluster is None:
        return "nothing was published yet: there is no /hosts; "
    match cluster.state:
        case ClusterState.STOPPED:
            return "ALL STOP; " if stops else "ALL STOP: the cluster version was set to null; "
        case ClusterState.HELD:
            return "held: hosts start nothing; "
        case ClusterState.IMPORTING:
            return f"{short(cluster.importing)} is being published; "
    return ""


def _hosts_summary(rows: Sequence[HostStatus], wanted: Revision | None) -> str:
    if not rows:
        return "no hosts"
    hosts = "1 host" if len(rows) == 1 else f"{len(rows)} hosts"
    at = "" if wanted is None else f" at {short(wanted)}"
    counts = [(state, sum(1 for row in rows if row.state is state)) for state in HostState]
    return f"{hosts}: {', '.join(f'{count} {state.value}' for state, count in counts if count)}{at}"
