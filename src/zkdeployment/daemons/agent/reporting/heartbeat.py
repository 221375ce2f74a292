"""Signs of life of a host while something takes long: supervisor, metrics, the host's node in ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import ShutdownError

if TYPE_CHECKING:
    from zkdeployment.daemons.agent.agent_adapters import ReportingAdapters
    from zkdeployment.daemons.agent.reporting.local_host import LocalHost
    from zkdeployment.daemons.agent.reporting.registration_updater import RegistrationUpdater
    from zkdeployment.daemons.control import Control
    from zkdeployment.daemons.telemetry.agent_events import AgentEvents


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
