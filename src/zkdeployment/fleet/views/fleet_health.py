"""Judges the health of the whole fleet for ``monitor --cluster``.

The health of a single host, and the types of both, are in ``health``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.act import describe_decision
from zkdeployment.base.cluster import Cluster, ClusterState, short
from zkdeployment.base.durations import age
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.daemon_failures import describe_failure
from zkdeployment.fleet.views.health import Health, HealthLimits, HealthVerdict, Measure, one_line
from zkdeployment.fleet.views.instances import NO_SERVICES, ServicesSnapshot
from zkdeployment.fleet.views.locks import is_orphaned, present_hosts
from zkdeployment.fleet.views.requests import describe_refusal
from zkdeployment.fleet.views.snapshot import (
    NO_HOSTS_SENTENCE,
    FleetSnapshot,
    describe_group_stops,
    describe_stops,
)
from zkdeployment.fleet.views.status import (
    UNAWAITED,
    FleetStatus,
    HostState,
    HostStatus,
    describe_down,
    describe_hosts_in_maintenance,
    fleet_status,
)
from zkdeployment.publishing.rules.convergence import describe_unserved
from zkdeployment.strategies.timekeeping import baking_for
from zkdeployment.strategies.views import (
    RolloutProgressState,
    final_report,
    is_attempt_due,
    last_movement,
    rollout_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zkdeployment.base.lock import Lock
    from zkdeployment.config.settings import Settings
    from zkdeployment.publishing.records import SyncerReport

    #: Judges what a feature read: yields each problem with its severity.
    JudgeAlarms = Callable[["AlarmTimes"], Iterable[tuple[Health, str]]]

#: The most hosts and stops that a line names.
_NAMED = 3

#: A finding: the severity and the message.
_Finding = tuple[Health, str]


@dataclass(frozen=True, slots=True)
class AlarmTimes:
    """The time by which alarms are judged.

    ``now`` is in seconds since the epoch. ``published_for`` is the number of seconds since the cluster version was
    set. ``limits`` are in minutes. ``settings`` are those of the monitor, ``None`` without a configuration.
    """

    now: float
    published_for: float
    limits: HealthLimits
    settings: Settings | None = None


@dataclass(frozen=True, slots=True)
class MonitoredFleet:
    """The part of the fleet's state that the monitor reads.

    ``syncer`` is the last report of a syncer; ``None``, if none ever reported, is not a problem. ``alarms`` judge
    what the features read, by the ``settings`` of the monitor.
    """

    snapshot: FleetSnapshot
    locks: Sequence[Lock] = ()
    syncer: SyncerReport | None = None
    alarms: Sequence[JudgeAlarms] = ()
    services: ServicesSnapshot = NO_SERVICES
    settings: Settings | None = None


def fleet_health(fleet: MonitoredFleet, *, now: float, limits: HealthLimits) -> HealthVerdict:
    """Judge the fleet: return the most severe state, and one line with all problems, the most severe first.

    ``limits`` are in minutes and apply to the time that the slowest host has been behind, a lock was held, the
    syncer has been silent, the repository could not be read, a monitoring system fetched nothing, or a pool has
    been below its level. ``now`` is in seconds since the epoch.
    """
    snapshot, syncer = fleet.snapshot, fleet.syncer
    status = fleet_status(snapshot, services=fleet.services)
    cluster = snapshot.cluster
    if cluster is None:
        return HealthVerdict(Health.UNKNOWN, NO_HOSTS_SENTENCE)
    wanted_for = 0.0 if snapshot.changed is None else max(0.0, now - snapshot.changed)
    times = AlarmTimes(now, wanted_for, limits, fleet.settings)
    registered = {host.identity.id: host for host in snapshot.hosts}
    behind = [
        (registered[host.id].behind_for(snapshot.changed, now), host)
        for host in status.hosts
        if host.idle_role is None and host.state in (HostState.BEHIND, HostState.DEPLOYING)
    ]
    findings = [
        *_halts(status, now),
        *_failures(status),
        *(
            _rollout(snapshot, status, wanted_for, now, limits)
            if _is_rolling_out(snapshot)
            else _slow_hosts(snapshot, behind, wanted_for, limits)
        ),
        *_feature_decisions(status, now),
        *_absences(status),
        *_reboots(status, now),
        *(
            (Health.WARNING, sentence)
            for sentence in (*describe_unserved(status.unserved), *describe_down(status))
        ),
        *_old_locks(snapshot, fleet.locks, now, limits),
        *_silent_syncer(syncer, now, limits),
        *((Health.CRITICAL, sentence) for sentence in describe_group_stops(snapshot.group_stops, now)),
        *_failing_daemons(snapshot, now, limits),
        *_refused_tip(snapshot, now),
        *_unread_repository(cluster, syncer, now, limits),
        *(finding for judge in fleet.alarms for finding in judge(times)),
    ]
    health = max((severity for severity, _ in findings), default=Health.OK)
    findings.sort(key=lambda finding: -finding[0])
    line = "; ".join(message for _, message in findings) or _converged(status, wanted_for)
    line = "; ".join(filter(None, (line, describe_hosts_in_maintenance(status))))
    lag = max((seconds for seconds, _ in behind), default=0.0) if cluster.revision is not None else 0.0
    return HealthVerdict(health, one_line(line), (*_counts(status), Measure("lag", round(lag), "s")))


def _converged(status: FleetStatus, wanted_for: float) -> str:
    hosts = [host for host in status.hosts if host.state is HostState.CONVERGED]
    excluded = [host for host in status.hosts if host.state is HostState.EXCLUDED]
    if not hosts and UNAWAITED.isdisjoint(host.state for host in status.hosts):
        return f"No hosts are registered; published is {short(status.wanted)}"
    more = f", and {counted(len(excluded), 'host')} excluded" if excluded else ""
    return f"Converged at {short(status.wanted)}, set {age(wanted_for)} ago: {counted(len(hosts), 'host')}{more}"


def _counts(status: FleetStatus) -> tuple[Measure, ...]:
    hosts = [host for host in status.hosts if host.expected]
    counts = {state: sum(1 for host in hosts if host.state is state) for state in HostState}
    return (
        Measure("hosts", len(hosts)),
        Measure("converged", counts[HostState.CONVERGED], most=len(hosts)),
        Measure("behind", counts[HostState.BEHIND] + counts[HostState.DEPLOYING] + counts[HostState.REBOOTING]),
        Measure("failed", counts[HostState.FAILED]),
        Measure("absent", counts[HostState.ABSENT]),
    )


def _halts(status: FleetStatus, now: float) -> Iterator[_Finding]:
    state = None if status.cluster is None else status.cluster.state
    reasons = listing(describe_stops(status.stops, now), _NAMED)
    if state is ClusterState.HELD:
        yield Health.WARNING, f"Cluster is {reasons or 'held: the cluster version was set to false'}"
    if state is ClusterState.STOPPED:
        by_operators = bool(status.stops) and not any(stop.is_open_failure for stop in status.stops)
        health = Health.WARNING if by_operators else Health.CRITICAL
        yield health, f"ALL STOP: {reasons or 'the cluster version was set to null'}"


def _failures(status: FleetStatus) -> Iterator[_Finding]:
    """Yield the failures that are not already part of the message on stops."""
    stopping = {stop.host_id for stop in status.stops}
    failed = [host for host in status.hosts if host.state is HostState.FAILED]
    failures = [f"{host.name}: {host.error}" for host in failed if host.id not in stopping and not host.idle_role]
    if failures:
        yield Health.CRITICAL, f"{counted(len(failures), 'host')} failed: {listing(failures, _NAMED)}"
    alone = [f"{host.name}: {host.error}" for host in failed if host.idle_role]
    if alone:
        hosts = counted(len(alone), "host")
        yield Health.WARNING, f"{hosts} that can be leased failed: {listing(alone, _NAMED)}"


def _slow_hosts(
    snapshot: FleetSnapshot, behind: Sequence[tuple[float, HostStatus]], wanted_for: float, limits: HealthLimits
) -> Iterator[_Finding]:
    """Yield the host whose last change is the oldest; no host is slow while the cluster is stopped or held.

    ``behind`` are the hosts that lack the cluster version, with the seconds for which they could have followed it.
    """
    cluster = snapshot.cluster
    if cluster is not None and cluster.state is ClusterState.IMPORTING:
        health, _ = limits.judge(wanted_for / 60)
        yield health, f"the publication of {short(cluster.importing)} is incomplete after {age(wanted_for)}"
    elif behind and cluster is not None and cluster.state is ClusterState.RUNNING:
        longest = max(seconds for seconds, _ in behind)
        slowest = min((host for seconds, host in behind if seconds == longest), key=lambda host: host.since or 0.0)
        health, crossed = limits.judge(longest / 60)
        limit = f", {crossed} min" if crossed else ""
        lag = f"{counted(len(behind), 'host')} behind {short(slowest.wanted)} for {age(longest)}{limit}"
        yield health, f"{lag}; slowest: {slowest.name} ({slowest.step or 'not begun'})"


def _is_rolling_out(snapshot: FleetSnapshot) -> bool:
    """Return whether hosts wait for a rollout: a strategy governs them, and not all groups have succeeded."""
    state = snapshot.rollout
    return snapshot.governed and (state is None or rollout_state(state) is not RolloutProgressState.SUCCESS)


def _rollout(
    snapshot: FleetSnapshot, status: FleetStatus, wanted_for: float, now: float, limits: HealthLimits
) -> Iterator[_Finding]:
    """Judge a rollout by its last change, because hosts that wait for the rollout are not slow.

    A rollout with a coordinator that waits for a bake time is not slow either.
    """
    state = snapshot.rollout
    unchanged_for = wanted_for if state is None else min(wanted_for, max(0.0, now - last_movement(state)))
    baking = 0.0 if state is None or snapshot.coordinator is None else baking_for(state, now)
    health, _ = limits.judge(max(0.0, unchanged_for - baking) / 60)
    if state is None or is_attempt_due(state) or (state.ended is None and snapshot.coordinator is None):
        reason = "no coordinator runs" if snapshot.coordinator is None else "the rollout has not begun"
        rollout = f"the rollout of {short(snapshot.published)}"
        yield health, f"{rollout} has made no progress for {age(unchanged_for)}: {reason}"
    elif rollout_state(state) is RolloutProgressState.PARTIAL:
        yield Health.WARNING, final_report(state)
    elif state.active_phase is not None:
        group = state.active_phase.task.group
        yield health, f"rollout {state.id} is at group {group}, last change {age(unchanged_for)} ago"
    elif state.ended is None and not status.rollout_decisions:
        yield Health.OK, f"rollout {state.id} waits: {state.waiting or 'for its next group'}"
    if state is not None:
        for decision in status.rollout_decisions:
            yield Health.WARNING, f"rollout {state.id}: {describe_decision(decision, now)}"


def _feature_decisions(status: FleetStatus, now: float) -> Iterator[_Finding]:
    due = [describe_decision(each, now) for each in status.feature_decisions]
    if due:
        yield Health.WARNING, listing(due, _NAMED)


def _absences(status: FleetStatus) -> Iterator[_Finding]:
    absent = [host.name for host in status.hosts if host.state is HostState.ABSENT and host.expected]
    if absent:
        yield Health.WARNING, f"{counted(len(absent), 'host')} absent: {listing(absent, _NAMED)}"


def _reboots(status: FleetStatus, now: float) -> Iterator[_Finding]:
    """Yield the hosts that reboot: no problem before the deadline of a reboot."""
    for host in status.hosts:
        if host.reboot is not None:
            health = Health.WARNING if host.reboot.is_due(now) else Health.OK
            yield health, f"{host.name} {host.reboot}"


def _old_locks(
    snapshot: FleetSnapshot, locks: Sequence[Lock], now: float, limits: HealthLimits
) -> Iterator[_Finding]:
    present = present_hosts(snapshot)
    for lock in locks:
        holder = lock.holder
        if holder is None:
            continue
        held = max(0.0, now - lock.since)
        health, crossed = limits.judge(held / 60)
        if is_orphaned(lock, present):
            health, crossed = max(health, Health.WARNING), "not registered"
        if health is not Health.OK:
            yield health, f"{lock} has been held by {holder.identity} for {age(held)} ({crossed.strip()})"


def _silent_syncer(syncer: SyncerReport | None, now: float, limits: HealthLimits) -> Iterator[_Finding]:
    if syncer is None:
        return
    silent = max(0.0, now - syncer.time)
    health, _ = limits.judge(max(0.0, silent - syncer.interval) / 60)
    if health is not Health.OK:
        yield health, f"syncer silent for {age(silent)} (last: {syncer.by})"


def _failing_daemons(snapshot: FleetSnapshot, now: float, limits: HealthLimits) -> Iterator[_Finding]:
    """Yield the daemons whose cycles fail, as a warning at once, because such a daemon does no work."""
    for failure in snapshot.failures:
        health, _ = limits.judge(max(0.0, now - failure.since) / 60)
        yield max(health, Health.WARNING), describe_failure(failure, now)


def _refused_tip(snapshot: FleetSnapshot, now: float) -> Iterator[_Finding]:
    if snapshot.refusal is not None:
        yield Health.WARNING, describe_refusal(snapshot.refusal, now)


def _unread_repository(
    cluster: Cluster, syncer: SyncerReport | None, now: float, limits: HealthLimits
) -> Iterator[_Finding]:
    """Yield a syncer that runs but cannot read the repository; while the cluster is stopped, it does not try."""
    if syncer is None or syncer.fetched is None or cluster.state is ClusterState.STOPPED:
        return
    unread = max(0.0, syncer.time - syncer.fetched)
    health, _ = limits.judge(max(0.0, unread - syncer.interval) / 60)
    if health is not Health.OK:
        yield health, f"the tree's repository was last read {age(now - syncer.fetched)} ago: {syncer.last_message}"
