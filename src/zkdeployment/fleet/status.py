"""The fleet's status: what each host has against what it is to have, and whether a wait is over."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.fleet.rollouts import RolloutProgressState, is_due, rollout_state, rollout_words
from zkdeployment.fleet.stops import in_force
from zkdeployment.model.cluster import ClusterState, is_commit, short
from zkdeployment.planning.convergence import behind, is_completed, is_excluded
from zkdeployment.rollout.groups import unmatched_selectors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from zkdeployment.fleet.snapshot import Snapshot
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.publication import PublicationRequest
    from zkdeployment.model.stop import Stop
    from zkdeployment.model.tree import Value
    from zkdeployment.rollout.state import RolloutState


class HostState(Enum):
    """How far a host is."""

    CONVERGED = "converged"
    BEHIND = "behind"
    DEPLOYING = "deploying"
    FAILED = "failed"
    ABSENT = "absent"  # known, but not registered
    EXCLUDED = "excluded"  # in no group of the rollout strategy: it keeps what it has
    UNKNOWN = "unknown"  # nobody knows the host, or nothing says what it is to have


class WaitVerdict(Enum):
    """What a wait for a revision has come to."""

    REACHED = "reached"
    STOPPED = "stopped"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class HostStatus:
    """One host: what it has, what it is to have, and what it is doing. ``steps`` are (done, in all).

    ``former`` is the version that a host without one had before a deployment that is not complete.
    ``since`` is when its state last changed, in seconds since the epoch; for an absent host it is when that last
    told what it has. ``expected``: it counts; an absent host does not unless a published target means it, and an
    excluded host does not unless it was asked for.
    """

    id: str
    name: str
    state: HostState
    role: str | None = None
    version: Revision | None = None
    former: Revision | None = None
    wanted: Revision | None = None
    step: str | None = None
    steps: tuple[int, int] | None = None
    error: str | None = None
    since: float | None = None
    expected: bool = True

    def to_json(self) -> dict[str, Value]:
        """Return it as ``-o json`` prints it."""
        return {
            "id": self.id,
            "name": self.name,
            "role": self.role,
            "state": self.state.value,
            "version": self.version,
            "former": self.former,
            "wanted": self.wanted,
            "step": self.step,
            "steps": None if self.steps is None else [*self.steps],
            "error": self.error,
            "since": self.since,
            "expected": self.expected,
        }


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """The fleet, or the part of it that was asked for; ``stops`` are what stops or holds it, the first one first.

    ``summary`` is one sentence without these reasons. ``rollout`` says how the rollout by the published strategy
    stands, ``warnings`` what is dubious about that strategy, ``missed`` that the rollout is over and did not bring
    the revision to all hosts. ``completed``: no rollout of the revision that is wanted has yet to begin or to end.
    ``request`` is an operator's request for a publication.
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

    def to_json(self) -> dict[str, Value]:
        """Return it as ``-o json`` prints it; ``version`` is the cluster version as it stands."""
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


def fleet_status(snapshot: Snapshot, *, asked: Collection[str] = ()) -> FleetStatus:
    """Judge the fleet, or only the hosts ``asked`` for by id or name; those nobody knows are unknown.

    While the cluster version is null or false hosts are to have the revision that was last published whole. Of
    absent hosts those count that a published target means, or that were asked for. A fleet without hosts is not
    converged. Under a strategy hosts in no group do not count, and the whole fleet is converged only when the
    rollout is completed.
    """
    cluster = snapshot.cluster
    wanted = _wanted(cluster, snapshot.published)
    rollout = _rollout_of(snapshot, wanted)
    known = [
        *(_host_status(host, wanted, rollout) for host in snapshot.hosts),
        *_absent(snapshot, wanted, rollout),
    ]
    known.sort(key=lambda host: (host.name, host.id))
    rows = _asked(known, asked, wanted) if asked else tuple(known)
    running = cluster is not None and cluster.state is ClusterState.RUNNING
    completed = not snapshot.governed or _is_completed(snapshot)
    stops = in_force(cluster, snapshot.stops)
    return FleetStatus(
        cluster=cluster,
        wanted=wanted,
        hosts=rows,
        converged=running and _have_all(rows) and (completed or bool(asked)),
        stops=stops,
        summary=_cluster_summary(cluster, stops) + _hosts_summary(rows, wanted),
        rollout=_rollout(snapshot),
        missed=_is_missed(snapshot),
        request=snapshot.request,
        completed=completed,
        warnings=_warnings(snapshot),
    )


def wait_verdict(
    status: FleetStatus, revision: str | int | None = None, hosts: Collection[str] = ()
) -> WaitVerdict:
    """Say whether the fleet, or these hosts (ids or names), reached a revision (``None``: the one wanted).

    Revisions are compared as text; the start of a git commit id, of seven digits at least, will do. The fleet
    reached the revision that is wanted when the rollout of it is completed, too. A host that was asked for and is
    excluded does not get any revision: that counts as stopped.
    """
    rows = _asked(status.hosts, hosts, status.wanted) if hosts else status.hosts
    state = None if status.cluster is None else status.cluster.state
    stopped = (
        status.missed or state is ClusterState.STOPPED or any(row.expected and _is_excluded(row) for row in rows)
    )
    if revision is None:
        reached = state is ClusterState.RUNNING and _have_all(rows)
    else:
        reached = _have_all(rows, str(revision))
    pending = not hosts and not status.completed and (revision is None or _is_at(status.wanted, str(revision)))
    if reached and not pending:
        return WaitVerdict.REACHED
    return WaitVerdict.STOPPED if stopped else WaitVerdict.WAITING


def _have_all(rows: Sequence[HostStatus], revision: str | None = None) -> bool:
    """Whether all hosts that count have a revision (``None``: the one wanted), and there is any host."""
    counted = [row for row in rows if row.expected]
    if revision is None:
        reached = all(row.state is HostState.CONVERGED for row in counted)
    else:
        reached = all(row.state is not HostState.FAILED and _is_at(row.version, revision) for row in counted)
    return reached and (bool(counted) or any(_is_excluded(row) for row in rows))


def _is_excluded(row: HostStatus) -> bool:
    return row.state is HostState.EXCLUDED


def _rollout_of(snapshot: Snapshot, wanted: Revision | None) -> RolloutState | None:
    """Return the rollout by which hosts take up the revision that is wanted, if there is one."""
    running = snapshot.rollout
    return running if running is not None and str(running.revision) == str(wanted) else None


def _is_completed(snapshot: Snapshot) -> bool:
    """Whether the rollout is completed; none needs to begin where every host has the revision."""
    if snapshot.rollout is not None:
        return is_completed(snapshot.rollout)
    return snapshot.cluster is not None and not behind(snapshot.cluster, snapshot.hosts)


def _rollout(snapshot: Snapshot) -> str | None:
    running = snapshot.rollout
    if not snapshot.governed:
        return None
    if running is not None and not is_due(running):
        return f"rollout {running.id}: {rollout_words(running, led=snapshot.coordinator is not None)}"
    what = "the rollout" if running is None else f"another attempt of the rollout {running.id}"
    who = "no coordinator runs" if snapshot.coordinator is None else f"{snapshot.coordinator} coordinates"
    return f"{what} by {snapshot.strategy} has not begun; {who}"


def _warnings(snapshot: Snapshot) -> tuple[str, ...]:
    """Return what is dubious about the strategy by which hosts take up the cluster version now."""
    if snapshot.rollout is None or not snapshot.governed:
        return ()
    return unmatched_selectors(snapshot.rollout.rollout.strategy, snapshot.facts)


def _is_missed(snapshot: Snapshot) -> bool:
    running = snapshot.rollout
    return snapshot.governed and running is not None and rollout_state(running) is RolloutProgressState.PARTIAL


def _wanted(cluster: Cluster | None, published: Revision | None) -> Revision | None:
    if cluster is None or cluster.version is None or cluster.version is False:
        return published
    return cluster.version if cluster.importing is None else cluster.importing


def _host_status(host: Host, wanted: Revision | None, rollout: RolloutState | None) -> HostStatus:
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
        expected=state is not HostState.EXCLUDED,
    )


def _absent(snapshot: Snapshot, wanted: Revision | None, rollout: RolloutState | None) -> Iterator[HostStatus]:
    names = {host.identity.name for host in snapshot.hosts}
    for known in snapshot.absent:
        one = known.identity
        # Another host that has its name now took its place, unless it is meant by its id.
        meant = (one.id,) if one.name in names else one.target_names
        yield HostStatus(
            id=one.id,
            name=one.name,
            state=HostState.ABSENT,
            role=one.role,
            wanted=wanted,
            since=known.time or None,
            expected=not snapshot.targets.isdisjoint(meant) and not is_excluded(rollout, one.id, known.facts),
        )


def _asked(rows: Iterable[HostStatus], asked: Collection[str], wanted: Revision | None) -> tuple[HostStatus, ...]:
    rows = [replace(row, expected=True) for row in rows if row.id in asked or row.name in asked]
    known = {name for row in rows for name in (row.id, row.name)}
    missing = sorted(set(asked) - known)
    return (
        *rows,
        *(HostStatus(name, name, HostState.UNKNOWN, wanted=wanted, error="not registered") for name in missing),
    )


def _cluster_summary(cluster: Cluster | None, stops: Sequence[Stop]) -> str:
    if cluster is None:
        return "nothing was published yet (there is no /hosts); "
    match cluster.state:
        case ClusterState.STOPPED:
            return "ALL STOP; " if stops else "ALL STOP: the cluster version was set to null; "
        case ClusterState.HELD:
            return "held, hosts start nothing; "
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


def _is_at(version: Revision | None, revision: str) -> bool:
    text = "" if version is None else str(version)
    start = re.fullmatch(r"[0-9a-f]{7,}", revision) is not None and is_commit(text)
    return text == revision or (start and text.startswith(revision))
