"""The daemon of the Nagios bridge: it follows the changes of instances, and reports results and downtimes."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.cycles import Backoff
from zkdeployment.base.errors import NagiosError, ServiceError, ShutdownError, ZkdeploymentError, error_message
from zkdeployment.base.log import get_logger
from zkdeployment.checks.nagios.files import (
    NagiosResult,
    NagiosStatus,
    changed_results,
    downtime_command,
    downtime_hosts,
    due_downtimes,
    read_status_file,
    result_batches,
    results_of_checks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.machine.systemd import SystemdNotifier
    from zkdeployment.checks.nagios.check import NagiosCheck
    from zkdeployment.checks.nagios.check_rollouts import CheckRollouts
    from zkdeployment.checks.nagios.program import LocalNagios
    from zkdeployment.checks.ports import MonitoringService


#: The most pokes that are remembered; if there are more, everything has to be synchronized.
_MOST_POKES = 10_000


class ChangedInstances:
    """Collects pokes from any thread, calling ``wake`` for each, and polls every ``interval`` seconds if given.

    All methods but ``poke`` belong to the bridge's thread.
    """

    def __init__(
        self, service: MonitoringService, clock: Clock, interval: float | None, wake: Callable[[], None]
    ) -> None:
        self._service = service
        self._clock = clock
        self._interval = math.inf if interval is None else interval
        self._wake = wake
        self._lock = threading.Lock()
        self._poked: set[str] = set()
        self._polled_at = -math.inf

    def poke(self, instance: str) -> None:
        """Remember an instance that the service has named."""
        with self._lock:
            if len(self._poked) <= _MOST_POKES:
                self._poked.add(instance)
        self._wake()

    @property
    def overflowed(self) -> bool:
        """Whether there were too many pokes to remember."""
        with self._lock:
            return len(self._poked) > _MOST_POKES

    @property
    def due(self) -> float:
        """The time of the next poll, on the monotonic clock."""
        return self._polled_at + self._interval

    def clear(self) -> None:
        """Forget all pokes and postpone the next poll, because everything is about to be synchronized."""
        self._polled_at = self._clock.monotonic()
        with self._lock:
            self._poked = set()

    def take(self) -> frozenset[str]:
        """Return the changed instances, polling if due; raises ``ServiceError``, after which pokes are lost."""
        with self._lock:
            poked, self._poked = self._poked, set()
        now = self._clock.monotonic()
        if now < self.due:
            return frozenset(poked)
        self._polled_at = now
        return self._service.list_flagged() | poked


#: Seconds between reports of unchanged results after the plugin ran again, and between signs of life. Rollouts
#: with ``healthy_checks`` wait for them.
_SIGN_OF_LIFE = 20.0

#: Seconds after which an unchanged status file is no longer a sign of life of Nagios.
_STALE = 180.0


class CheckReports:
    """Reports the results of the checks of ``nagios`` to ``service``, and gives deploying hosts a downtime."""

    def __init__(self, service: MonitoringService, nagios: LocalNagios, clock: Clock) -> None:
        self._service = service
        self._nagios = nagios
        self._clock = clock
        self._status = NagiosStatus()
        self._reported: dict[str, NagiosResult] = {}
        self._dropped: frozenset[str] = frozenset()
        self._reported_at = -math.inf
        self._requested: dict[str, float] = {}

    def read(self, checks: Mapping[str, NagiosCheck], written: Mapping[str, float]) -> Mapping[str, NagiosResult]:
        """Return the results of the present definitions of checks; raises ``NagiosError``.

        ``written`` is when each definition was written.
        """
        self._read_status()
        return results_of_checks(self._status.results, checks, written)

    def send(self, checks: Mapping[str, NagiosCheck], written: Mapping[str, float]) -> bool:
        """Report once; raises ``ServiceError`` and ``NagiosError``.

        ``written`` is when the definition of each check was written. Return whether the service dropped results of
        further instances, because the checks of Nagios differ from the deployed ones.
        """
        self._read_status()
        try:
            self._request_downtimes(checks)
        finally:
            is_dropped = self._report_results(checks, written)
        return is_dropped

    def _read_status(self) -> None:
        text = self._nagios.read_status()
        if text is not None:
            self._status = read_status_file(text)

    def _report_results(self, checks: Mapping[str, NagiosCheck], written: Mapping[str, float]) -> bool:
        age = self._clock.now() - self._status.created
        if self._status.created and age > _STALE:
            raise NagiosError(
                f"Nagios has not written its status file for {age:.0f} s: results are not reported; is it running?"
            )
        results = results_of_checks(self._status.results, checks, written)
        due = self._status.created > 0 and self._clock.monotonic() - self._reported_at >= _SIGN_OF_LIFE
        changed = changed_results(results, self._reported, refresh=due)
        if not changed and not due:
            return False
        dropped = frozenset[str]().union(*map(self._service.report_results, result_batches(changed)))
        is_dropped = not dropped <= self._dropped
        self._dropped = (self._dropped.difference(changed) | dropped).intersection(results)
        self._reported = {instance: self._reported.get(instance, result) for instance, result in results.items()}
        self._reported |= changed
        if due:
            self._reported_at = self._clock.monotonic()
        return is_dropped

    def _request_downtimes(self, checks: Mapping[str, NagiosCheck]) -> None:
        now = self._clock.now()
        hosts = downtime_hosts(self._service.list_working_hosts(), checks.values()) if checks else frozenset()
        # Nagios writes its status file later, so requested downtimes count as well.
        self._requested = {host: end for host, end in self._requested.items() if end > now}
        ends = dict(self._status.downtimes)
        for host, end in self._requested.items():
            ends[host] = max(end, ends.get(host, 0.0))
        due = due_downtimes(hosts, ends, now)
        if due:
            self._nagios.submit(downtime_command(host, now, end) for host, end in due.items())
            self._requested |= due


#: Seconds between two reports.
_REPORTING = 5.0

#: Seconds between two reports while rollouts wait for the first run of their plugins.
_PROVING = 1.0


class NagiosBridge:
    """Keeps the checks of a Nagios in the state that the service wants, until asked to end."""

    def __init__(
        self,
        changed: ChangedInstances,
        rollouts: CheckRollouts,
        reports: CheckReports,
        control: Control,
        *,
        clock: Clock,
        notifier: SystemdNotifier,
    ) -> None:
        self._changed = changed
        self._rollouts = rollouts
        self._reports = reports
        self._control = control
        self._clock = clock
        self._notifier = notifier
        self._backoff = Backoff(first=1.0, most=60.0)
        self._reported_at = -math.inf
        self._retry_at = -math.inf
        self._problems: dict[str, str] = {}

    def run(self) -> None:
        """Synchronize, then follow the service."""
        self._notifier.ready()
        get_logger().info("bridge-started")
        while not self._control.stopping:
            self._cycle()
            self._notifier.watchdog()
            self._control.wait(min(self._pause(), self._notifier.pace))
        self._notifier.stopping()
        get_logger().info("bridge-ended")

    def _cycle(self) -> None:
        """Roll out changes and report results, each if it is due."""
        now = self._clock.monotonic()
        if now >= self._retry_at:
            self._attempt("rollout", self._follow)
        if now >= self._reported_at + self._reporting:
            self._reported_at = now
            self._attempt("first run", self._prove)
            self._attempt("report", self._report)
        self._notifier.status(self._activity())

    def _follow(self) -> None:
        """Roll out changes; at the start and after a failure, synchronize everything."""
        try:
            if self._changed.overflowed or not self._rollouts.is_synchronized:
                self._changed.clear()
                self._rollouts.synchronize()
            else:
                self._rollouts.update(self._changed.take())
        except ZkdeploymentError:
            self._rollouts.forget()
            self._retry_at = self._clock.monotonic() + self._backoff.fail()
            raise
        self._backoff.reset()

    def _prove(self) -> None:
        """Answer the rollouts whose plugins have run; after a failure, synchronize next."""
        if not self._rollouts.waiting:
            return
        results = self._reports.read(self._rollouts.checks, self._rollouts.written)
        try:
            self._rollouts.prove(results)
        except ServiceError:
            self._rollouts.forget()
            raise

    @property
    def _reporting(self) -> float:
        """The seconds between two reports."""
        return _PROVING if self._rollouts.waiting else _REPORTING

    def _report(self) -> None:
        """Report; if the service has deployed other checks, synchronize next."""
        if self._reports.send(self._rollouts.proven, self._rollouts.written):
            get_logger().warning("results-dropped")
            self._rollouts.forget()

    def _attempt(self, part: str, act: Callable[[], None]) -> None:
        """Call ``act``, and log when a problem begins, changes or ends; the end of this process is no problem."""
        problem = ""
        try:
            act()
        except ShutdownError:
            return
        except ZkdeploymentError as error:
            problem = error_message(error)
        if problem == self._problems.get(part, ""):
            return
        self._problems[part] = problem
        log = get_logger().bind(part=part)
        if problem:
            log.error("bridge-failed", reason=problem)
        else:
            log.info("bridge-recovered")

    def _activity(self) -> str:
        """Return the first problem, or the number of checks."""
        problem = next((problem for problem in self._problems.values() if problem), None)
        return problem.partition("\n")[0] if problem else f"{len(self._rollouts.checks)} checks in Nagios"

    def _pause(self) -> float:
        """Return the seconds until the next action is due."""
        now = self._clock.monotonic()
        rollout = self._retry_at if self._retry_at > now else self._changed.due
        return max(0.0, min(rollout, self._reported_at + self._reporting) - now)
