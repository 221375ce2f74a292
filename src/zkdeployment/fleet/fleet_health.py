"""The whole fleet's health, as the Nagios check tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import age
from zkdeployment.fleet.health import Health, HealthLimits, HealthVerdict, Measure, one_line
from zkdeployment.fleet.locks import is_orphaned
from zkdeployment.fleet.rollouts import RolloutProgressState, is_due, last_movement, report, rollout_state
from zkdeployment.fleet.status import FleetStatus, HostState, HostStatus, fleet_status
from zkdeployment.fleet.stops import tell
from zkdeployment.model.cluster import ClusterState, short
from zkdeployment.model.listing import listing
from zkdeployment.rollout.absence import shortage
from zkdeployment.rollout.tasks import ready_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.fleet.snapshot import Snapshot
    from zkdeployment.model.cluster import Cluster
    from zkdeployment.model.lock import Lock
    from zkdeployment.model.publication import SyncerReport
    from zkdeployment.rollout.state import RolloutState

#: How many hosts, locks and stops a line names.
_NAMED = 3

#: A finding: how bad it is, and the words.
_Finding = tuple[Health, str]


def fleet_health(
    snapshot: Snapshot, locks: Sequence[Lock], syncer: SyncerReport | None, *, now: float, limits: HealthLimits
) -> HealthVerdict:
    """Judge the fleet: the worst first, everything that is wrong in one line.

    ``limits`` judge minutes: for how long the slowest host has been behind, a lock was held, or the syncer has
    been silent or could not read the repository. ``now`` is in seconds since the epoch. A ``syncer`` that nobody
    ever saw is not missed.
    """
    status = fleet_status(snapshot)
    cluster = snapshot.cluster
    if cluster is None:
        return HealthVerdict(Health.UNKNOWN, "Nothing was published yet: there is no /hosts")
    behind = [row for row in status.hosts if row.state in (HostState.BEHIND, HostState.DEPLOYING)]
    told = 0.0 if snapshot.changed is None else max(0.0, now - snapshot.changed)
    findings = [
        *_halts(status, now),
        *_failures(status),
        *(
            _rollout(snapshot, told, now, limits)
            if _is_in_groups(snapshot)
            else _slowness(snapshot, behind, told, limits)
        ),
        *_absences(snapshot, status),
        *_old_locks(snapshot, locks, now, limits),
        *_silence(syncer, now, limits),
        *_blindness(cluster, syncer, now, limits),
    ]
    health = max((found[0] for found in findings), default=Health.OK)
    findings.sort(key=lambda found: -found[0])
    words = "; ".join(text for _, text in findings) or _converged(status, told)
    lag = told if behind and cluster.revision is not None else 0.0
    return HealthVerdict(health, one_line(words), (*_counts(status), Measure("lag", round(lag), "s")))


def _converged(status: FleetStatus, told: float) -> str:
    hosts = [row for row in status.hosts if row.state is HostState.CONVERGED]
    excluded = [row for row in status.hosts if row.state is HostState.EXCLUDED]
    if not hosts and not excluded:
        return f"No hosts are registered; published is {short(status.wanted)}"
    apart = f", and {_number(len(excluded), 'host')} excluded" if excluded else ""
    return f"Converged at {short(status.wanted)}, set {age(told)} ago: {_number(len(hosts), 'host')}{apart}"


def _counts(status: FleetStatus) -> tuple[Measure, ...]:
    rows = [row for row in status.hosts if row.expected]
    counts = {state: sum(1 for row in rows if row.state is state) for state in HostState}
    return (
        Measure("hosts", len(rows)),
        Measure("converged", counts[HostState.CONVERGED], most=len(rows)),
        Measure("behind", counts[HostState.BEHIND] + counts[HostState.DEPLOYING]),
        Measure("failed", counts[HostState.FAILED]),
        Measure("absent", counts[HostState.ABSENT]),
    )


def _halts(status: FleetStatus, now: float) -> Iterator[_Finding]:
    state = None if status.cluster is None else status.cluster.state
    told = listing(tell(status.stops, now), _NAMED)
    if state is ClusterState.HELD:
        yield Health.WARNING, f"Cluster is {told or 'held: the version was set to false'}"
    if state is ClusterState.STOPPED:
        by_operators = bool(status.stops) and not any(stop.is_failure for stop in status.stops)
        health = Health.WARNING if by_operators else Health.CRITICAL
        yield health, f"ALL STOP: {told or 'the cluster version was set to null'}"


def _failures(status: FleetStatus) -> Iterator[_Finding]:
    told = " ".join(stop.host_id for stop in status.stops)
    failed = [row for row in status.hosts if row.state is HostState.FAILED]
    new = [f"{row.name}: {row.error}" for row in failed if row.id not in told.split()]
    if new:
        yield Health.CRITICAL, f"{_number(len(new), 'host')} failed: {listing(new, _NAMED)}"


def _slowness(
    snapshot: Snapshot, behind: Sequence[HostStatus], told: float, limits: HealthLimits
) -> Iterator[_Finding]:
    """The host that is behind and was last heard of longest ago; while nothing may start none is slow."""
    cluster = snapshot.cluster
    if cluster is not None and cluster.state is ClusterState.IMPORTING:
        health, _ = limits.judge(told / 60)
        yield health, f"{short(cluster.importing)} is being published for {age(told)}"
    elif behind and cluster is not None and cluster.state is ClusterState.RUNNING:
        slowest = min(behind, key=lambda row: row.since or 0.0)
        health, crossed = limits.judge(told / 60)
        words = f"{_number(len(behind), 'host')} behind {short(slowest.wanted)} for {age(told)}"
        limit = f", {crossed} min" if crossed else ""
        yield health, f"{words}{limit}; slowest: {slowest.name} ({slowest.step or 'not begun'})"


def _is_in_groups(snapshot: Snapshot) -> bool:
    """Whether hosts have to wait for their turn; not when all groups succeeded."""
    running = snapshot.rollout
    return snapshot.governed and (running is None or rollout_state(running) is not RolloutProgressState.SUCCESS)


def _rollout(snapshot: Snapshot, told: float, now: float, limits: HealthLimits) -> Iterator[_Finding]:
    """Judge a rollout by when it last moved: hosts whose turn has not come are not slow."""
    running = snapshot.rollout
    still = told if running is None else min(told, max(0.0, now - last_movement(running)))
    health, _ = limits.judge(still / 60)
    if running is None or is_due(running) or (running.ended is None and snapshot.coordinator is None):
        why = "no coordinator runs" if snapshot.coordinator is None else "it has not begun"
        yield health, f"the rollout of {short(snapshot.published)} stands still for {age(still)}: {why}"
    elif rollout_state(running) is RolloutProgressState.PARTIAL:
        yield Health.WARNING, report(running)
    elif rollout_state(running) is RolloutProgressState.PAUSED:
        yield Health.WARNING, f"rollout {running.id} is paused for {age(still)}: {running.paused}"
    elif running.active_phase is not None:
        yield (
            health,
            f"rollout {running.id} is at group {running.active_phase.task.group}, last moved {age(still)} ago",
        )
    elif running.ended is None:
        yield Health.OK, f"rollout {running.id} waits: {running.waiting or 'for its next group'}"
    if running is not None and running.ended is None:
        yield from _shortages(running)


def _shortages(running: RolloutState) -> Iterator[_Finding]:
    """Return the groups that nothing holds up but hosts that are away."""
    for task in ready_tasks(running.rollout):
        short = shortage(running, task.group)
        if short:
            yield Health.WARNING, f"rollout {running.id}: group {task.group} {short}"


def _absences(snapshot: Snapshot, status: FleetStatus) -> Iterator[_Finding]:
    absent = [row.name for row in status.hosts if row.state is HostState.ABSENT and row.expected]
    identities = [host.identity for host in snapshot.hosts] + [host.identity for host in snapshot.absent]
    known = {name for identity in identities for name in identity.target_names}
    nobody = sorted(name for name in snapshot.targets - known if not name.startswith("/"))
    if absent:
        yield Health.WARNING, f"{_number(len(absent), 'host')} absent: {listing(absent, _NAMED)}"
    if nobody:
        yield Health.WARNING, f"the tree deploys to what no host is: {listing(nobody, _NAMED)}"


def _old_locks(snapshot: Snapshot, locks: Sequence[Lock], now: float, limits: HealthLimits) -> Iterator[_Finding]:
    registered = {host.identity.id for host in snapshot.hosts}
    for lock in locks:
        holder = lock.holder
        if holder is None:
            continue
        held = max(0.0, now - lock.since)
        health, crossed = limits.judge(held / 60)
        if is_orphaned(lock, registered):
            health, crossed = max(health, Health.WARNING), "not registered"
        if health is not Health.OK:
            yield health, f"{lock} is held by {holder.identity} for {age(held)} ({crossed.strip()})"


def _silence(syncer: SyncerReport | None, now: float, limits: HealthLimits) -> Iterator[_Finding]:
    if syncer is None:
        return
    silent = max(0.0, now - syncer.time)
    health, _ = limits.judge(max(0.0, silent - syncer.interval) / 60)
    if health is not Health.OK:
        yield health, f"syncer silent for {age(silent)} (last: {syncer.by})"


def _blindness(
    cluster: Cluster, syncer: SyncerReport | None, now: float, limits: HealthLimits
) -> Iterator[_Finding]:
    """Say that a syncer lives, but cannot read the repository; while all is stopped it does not try."""
    if syncer is None or syncer.fetched is None or cluster.state is ClusterState.STOPPED:
        return
    unread = max(0.0, syncer.time - syncer.fetched)
    health, _ = limits.judge(max(0.0, unread - syncer.interval) / 60)
    if health is not Health.OK:
        yield health, f"the tree's repository was last read {age(now - syncer.fetched)} ago: {syncer.last_message}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
