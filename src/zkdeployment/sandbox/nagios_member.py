"""Nagios with its bridge, as one member of a sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.sandbox.layout import nagios_configuration, write_private
from zkdeployment.sandbox.members import SandboxDaemon
from zkdeployment.sandbox.nagios import NagiosServer, find_nagios

if TYPE_CHECKING:
    from pathlib import Path

#: The user of the bridge, whose name is that of the monitoring system.
NAGIOS_USER = "nagios1"


@dataclass(frozen=True, slots=True)
class SandboxNagios:
    """The Nagios of the sandbox ``owner``, with all its files in ``directory``."""

    owner: Path
    directory: Path

    @property
    def exists(self) -> bool:
        """Whether the sandbox has a Nagios."""
        return self._configuration.exists()

    @property
    def bridge(self) -> SandboxDaemon:
        """The bridge."""
        return SandboxDaemon(self.owner, self.directory, "bridge", ["nagios", str(self._configuration)])

    @property
    def pid(self) -> int | None:
        """The process id of Nagios while it runs."""
        return self._server.pid

    def status(self) -> dict[str, Any] | None:
        """Return the process ids of Nagios and of its bridge; ``None`` without a Nagios."""
        return {"pid": self.pid, "bridge": self.bridge.pid} if self.exists else None

    def create(self, url: str, zookeeper: str) -> None:
        """Write the configuration of Nagios and of a bridge to the service at ``url``, and add its user."""
        # The libraries of the service are optional.
        from zkdeployment.sandbox.service import add_monitoring_system  # noqa: PLC0415

        server = self._server
        server.configure()
        key_file = self.directory / "key"
        write_private(key_file, f"{add_monitoring_system(zookeeper, NAGIOS_USER)}\n")
        text = nagios_configuration(
            {
                "server": url,
                "user": NAGIOS_USER,
                "key-file": str(key_file),
                "objects": str(server.objects),
                "plugins": str(server.plugins),
                "command-file": str(server.command_file),
                "status-file": str(server.status_file),
                "verify": server.verify,
                "reload": server.reload,
                "interval": "1",
            },
            root=self.directory,
        )
        write_private(self._configuration, text)

    def start(self) -> None:
        """Start Nagios and its bridge, unless they run."""
        self._server.start()
        self.bridge.start()

    def stop(self) -> None:
        """End the bridge and Nagios."""
        self.bridge.stop()
        self._server.stop()

    def kill(self) -> None:
        """End the bridge and Nagios like a crash."""
        self.bridge.kill()
        self._server.kill()

    @property
    def _server(self) -> NagiosServer:
        return NagiosServer(find_nagios(), self.directory)

    @property
    def _configuration(self) -> Path:
        return self.directory / "bridge.cfg"
