"""The job that brings check instances to the wanted state, its thread in a leading coordinator, and its pokes.

The job also reads the health of hosts for rollouts. A failed run is reported and tried again after a pause. The
failure neither ends the coordinator nor delays a rollout. Each monitoring system with a callback has a queue of
pokes with a thread of its own.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import defaultdict, deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.cycles import Backoff, CycleFailures, FailureKind
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.errors import ConflictError, LockLostError, TreeError, UnreachableError, error_message
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.clock import Clock, SystemClock
from zkdeployment.base.machine.http import HttpClient, HttpError
from zkdeployment.base.values import dataclass
from zkdeployment.checks.rules.findings import host_health
from zkdeployment.checks.rules.instance import CheckInstance, CheckState
from zkdeployment.checks.rules.monitoring_system import CheckResult, Poke, is_stale
from zkdeployment.checks.rules.spawning import (
    CheckedHost,
    CheckSnapshot,
    WantedInstance,
    changed_scope,
    deciding_instance,
    wanted_instances,
)
from zkdeployment.checks.rules.workflow import (
    POKE_AGAIN_AFTER,
    WantedConfiguration,
    delete,
    is_poke_due,
    life_cycle_turn,
    poke_succeeded,
    prune,
    want,
)
from zkdeployment.checks.settings import ChecksSettings
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.checks.store.sources import ZooKeeperCheckSources
from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.strategies.criteria import CHECKS, HostHealth, OutsideCriterion, checked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from zkdeployment.checks.ports import CheckSources
    from zkdeployment.checks.store.instances import ChangedInstance, InstanceChange
    from zkdeployment.config.settings import Settings
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.zookeeper.session import Session

#: Seconds for a whole request.
_LIMIT = 5.0

#: The path below the service's root where a poked system fetches an instance.
_PATH = "/deployments/id"


class HttpPokeSender:
    """Requests without redirects, from any thread; only the status of an answer counts."""

    def __init__(self) -> None:
        self._http = HttpClient()

    def send(self, callback: str, instance: str) -> str | None:
        """Notify a monitoring system of an update of an instance, within a few seconds; never raises.

        Returns ``None`` if the system accepted the poke, otherwise the reason of the failure, without the URL.
        """
        body = json.dumps({"uuid": instance, "path": _PATH}).encode("ascii")
        headers = {"Content-Type": "application/json"}
        try:
            answer = self._http.request("POST", callback, timeout=_LIMIT, most=0, body=body, headers=headers)
        except HttpError as error:
            return f"it cannot be reached: {error}"
        return answer.problem or None


#: Seconds before each retry of a poke. After the last retry the poke waits for the next turn of the life cycle.
RETRY_DELAYS = (1.0, 2.0, 4.0, 8.0)


class PokeQueue:
    """Sends the offered pokes one after the other.

    ``delivered`` is called in the queue's thread with each poke that the system accepted; it must not raise.
    """

    def __init__(self, system: str, sender: HttpPokeSender, delivered: Callable[[Poke], None]) -> None:
        self._system = system
        self._sender = sender
        self._delivered = delivered
        self._changed = threading.Condition()
        self._waiting: deque[Poke] = deque()
        self._instances: set[str] = set()
        self._closed = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="check-pokes", daemon=True)
        self._thread.start()

    def __contains__(self, instance: str) -> bool:
        with self._changed:
            return instance in self._instances

    def __len__(self) -> int:
        with self._changed:
            return len(self._instances)

    def offer(self, pokes: Iterable[Poke]) -> None:
        """Add pokes; an instance that is in the queue is poked only once."""
        with self._changed:
            for poke in pokes:
                if poke.instance not in self._instances:
                    self._instances.add(poke.instance)
                    self._waiting.append(poke)
            self._changed.notify()

    def close(self) -> None:
        """Drop all pokes and end the thread after the request in progress."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._instances.clear()
            self._changed.notify()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, but not longer than ``timeout`` seconds."""
        self._thread.join(timeout)

    def _run(self) -> None:
        while (poke := self._next()) is not None:
            if self._deliver(poke):
                self._delivered(poke)
            with self._changed:
                # If the flag was set again, the next turn offers the instance again.
                self._instances.discard(poke.instance)

    def _next(self) -> Poke | None:
        """Wait for the next poke; ``None`` at the end."""
        with self._changed:
            while not self._closed and not self._waiting:
                self._changed.wait()
            return None if self._closed else self._waiting.popleft()

    def _deliver(self, poke: Poke) -> bool:
        """Send a poke, with the retries; return whether the system accepted it."""
        problem = self._sender.send(poke.callback, poke.instance)
        for delay in RETRY_DELAYS:
            if problem is None or not self._pause(delay):
                break
            problem = self._sender.send(poke.callback, poke.instance)
        log = get_logger().bind(monitoring=self._system)
        if problem is not None and not self._failing:
            log.warning("check-poke-failed", reason=problem)
        elif problem is None and self._failing:
            log.info("check-poke-recovered")
        self._failing = problem is not None
        return problem is None

    def _pause(self, seconds: float) -> bool:
        """Wait before a retry; return whether the queue is still open."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._closed, seconds)


#: The limit of pokes in the queue of a system; further pokes follow in later turns.
_MOST_WAITING = 2000

#: Seconds for the requests in progress at the end.
_DELIVERING = 2.0


class CheckPokes:
    """Pokes the monitoring systems while this coordinator leads."""

    def __init__(
        self,
        instances: ZooKeeperCheckInstances,
        systems: ZooKeeperMonitoringSystems,
        sender: HttpPokeSender,
        clock: Clock,
    ) -> None:
        self._instances = instances
        self._systems = systems
        self._sender = sender
        self._clock = clock
        self._callbacks: dict[str, str | None] | None = None
        self._queues: dict[str, PokeQueue] = {}
        #: The time at which an instance was first found waiting without a flag, or last read; by system and
        #: instance.
        self._seen: dict[str, dict[str, float]] = {}

    def run(self, callbacks: Mapping[str, str | None]) -> None:
        """Queue the pokes that are due; ``callbacks`` are those of the published monitoring systems.

        A system whose document was removed keeps its callback, so that it is notified of undeployments.
        """
        if self._callbacks is None:
            self._callbacks = dict(self._systems.callbacks())
        for system, callback in callbacks.items():
            if system not in self._callbacks or self._callbacks[system] != callback:
                self._systems.set_callback(system, callback)
                self._callbacks[system] = callback
        for system, known in self._callbacks.items():
            if known is not None:
                self._poke(system, known)

    @property
    def waiting(self) -> int:
        """The number of instances that are to be poked, or are just poked."""
        return sum(len(queue) for queue in self._queues.values())

    def close(self) -> None:
        """Drop all pokes, and forget all times."""
        queues, self._queues = self._queues, {}
        for closing in queues.values():
            closing.close()
        deadline = time.monotonic() + _DELIVERING
        for closing in queues.values():
            closing.join(max(0.0, deadline - time.monotonic()))
        self._callbacks = None
        self._seen.clear()

    def _poke(self, system: str, callback: str) -> None:
        flagged = self._instances.flagged(system)
        overdue = self._overdue(system, frozenset(self._instances.open(system)).difference(flagged))
        queue = self._queues.get(system)
        room = _MOST_WAITING - (0 if queue is None else len(queue))
        wanted = [found for found in (*flagged, *overdue) if queue is None or found not in queue][:room]
        if not wanted:
            return
        if queue is None:
            queue = self._queues[system] = PokeQueue(system, self._sender, self._note_delivery)
        queue.offer(self._due(system, callback, wanted))

    def _due(self, system: str, callback: str, instances: list[str]) -> Iterator[Poke]:
        now = self._clock.now()
        for instance in self._instances.find(instances).values():
            if instance.system == system and is_poke_due(instance, now):
                yield Poke(instance.id, callback, instance.flag)

    def _overdue(self, system: str, waiting: frozenset[str]) -> list[str]:
        """Return the instances that have waited so long that they have to be read again."""
        now, seen = self._clock.now(), self._seen.get(system, {})
        self._seen[system] = {instance: seen.get(instance, now) for instance in waiting}
        overdue = [found for found, since in self._seen[system].items() if abs(now - since) >= POKE_AGAIN_AFTER]
        self._seen[system] |= dict.fromkeys(overdue, now)
        return overdue

    def _note_delivery(self, poke: Poke) -> None:
        """Clear the flag for which a poke was sent; if that fails, the instance is poked again."""

        def change(_: str, instance: CheckInstance | None) -> CheckInstance | None:
            return instance if instance is None else poke_succeeded(instance, poke.flag, self._clock.now())

        try:
            self._instances.change([poke.instance], change)
        except Exception as error:  # noqa: BLE001  the queue continues after every failure
            get_logger().warning("check-flag-not-cleared", instance=poke.instance, reason=error_message(error))


class IsolatedChanges:
    """Changes ``instances``, and keeps the reasons for which some of them were not written."""

    def __init__(self, instances: ZooKeeperCheckInstances) -> None:
        self._instances = instances
        self._reasons: dict[str, str] = {}
        self._recorded: Mapping[str, str] | None = None

    def __bool__(self) -> bool:
        """Whether any instance could not be written and waits for another attempt."""
        return bool(self._reasons)

    def change(self, instances: Collection[str], change: InstanceChange) -> Mapping[str, ChangedInstance]:
        """Change instances and return those that were written.

        Raises what ``ZooKeeperCheckInstances.change`` raises.
        """
        failed: dict[str, str] = {}
        written = self._instances.change(instances, change, failed.update)
        for instance in written:
            self._reasons.pop(instance, None)
        for reason in sorted({*failed.values()} - {*self._reasons.values()}):
            get_logger().error("check-instances-unwritten", reason=reason)
        self._reasons |= failed
        return written

    def record(self) -> None:
        """Record the reasons, unless they are recorded already."""
        if self._reasons != self._recorded:
            self._instances.record_unwritten(self._reasons)
            self._recorded = dict(self._reasons)

    def forget(self) -> None:
        """Forget all reasons, before all instances are compared."""
        self._reasons.clear()
        self._recorded = None


#: Seconds until all instances are compared again, if some of them could not be written.
_RETRY = 300.0


@dataclass(frozen=True, slots=True)
class _Awaited:
    """The deployment for which a configuration that awaits its computation waits."""

    host: str
    deployment: Deployment
    publication: int

    def is_completed(self, hosts: Mapping[str, CheckedHost]) -> bool:
        """Whether the host has completed the publication, even if its deployments were not read yet."""
        host = hosts.get(self.host)
        return host is not None and host.completed >= self.publication

    def is_reported(self, hosts: Mapping[str, CheckedHost]) -> bool:
        host = hosts.get(self.host)
        return host is not None and host.has_reported(self.deployment, self.publication)


class CheckJob:
    """Computes and orders instances.

    The job keeps the last computed sources, but no instances: it derives the affected instances from a change of
    the sources, and reads only these. After ``forget``, the next run compares all of them.
    """

    def __init__(self, instances: ZooKeeperCheckInstances, sources: CheckSources, clock: Clock) -> None:
        self._instances = instances
        self._sources = sources
        self._clock = clock
        self._computed: CheckSnapshot | None = None
        self._compared_at = 0.0
        self._awaited: dict[str, _Awaited] = {}
        #: Instances that cannot be written do not delay other instances.
        self.changes = IsolatedChanges(instances)
        #: The hosts whose deployments have to be read: they have completed a publication that instances await.
        self._followed: frozenset[str] = frozenset()

    @property
    def computed(self) -> CheckSnapshot | None:
        """The sources of the last written instances; any thread may read this value."""
        return self._computed

    def forget(self) -> None:
        """Let the next run compare all instances: other processes, or a failed run, may have changed them."""
        self._computed = None
        self.changes.forget()

    def run(self) -> CheckSnapshot:
        """Compute the instances that a change of the sources affects; return the sources."""
        snapshot = self._sources.read(self._followed)
        if self._computed is None or (self.changes and self._clock.now() - self._compared_at >= _RETRY):
            self._compute_all(snapshot)
        elif snapshot is not self._computed:
            self._compute_changed(self._computed, snapshot)
        self._computed = snapshot
        self._followed = frozenset(
            awaited.host for awaited in self._awaited.values() if awaited.is_completed(snapshot.basis.hosts)
        )
        snapshot = self._sources.read(self._followed)
        self._compute_reported(snapshot)
        return snapshot

    def _compute_all(self, snapshot: CheckSnapshot) -> None:
        """Compare all instances with the wanted ones, and write those that differ."""
        self._awaited, self._compared_at = {}, self._clock.now()
        wanted, former = _by_id(wanted_instances(snapshot.basis)), set()
        now, different = self._clock.now(), []
        for instance in self._instances.scan(skip_damaged=True):
            former.add(instance.id)
            self._note(instance.id, instance)
            if _wanted(instance, deciding_instance(wanted, instance.key), snapshot, now) != instance:
                different.append(instance.id)
        missing = [found for found in wanted if found not in former and not wanted[found].faults]
        self._write([*different, *missing], wanted, snapshot)

    def _compute_changed(self, before: CheckSnapshot, after: CheckSnapshot) -> None:
        """Write the instances that a change of the sources affects."""
        scope = changed_scope(before.basis, after.basis)
        if scope:
            former, wanted = (_by_id(wanted_instances(basis, scope)) for basis in (before.basis, after.basis))
            if any(found.check.is_overfull for found in former.values()):  # the existing instances are not known
                self._compute_all(after)
                return
            self._write(sorted(former.keys() | wanted.keys()), wanted, after)

    def _compute_reported(self, snapshot: CheckSnapshot) -> None:
        """Compute and order the configurations whose deployments were reported."""
        hosts = snapshot.basis.hosts
        reported = [instance for instance, awaited in self._awaited.items() if awaited.is_reported(hosts)]

        def compute(_: str, instance: CheckInstance | None) -> CheckInstance | None:
            return instance if instance is None else _reported(instance, hosts, self._clock.now())

        self._record("check-instances-computed", self.changes.change(reported, compute))

    def _write(
        self, instances: Collection[str], wanted: Mapping[str, WantedInstance], snapshot: CheckSnapshot
    ) -> None:
        def change(instance_id: str, instance: CheckInstance | None) -> CheckInstance | None:
            found = wanted.get(instance_id) if instance is None else deciding_instance(wanted, instance.key)
            return _wanted(instance, found, snapshot, self._clock.now())

        self._record("check-instances-changed", self.changes.change(instances, change))

    def _record(self, event: str, changes: Mapping[str, ChangedInstance]) -> None:
        for instance_id, (_, after) in changes.items():
            self._note(instance_id, after)
        changed = sum(1 for before, after in changes.values() if before != after)
        if changed:
            get_logger().info(event, instances=changed, awaited=len(self._awaited))

    def _note(self, instance_id: str, instance: CheckInstance | None) -> None:
        """Note the deployment for which an instance waits."""
        awaited = None if instance is None else _awaited(instance)
        if awaited is None:
            self._awaited.pop(instance_id, None)
        else:
            self._awaited[instance_id] = awaited


def _by_id(instances: Iterable[WantedInstance]) -> dict[str, WantedInstance]:
    return {instance.id: instance for instance in instances}


def _wanted(
    instance: CheckInstance | None, wanted: WantedInstance | None, snapshot: CheckSnapshot, now: float
) -> CheckInstance | None:
    """Return an instance in the state that the sources want, or unchanged if it has faults."""
    if wanted is None:
        return None if instance is None else delete(instance, now)
    if wanted.faults:
        return instance
    configuration = WantedConfiguration(wanted.details(), wanted.system, snapshot.publication)
    return want(instance or CheckInstance(wanted.key), configuration, now, is_reported=False)


def _reported(instance: CheckInstance, hosts: Mapping[str, CheckedHost], now: float) -> CheckInstance:
    """Return an instance with its new configuration computed and ordered, if the deployment was reported."""
    awaited, newest = _awaited(instance), instance.newest
    if awaited is None or newest is None or not awaited.is_reported(hosts):
        return instance
    configuration = WantedConfiguration(newest.details, newest.system, newest.publication)
    return want(instance, configuration, now, is_reported=True)


def _awaited(instance: CheckInstance) -> _Awaited | None:
    newest = instance.newest
    if instance.deleted or newest is None or newest.state is not CheckState.AWAITING_COMPUTATION:
        return None
    return _Awaited(instance.key.host, Deployment(instance.key.path, instance.key.number), newest.publication)


class CheckHealth:
    """Reads the health of hosts, with the wanted checks of ``job``, which another thread may run."""

    def __init__(
        self, job: CheckJob, instances: ZooKeeperCheckInstances, systems: ZooKeeperMonitoringSystems
    ) -> None:
        self._job = job
        self._instances = instances
        self._systems = systems

    def read(self, since: Mapping[str, float], publication: int, now: float) -> HostHealth:
        """Return the health of hosts after a publication; ``since`` is the time of each host's deployment, by id.

        Results of a monitoring system that is silent do not count. Raises ``UnreachableError``.
        """
        computed = self._job.computed
        if computed is None or computed.publication < publication:
            return HostHealth(unchecked=dict.fromkeys(since, "its checks were not computed yet"))
        hosts = {host: found for host, found in computed.basis.hosts.items() if host in since}
        if not computed.basis.configurations:
            return HostHealth()
        basis = replace(computed.basis, hosts=hosts)
        wanted = [found.key for found in wanted_instances(basis) if not found.faults]
        instances = self._instances.find([key.id for key in wanted])
        by_system: dict[str, list[str]] = defaultdict(list)
        for found, instance in instances.items():
            by_system[instance.system].append(found)
        results: dict[str, CheckResult] = {}
        contacts = self._systems.contacts()
        for system, ids in by_system.items():
            results |= {} if is_stale(contacts.get(system), now) else self._systems.results(system, ids)
        health = host_health(wanted, instances, results, since)
        unknown = dict.fromkeys(since.keys() - hosts.keys(), "its checks were not computed yet")
        return replace(health, unchecked={**unknown, **health.unchecked})


#: Seconds until a coordinator that does not lead checks again whether it leads.
_QUEUED = 1.0

#: Seconds: the longest pause after turns that fail, and the wait for a turn in progress at the end.
_LONGEST_PAUSE = 60.0
_CLOSING = 5.0

_FAILURE_KINDS = (
    FailureKind(UnreachableError, "checks-paused", logging.WARNING),
    FailureKind(ConflictError, "checks-paused", logging.WARNING),
    FailureKind(Exception, "checks-failed", logging.ERROR),
)


class CheckDaemon:
    """Runs a turn every ``interval`` seconds while ``lead`` returns the lock node of this coordinator.

    ``record_failure``: see ``CycleFailures``.
    """

    def __init__(  # noqa: PLR0913  the parts and adapters that it depends on
        self,
        instances: ZooKeeperCheckInstances,
        systems: ZooKeeperMonitoringSystems,
        job: CheckJob,
        pokes: CheckPokes,
        clock: Clock,
        *,
        lead: Callable[[], str | None],
        interval: float,
        record_failure: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._instances = instances
        self._systems = systems
        self._job = job
        self._pokes = pokes
        self._clock = clock
        self._lead = lead
        self._interval = interval
        self._node: str | None = None
        self._backoff = Backoff(first=2.0, most=_LONGEST_PAUSE)
        self._failures = CycleFailures(_FAILURE_KINDS, record=record_failure)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checks", daemon=True)

    def start(self) -> None:
        """Begin to run turns; does not wait."""
        self._thread.start()

    def close(self) -> None:
        """End after the turn in progress, and drop all pokes."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSING)
        self._pokes.close()

    @property
    def pokes_waiting(self) -> int:
        """The number of pokes that wait or are in progress."""
        return self._pokes.waiting

    def run_cycle(self) -> float:
        """Run a turn if this coordinator leads; return the seconds until the next one."""
        node = self._lead()
        if node != self._node:
            self._node = node
            self._forget()
        if node is None:
            self._failures.end()
            return min(_QUEUED, self._interval)
        begun = self._clock.monotonic()
        try:
            self.run_turn()
        except Exception as error:  # noqa: BLE001  the next turn tries again
            return self._report(error)
        self._backoff.reset()
        self._failures.end()
        return max(0.0, self._interval - (self._clock.monotonic() - begun))

    def run_turn(self) -> None:
        """Run the job, the steps of the life cycle in their order, and the pokes."""
        snapshot = self._job.run()
        now = self._clock.now()
        changes = self._job.changes
        changes.change(self._instances.due(), lambda _, found: found and life_cycle_turn(found, now))
        self._prune(now)
        changes.record()
        self._pokes.run(snapshot.callbacks)

    def _run(self) -> None:
        while not self._closed.is_set():
            self._closed.wait(self.run_cycle())

    def _prune(self, now: float) -> None:
        """Prune the instances of one bucket; each turn prunes the next bucket."""
        try:
            held = self._instances.bucket(int(now // self._interval))
        except TreeError:  # the bucket is damaged; each change of its instances records that
            return
        old = {instance.id: instance.system for instance in held if _pruned(instance, now) != instance}
        changed = self._job.changes.change(old, lambda _, found: found and _pruned(found, now))
        for instance, (before, after) in changed.items():
            if before is not None and after is None:
                self._systems.forget_results(before.system or old[instance], [instance])

    def _forget(self) -> None:
        """Read everything again in the next turn."""
        self._job.forget()
        self._pokes.close()

    def _report(self, error: Exception) -> float:
        """Report an error, unless the lead was lost; return the seconds until the next turn."""
        self._job.forget()  # parts of the turn may have been written
        if isinstance(error, LockLostError):
            self._node = None
            return _QUEUED
        self._failures.report(error)
        return self._backoff.fail()


def _pruned(instance: CheckInstance, now: float) -> CheckInstance | None:
    """Return an instance without configurations that await their deletion for long; ``None`` if none is left."""
    pruned = prune(instance, now)
    return None if pruned.deleted and not pruned.configurations else pruned


def build_checks(
    session: Session, lead: Callable[[], str | None], *, interval: float
) -> tuple[CheckDaemon, CheckHealth]:
    """Return the daemon that runs checks while ``lead`` returns this coordinator's node, and their reader."""
    clock, systems = SystemClock(), ZooKeeperMonitoringSystems(session)
    instances = ZooKeeperCheckInstances(session, lead, reach=failpoints.reach)
    job = CheckJob(instances, ZooKeeperCheckSources(session), clock)
    pokes = CheckPokes(instances, systems, HttpPokeSender(), clock)
    record = FailureRecord(session, "job of the checks")
    daemon = CheckDaemon(
        instances, systems, job, pokes, clock, lead=lead, interval=interval, record_failure=record.write
    )
    return daemon, CheckHealth(job, instances, systems)


def check_criterion(
    settings: Settings, session: Session, lead: Callable[[], str | None], _wake: Callable[[], None]
) -> OutsideCriterion:
    """Return the criterion ``healthy_checks``; the leading coordinator runs the checks in the background."""
    daemon, health = build_checks(session, lead, interval=settings.require(ChecksSettings).interval)
    return OutsideCriterion(CHECKS, daemon.start, daemon.close, partial(deciding_health, health))


def deciding_health(health: CheckHealth, state: RolloutState, now: float) -> HostHealth | None:
    """Return the health of the hosts whose checks decide now; ``None`` if the checks of no host do."""
    since = checked(state, now)
    return health.read(since, state.sequence, now) if since else None
