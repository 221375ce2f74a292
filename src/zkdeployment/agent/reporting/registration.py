"""Keeps the host's node in ZooKeeper, and repeats calls until ZooKeeper answers."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import tenacity

from zkdeployment.base.errors import (
    DeniedError,
    HostFilesError,
    ShutdownError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zkdeployment.agent.adapters import ReportingAdapters
    from zkdeployment.agent.events import AgentEvents
    from zkdeployment.base.cluster import Cluster, Revision
    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.deployment import Deployment, DeploymentFailure
    from zkdeployment.base.host import Host


class LocalHost:
    """Holds the current ``Host`` value of this agent. Only the agent's thread uses it."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def end_deployment(self) -> None:
        """Clear the deployment in progress."""
        self.host = replace(self.host, deploying=None, step=None, steps=None)

    def set_error(self, error: str | None) -> None:
        """Replace the host's error; without an error the host has no failure either."""
        self.host = replace(self.host, error=error, failed=None if error is None else self.host.failed)

    def set_failure(self, error: str, failed: DeploymentFailure | None) -> None:
        """Replace the host's error and failure."""
        self.host = replace(self.host, error=error, failed=failed)


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


_PACE = 1.0  # seconds between two updates of the node with progress


class RegistrationUpdater:
    """Keeps the host's node equal to the local host.

    Methods wait until ZooKeeper answers unless their docstrings name an exception.
    """

    def __init__(self, local: LocalHost, adapters: ReportingAdapters, retry: ZooKeeperRetry) -> None:
        self._local = local
        self._adapters = adapters
        self._retry = retry
        self._written: tuple[Host, int | None] | None = None  # the node's content, and the session that wrote it
        self._written_at = 0.0

    def register(self) -> None:
        """Connect and create the host's node; adopt the version of a persistent node of zc.zkdeployment.

        No version is adopted from such a node if a deployment was interrupted on this host, or if the host has
        publishers: no publisher signed that the host has the content of that version.
        """
        self._retry.retry_until_reachable(self._adapters.connect)
        self._update_address()
        adopt = self._adapters.adopts_versions and not self._adapters.run.is_changing()
        adopted = self._retry.retry_until_reachable(
            lambda: self._adapters.fleet.register(self._local.host, adopt=adopt)
        )
        if adopted is not None:
            self._local.host = replace(self._local.host, version=adopted, sequence=0)
            self._record_adopted(adopted)
        self._written = self._local.host, self._adapters.session()

    def ensure_registered(self) -> None:
        """Bring the host's node up to date, and create it again if it was removed."""
        if not self._retry.retry_until_reachable(self._adapters.fleet.is_registered):
            self._written = None
        self.refresh()

    def refresh(self) -> None:
        """Bring the host's node up to date if its content or its session is outdated."""
        if self._written != (self._local.host, self._adapters.session()):
            self._retry.retry_until_reachable(self._write)

    def refresh_session(self) -> None:
        """Register again if the session that owned the host's node has ended."""
        if self._written is None or self._written[1] != self._adapters.session():
            self._retry.retry_until_reachable(self._write)

    def refresh_at_pace(self) -> None:
        """Update the host's node at most once a second; never waits for ZooKeeper or a host, and never fails.

        A script may be running, which has to be watched; the next step reports what goes wrong here.
        """
        if self._adapters.session() is None:
            return
        due = self._written is not None and self._adapters.clock.monotonic() - self._written_at >= _PACE
        if due and self._written != (self._local.host, self._adapters.session()):
            self._written_at = self._adapters.clock.monotonic()
            try:
                self._write(patient=False)
            except ZkdeploymentError as error:
                get_logger().debug("progress-not-shown", reason=str(error))

    def hand_on_work(self, pending: Collection[Deployment] = ()) -> None:
        """Hand on the locks that are kept for this host, except those of the services of ``pending``.

        Call this when the host has nothing left to do under these locks, or has to wait for another host.
        """
        fleet, identity = self._adapters.fleet, self._local.host.identity
        if self._retry.retry_until_reachable(lambda: fleet.hand_on_work(identity, pending)):
            get_logger().warning("work-handed-on")

    def note_written(self) -> None:
        """Note that a transaction of another kind has just written the host's node, too."""
        # In a new session the node did not belong to this agent and is still to be created.
        if self._written is not None and self._written[1] == self._adapters.session():
            self._written = self._local.host, self._written[1]

    def _write(self, *, patient: bool = True) -> None:
        self._update_address()
        self._adapters.fleet.update_host(self._local.host, patient=patient)
        self._written = self._local.host, self._adapters.session()
        self._written_at = self._adapters.clock.monotonic()

    def _update_address(self) -> None:
        """Take over the host's address; while there is no connection, the last one stays."""
        self._local.host = replace(self._local.host, address=self._adapters.address() or self._local.host.address)

    def _record_adopted(self, version: Revision) -> None:
        try:
            self._adapters.run.write_version(version)
        except HostFilesError as error:
            get_logger().warning("version-not-recorded", reason=str(error))
