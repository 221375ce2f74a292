"""A real Nagios with a bridge to a service, and checks for it."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from support.simulated_monitoring import SimulatedMonitoringService
from support.waiting import wait_until
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.checks.nagios.bridge import ChangedInstances, CheckReports, NagiosBridge
from zkdeployment.checks.nagios.check_rollouts import CheckRollouts, FirstRuns
from zkdeployment.checks.nagios.object_files import NagiosPlace
from zkdeployment.checks.nagios.program import LocalNagios, NagiosObjectDirectory
from zkdeployment.checks.rules.instance import InstanceKey
from zkdeployment.sandbox.nagios import NagiosServer, find_nagios

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from zkdeployment.checks.ports import MonitoringService


def make_details(name: str, host: str, command: str, *arguments: str, **more: Any) -> dict[str, Any]:
    """Return the details of a check of ``/NAME`` on a host."""
    return {
        "configuration": name,
        "monitoring": "nagios1",
        "host": {"id": host, "name": f"{host}.example.com", "address": "127.0.0.1"},
        "path": f"/{name}",
        "number": 0,
        "command": command,
        "arguments": list(arguments),
        "thresholds": [],
        "interval": 1,
        "properties": {},
    } | more


def make_key(details: dict[str, Any]) -> InstanceKey:
    """Return the key of the instance with these details."""
    return InstanceKey(details["configuration"], details["path"], details["number"], details["host"]["id"])


@dataclass
class BridgedNagios:
    """A Nagios in ``directory`` that follows ``service``; each ``bridge()`` is a new one without memory."""

    directory: Path
    service: SimulatedMonitoringService = field(default_factory=SimulatedMonitoringService)

    def __post_init__(self) -> None:
        self.server = NagiosServer(find_nagios(), self.directory)
        self.server.configure()
        self.plugins = self.directory / "plugins"
        self.plugins.mkdir()
        for plugin in ("check_dummy", "check_tcp"):
            (self.plugins / plugin).symlink_to(self.server.plugins / plugin)
        self.program = self.program_of_another_bridge()

    def program_of_another_bridge(self) -> LocalNagios:
        """Return an adapter that has not read the status file yet."""
        return self.make_program(self.verify_command, shlex.split(self.server.reload))

    @property
    def verify_command(self) -> Sequence[str]:
        """The command that verifies the configuration."""
        return shlex.split(self.server.verify)

    def make_program(
        self, verify: Sequence[str], reload: Sequence[str], kind: type[LocalNagios] = LocalNagios
    ) -> LocalNagios:
        """Return an adapter with these commands."""
        return kind(
            objects=self.server.objects,
            plugins=self.plugins,
            verify=verify,
            reload=reload,
            command_file=self.server.command_file,
            status_file=self.server.status_file,
        )

    def want(self, name: str, host: str, command: str, *arguments: str, **more: Any) -> str:
        """Want a check of ``/NAME`` on a host; return its instance."""
        details = make_details(name, host, command, *arguments, **more)
        return self.service.want(make_key(details), details)

    def rollouts(
        self,
        program: LocalNagios | None = None,
        *,
        service: MonitoringService | None = None,
        objects: NagiosObjectDirectory | None = None,
        first_runs: FirstRuns | None = None,
    ) -> CheckRollouts:
        """Return the part of a new bridge that rolls out checks; without ``first_runs`` it waits for no plugin."""
        place = NagiosPlace(
            objects=str(self.server.objects),
            plugins=str(self.plugins),
            host_template="generic-host",
            service_template="generic-service",
        )
        directory = objects or NagiosObjectDirectory(self.server.objects)
        return CheckRollouts(service or self.service, directory, program or self.program, place, first_runs)

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Return the mode and the content of the files in the objects directory, also of hidden ones."""
        found = {}
        for file in self.server.objects.glob("*"):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                found[file.name] = file.stat().st_mode & 0o777, file.read_bytes()
        return found

    def verify(self) -> str | None:
        """Return what Nagios would print now, if it were started; ``None`` if its configuration is valid."""
        completed = subprocess.run(self.verify_command, capture_output=True, text=True, check=False)
        return completed.stdout if completed.returncode else None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run Nagios."""
        self.server.start()
        try:
            yield
        finally:
            self.server.stop()

    @contextmanager
    def bridge(self, interval: float = 0.2) -> Iterator[NagiosBridge]:
        """Run a bridge that polls; it was asked to end when the context ends, and has."""
        clock = SystemClock()
        control = Control(clock)
        bridge = NagiosBridge(
            ChangedInstances(self.service, clock, interval, control.wake),
            self.rollouts(first_runs=FirstRuns(self.program, clock)),
            CheckReports(self.service, self.program, clock),
            control,
            clock=clock,
            notifier=SystemdNotifier({}),
        )
        thread = threading.Thread(target=bridge.run)
        thread.start()
        try:
            yield bridge
        finally:
            control.stop()
            thread.join()
            assert not thread.is_alive()

    def wait_state(self, instance: str, state: str) -> None:
        """Wait until an instance's current configuration is in a state."""

        def is_there() -> bool:
            found = self.service.state(instance)
            return found is not None and found.value == state

        wait_until(is_there, f"{instance} is {state}")

    def wait_result(self, instance: str, state: str) -> str:
        """Wait until a result with this state was reported; return the output."""

        def is_there() -> bool:
            result = self.service.results.get(instance)
            return result is not None and result.state == state

        wait_until(is_there, f"the result of {instance} is {state}")
        return self.service.results[instance].output
