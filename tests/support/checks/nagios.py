"""A real Nagios: with all of its files in one directory and ``check_nrpe``, or with a bridge to a service."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from support.checks.monitoring import SimulatedMonitoringService
from support.waiting import wait_until
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.checks.nagios.bridge import ChangedInstances, CheckReports, NagiosBridge
from zkdeployment.checks.nagios.check_rollouts import CheckRollouts, FirstRuns
from zkdeployment.checks.nagios.files import NagiosPlace
from zkdeployment.checks.nagios.program import LocalNagios, NagiosObjectDirectory
from zkdeployment.checks.rules.instance import InstanceKey
from zkdeployment.sandbox.nagios import NagiosServer, find_nagios

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from zkdeployment.checks.ports import MonitoringService


_SECTIONS = re.compile(r"^(\w+) \{\n(.*?)^\s*\}", re.MULTILINE | re.DOTALL)

#: A second is Nagios' unit of time, so that intervals of minutes pass soon.
_MORE = """\
cfg_file={shipped}
cfg_file={place}/objects.cfg
resource_file={place}/resource.cfg
interval_length=1
"""

#: The objects that the shipped definitions refer to: a time period, a contact, a host; and the services.
_OBJECTS = """\
define timeperiod {{
    timeperiod_name  24x7
    alias            always
    sunday           00:00-24:00
    monday           00:00-24:00
    tuesday          00:00-24:00
    wednesday        00:00-24:00
    thursday         00:00-24:00
    friday           00:00-24:00
    saturday         00:00-24:00
}}
define contact {{
    contact_name                   admin
    service_notification_commands  notify-nobody
    host_notification_commands     notify-nobody
    service_notification_period    24x7
    host_notification_period       24x7
}}
define contactgroup {{
    contactgroup_name  admins
    members            admin
}}
define hostgroup {{
    hostgroup_name  zkdeployment-hosts
}}
define host {{
    host_name           zk1
    address             127.0.0.1
    hostgroups          zkdeployment-hosts
    max_check_attempts  1
    check_period        24x7
    contact_groups      admins
}}
{services}"""

#: Runs the commands of ``nrpe.cfg``, as NRPE would; NRPE itself takes a fixed port and is never root.
_CHECK_NRPE = """\
#!/bin/sh
[ "$1 $3 $4 $5" = "-H -t 20 -c" ] || exit 3
exec sh -c "$(sed -n "s/^command\\[$6\\]=//p" {place}/nrpe.cfg)"
"""


class Nagios:
    """Nagios with the ``shipped`` definitions and ``services``; its plugins are ``check`` and a ``check_nrpe``.

    ``on_host`` is the line of the host's ``nrpe.cfg``.
    """

    def __init__(self, place: Path, *, shipped: Path, services: str, check: Path, on_host: str) -> None:
        self._server = NagiosServer(find_nagios(), place)
        self._server.configure(_MORE.format(shipped=shipped, place=place))
        (place / "plugins").mkdir()
        (place / "objects.cfg").write_text(_OBJECTS.format(services=services))
        (place / "resource.cfg").write_text(f"$USER1$={place}/plugins\n")
        (place / "nrpe.cfg").write_text(f"{on_host}\n")
        (place / "plugins" / check.name).symlink_to(check)
        check_nrpe = place / "plugins/check_nrpe"
        check_nrpe.write_text(_CHECK_NRPE.format(place=place))
        check_nrpe.chmod(0o755)

    def verify(self) -> str:
        """Return Nagios' report on its configuration; fail the test if Nagios rejects it."""
        done = subprocess.run(shlex.split(self._server.verify), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return done.stdout

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run Nagios while the context is open."""
        self._server.start()
        try:
            yield
        finally:
            self._server.stop()

    def wait_for(self, service: str, state: int) -> str:
        """Wait until a service's check has this state; return its output."""
        services: dict[str, str] = {}

        def has_state() -> bool:
            services.update(self._services().get(service, {}))
            return (services.get("has_been_checked"), services.get("current_state")) == ("1", str(state))

        wait_until(has_state, f"{service} is in state {state}")
        return services["plugin_output"]

    def _services(self) -> dict[str, dict[str, str]]:
        """Return each service's entry in the status file."""
        try:
            text = self._server.status_file.read_text()
        except FileNotFoundError:
            return {}
        matches = [
            dict(line.strip().split("=", 1) for line in body.splitlines() if "=" in line)
            for kind, body in _SECTIONS.findall(text)
            if kind == "servicestatus"
        ]
        return {service["service_description"]: service for service in matches}


def status_text(server: NagiosServer) -> str:
    """Return the text of the status file, which is missing for a moment while Nagios starts again."""
    texts: list[str] = []

    def is_read() -> bool:
        with contextlib.suppress(FileNotFoundError):
            texts.append(server.status_file.read_text())
        return bool(texts)

    wait_until(is_read, "the status file")
    return texts[0]


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
        """Return the output of Nagios about an invalid configuration; ``None`` if it is valid."""
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
        outputs: list[str] = []

        def is_there() -> bool:
            result = self.service.results.get(instance)
            outputs.extend([] if result is None or result.state != state else [result.output])
            return bool(outputs)

        wait_until(is_there, f"the result of {instance} is {state}")
        return outputs[0]
