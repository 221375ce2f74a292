"""Shows why a host starts no deployment although the fleet is running."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from zkdeployment.daemons.agent.agent_adapters import ReportingAdapters
    from zkdeployment.daemons.agent.reporting.deployment_status import DeploymentStatus
    from zkdeployment.daemons.agent.reporting.local_host import LocalHost
    from zkdeployment.daemons.agent.reporting.registration_updater import RegistrationUpdater


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
