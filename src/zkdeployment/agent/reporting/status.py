"""Shows and records the course of a deployment: begin, steps, and success, abandonment or refusal.

Failures belong to ``failures``.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.deployment import DeploymentResult
from zkdeployment.base.errors import HostFilesError, ShutdownError
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.agent.adapters import ReportingAdapters
    from zkdeployment.agent.events import AgentEvents
    from zkdeployment.agent.reporting.registration import LocalHost, RegistrationUpdater
    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.stop import LackingGroup


class Heartbeat:
    """Shows that the agent is alive, without ever waiting for ZooKeeper."""

    def __init__(
        self,
        local: LocalHost,
        adapters: ReportingAdapters,
        registration: RegistrationUpdater,
        control: Control,
        telemetry: AgentEvents,
    ) -> None:
        self._local = local
        self._adapters = adapters
        self._registration = registration
        self._control = control
        self._telemetry = telemetry

    def beat(self) -> None:
        """Notify the supervisor, and write metrics and the host's node if they are due."""
        self._adapters.notifier.watchdog()
        self._telemetry.beat(self._local.host)
        self._registration.refresh_at_pace()

    def tick(self) -> None:
        """Beat while a script or a package transaction runs.

        Raises ``ShutdownError`` if the agent was asked to end and the grace period is over.
        """
        self.beat()
        if self._control.overdue:
            raise ShutdownError("asked to end, and the step in progress did not end in time")

    def write_metrics(self, *, up: bool = True) -> None:
        """Write all metrics now; ``up``: whether the agent continues."""
        self._telemetry.write(self._local.host, up=up)


class DeploymentStatus:
    """Keeps the status file, the host's version on disk, its node and the metrics in step with a deployment.

    Methods wait until ZooKeeper answers unless their docstrings name an exception.
    """

    def __init__(
        self,
        local: LocalHost,
        adapters: ReportingAdapters,
        registration: RegistrationUpdater,
        heartbeat: Heartbeat,
        telemetry: AgentEvents,
    ) -> None:
        self._local = local
        self._adapters = adapters
        self._registration = registration
        self._heartbeat = heartbeat
        self._telemetry = telemetry

    def begin(self, revision: Revision) -> None:
        """Show that a deployment begins and clear the error of the last one."""
        self._telemetry.begin()
        self._local.set_error(None)
        self._local.host = replace(self._local.host, deploying=str(revision), step=None, steps=None)
        self._registration.refresh()

    @contextlib.contextmanager
    def awaiting_script(self, revision: str, name: str) -> Iterator[None]:
        """Show, during the block, that the host waits for a script that the previous agent began."""
        self._local.host = replace(self._local.host, deploying=revision, step=None, steps=None)
        try:
            self.show(revision, f"wait for {name}, which the previous agent began", 0, 0)
        except HostFilesError as error:
            get_logger().error("status-not-written", reason=str(error))
        self._registration.refresh()
        try:
            yield
        finally:
            self._local.end_deployment()

    def restart_timer(self) -> None:
        """Measure the deployment's duration from now on, after a wait that does not count."""
        self._telemetry.begin()

    def give_up_version(self) -> None:
        """Record on disk, then in ZooKeeper, that the host has no version until a deployment succeeded."""
        host = self._local.host
        self._adapters.run.clear_version(host.version)
        former = host.former if host.version is None else host.version
        self._local.host = replace(host, version=None, sequence=0, former=former)
        self._registration.refresh()

    def show(self, revision: Revision, step: str, done: int, total: int) -> bool:
        """Show the current step: in the status file at once, in ZooKeeper at most once a second.

        Returns whether it differs from the step shown before; an unchanged step keeps its time in the status file.
        Never waits for ZooKeeper.
        """
        host = self._local.host
        changed = (host.step, host.steps) != (step, (done, total))
        if changed:
            self._adapters.run.write_status(revision, step)
            self._adapters.notifier.status(f"{revision}: {step} ({done} of {total} steps done)")
            self._local.host = replace(host, step=step, steps=(done, total))
        self._heartbeat.beat()
        return changed

    def lack(self, lacking: Mapping[str, LackingGroup]) -> None:
        """Record on disk what the host lacks because a group is stopped, before its version is recorded."""
        self._adapters.run.write_lacking(lacking)
        self._local.host = replace(self._local.host, lacking=dict(lacking))

    def succeed(
        self, revision: Revision, sequence: int, lacking: Mapping[str, LackingGroup] | None = None
    ) -> None:
        """Record that the host is at ``revision``: in ZooKeeper, in ``host_version``, in the status file.

        ``sequence`` is that of the publication that the host completed; 0 for a version that was set by hand.
        ``lacking`` is what the host lacks of it, because groups are stopped (``None``: what it lacked before).

        Raises ``HostFilesError`` if a file cannot be written; then the local host keeps its version from before,
        so that the deployment is repeated.
        """
        if lacking is not None and lacking != self._local.host.lacking:
            self.lack(lacking)
        before = self._local.host
        completed = None if before.lacking else sequence or None
        self._local.set_error(None)
        self._local.host = replace(
            self._local.host, version=revision, sequence=sequence, completed=completed, former=None
        )
        self._local.end_deployment()
        self._registration.refresh()
        try:
            self._adapters.run.write_version(revision, sequence)
            self._adapters.run.write_status(revision, "done")
        except HostFilesError:
            self._local.host = replace(
                self._local.host,
                version=before.version,
                sequence=before.sequence,
                completed=before.completed,
                former=before.former,
            )
            raise
        self._telemetry.end(DeploymentResult.DONE)
        self._adapters.notifier.status(f"{revision}: done")

    def abandon(self) -> None:
        """Note that no deployment is in progress any more; the host's node is not updated at once."""
        self._telemetry.end(DeploymentResult.ABANDONED)
        self._local.end_deployment()

    def settle(self) -> None:
        """Show that there is nothing to do at the host's version."""
        self._local.set_error(None)
        self.abandon()
        self._registration.refresh()
        if self._adapters.run.read_status() != "done":
            self._adapters.run.write_status(self._local.host.version, "done")


class RefusalStatus:
    """Shows an error of this host alone: the fleet is not stopped. Waits until ZooKeeper answers."""

    def __init__(
        self,
        local: LocalHost,
        adapters: ReportingAdapters,
        registration: RegistrationUpdater,
        deployment: DeploymentStatus,
    ) -> None:
        self._local = local
        self._adapters = adapters
        self._registration = registration
        self._deployment = deployment
        self._refusal: str | None = None

    def refuse(self, reason: str) -> None:
        """Show until ``clear_refusal`` why this host starts nothing; logs each reason once."""
        if self._local.host.error != reason:
            self.stay_failed(reason)
            self._refusal = reason

    def stay_failed(self, reason: str) -> None:
        """Show the error with which this host is excluded until its next deployment; logs each reason once."""
        if self._local.host.error == reason:
            return
        get_logger().error("deployment-refused", reason=reason)
        self._local.set_error(reason)
        self._deployment.abandon()
        try:
            self._adapters.run.write_status(self._local.host.version, "error")
        except HostFilesError as error:
            get_logger().error("status-not-written", error=str(error))
        self._adapters.notifier.status(reason)
        self._registration.refresh()

    def clear_refusal(self) -> None:
        """Clear the error that the last ``refuse`` showed, if it is still shown."""
        if self._refusal is not None and self._local.host.error == self._refusal:
            self._local.set_error(None)
            self._registration.refresh()
        self._refusal = None
