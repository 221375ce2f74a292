"""Repeats calls until ZooKeeper answers, and shows operators that the agent waits for it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

import tenacity

from zkdeployment.errors import DeniedError, HostFilesError, ShutdownError, UnreachableError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.daemons.agent.agent_adapters import ReportingAdapters
    from zkdeployment.daemons.agent.reporting.local_host import LocalHost
    from zkdeployment.daemons.control import Control
    from zkdeployment.daemons.telemetry.agent_events import AgentEvents
    from zkdeployment.model.cluster import Cluster

T = TypeVar("T")

_UNREACHABLE_PAUSE = 0.5  # seconds between two attempts to reach ZooKeeper
_DENIED_PAUSE = 5.0  # the same after ZooKeeper denied access: people correct that, and people are slower
_LOG_EVERY = 120  # attempts between two log lines


class ZooKeeperRetry:
    """Repeats calls that fail with ``UnreachableError`` or ``DeniedError``."""

    def __init__(
        self, local: LocalHost, adapters: ReportingAdapters, control: Control, telemetry: AgentEvents
    ) -> None:
        self._local = local
        self._adapters = adapters
        self._control = control
        self._telemetry = telemetry

    def retry_until_reachable(self, call: Callable[[], T]) -> T:
        """Repeat a call until ZooKeeper answers and return its result.

        Raises ``ShutdownError`` if this process is asked to end while ZooKeeper does not answer.
        """
        return self._retry(call, lambda: self._control.stopping)

    def retry_until_overdue(self, call: Callable[[], T]) -> T:
        """Like ``retry_until_reachable``, but use the whole grace period of a shutdown before giving up."""
        return self._retry(call, lambda: self._control.overdue)

    def read_cluster(self, changed: Callable[[], None] | None = None) -> Cluster | None:
        """Return the cluster version from ZooKeeper, once ZooKeeper answers.

        ``changed`` (which must not block) is called once, when the cluster version may have changed.
        """
        cluster = self.retry_until_reachable(lambda: self._adapters.fleet.cluster(changed))
        self._telemetry.observe(cluster)
        return cluster

    def _retry(self, call: Callable[[], T], give_up: Callable[[], bool]) -> T:
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((UnreachableError, DeniedError)),
            wait=_pause,
            stop=lambda _: give_up(),
            before_sleep=self._show_waiting,
            reraise=True,
        )
        try:
            result = attempts(call)
        except (UnreachableError, DeniedError) as error:
            raise ShutdownError(f"asked to end while ZooKeeper did not answer ({error})") from error
        if attempts.statistics["attempt_number"] > 1:
            self._write_status(self._local.host.step)
        return result

    def _show_waiting(self, state: tenacity.RetryCallState) -> None:
        self._adapters.notifier.watchdog()
        self._telemetry.beat(self._local.host)
        if state.attempt_number == 1:
            self._write_status("wait for ZooKeeper")
        if state.attempt_number % _LOG_EVERY == 1 and state.outcome is not None:
            reason = str(state.outcome.exception())
            get_logger().warning("waiting-for-zookeeper", reason=reason)
            self._adapters.notifier.ready()  # an agent without ZooKeeper is up and must not delay the boot
            self._adapters.notifier.status(f"waiting for ZooKeeper: {reason}")

    def _write_status(self, step: str | None) -> None:
        """Write what a deployment waits for, or that it continues, with the time, into the status file."""
        deploying = self._local.host.deploying
        if deploying is not None and step is not None:
            with contextlib.suppress(HostFilesError):  # the next step fails in the same way and reports it
                self._adapters.run.write_status(deploying, step)


def _pause(state: tenacity.RetryCallState) -> float:
    """Return the seconds until the next attempt."""
    denied = state.outcome is not None and isinstance(state.outcome.exception(), DeniedError)
    return _DENIED_PAUSE if denied else _UNREACHABLE_PAUSE
