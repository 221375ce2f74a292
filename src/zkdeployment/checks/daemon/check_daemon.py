"""The thread of a coordinator that runs the checks while the coordinator leads.

A failed run is reported and tried again after a pause. The failure neither ends the coordinator nor delays a
rollout.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.cycles import Backoff, CycleFailures, FailureKind
from zkdeployment.base.errors import ConflictError, LockLostError, TreeError, UnreachableError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.checks.daemon.check_job import CheckHealth, CheckJob
from zkdeployment.checks.daemon.pokes import CheckPokes, HttpPokeSender
from zkdeployment.checks.rules.workflow import life_cycle_turn, prune
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.checks.store.sources import ZooKeeperCheckSources
from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.strategies.state import OutsideCriterion

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.checks.rules.instance import CheckInstance
    from zkdeployment.config.settings import Settings
    from zkdeployment.zookeeper.session import Session

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


def check_criterion(settings: Settings, session: Session, lead: Callable[[], str | None]) -> OutsideCriterion:
    """Return the criterion ``healthy_checks``; the leading coordinator runs the checks in the background."""
    daemon, health = build_checks(session, lead, interval=settings.require_checks().interval)
    return OutsideCriterion(daemon.start, daemon.close, health.read)
