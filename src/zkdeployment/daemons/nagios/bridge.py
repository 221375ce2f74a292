"""The daemon of the Nagios bridge: it follows the changes of instances, and synchronizes after every failure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zkdeployment.daemons.backoff import Backoff
from zkdeployment.errors import ServiceError, ZkdeploymentError, error_message
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.systemd import SystemdNotifier
    from zkdeployment.daemons.control import Control
    from zkdeployment.daemons.nagios.changed_instances import ChangedInstances
    from zkdeployment.daemons.nagios.check_reports import CheckReports
    from zkdeployment.daemons.nagios.check_rollouts import CheckRollouts
    from zkdeployment.ports.process import Clock

#: Seconds between two reports.
_REPORTING = 5.0

#: Seconds between two reports while rollouts wait for the first run of their plugins.
_PROVING = 1.0


class NagiosBridge:
    """Keeps the checks of a Nagios at what the service wants until asked to end."""

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
        """Roll out what has changed, and report, each if it is due."""
        now = self._clock.monotonic()
        if now >= self._retry_at:
            self._attempt("rollout", self._follow)
        if now >= self._reported_at + self._reporting:
            self._reported_at = now
            self._attempt("first run", self._prove)
            self._attempt("report", self._report)
        self._notifier.status(self._activity())

    def _follow(self) -> None:
        """Roll out what has changed; at the start and after a failure, synchronize everything."""
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
        """Act, and log when a problem begins, changes or ends."""
        problem = ""
        try:
            act()
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
        """Return the seconds until something is due."""
        now = self._clock.monotonic()
        rollout = self._retry_at if self._retry_at > now else self._changed.due
        return max(0.0, min(rollout, self._reported_at + self._reporting) - now)
