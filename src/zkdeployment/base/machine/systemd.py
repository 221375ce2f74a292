"""systemd: notifications to the supervisor, scopes for programs that outlive the agent, and limits of services.

systemd stops a service by killing all processes of its control group. On a machine with systemd, a program that
has to outlive the agent therefore runs in a scope: a unit with its own control group, in which the program stays a
child of the agent. Without systemd, such a program only has its own session and process group.

When the machine shuts down, systemd stops the agent before its scopes. In the reverse order, systemd would
terminate a script at once, and the agent would report the end of the script as a failure, which stops the fleet.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from zkdeployment.base.errors import ProgramError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import process
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from signal import Signals


_FOREVER = 7 * 24 * 3600 * 1_000_000  # microseconds; longer than any package transaction
_PATIENCE = 1.0  # time limit in seconds for sending to a supervisor that does not read its socket


class SystemdNotifier:
    """Sends each message as a datagram to the socket in ``NOTIFY_SOCKET``; does nothing without that variable.

    Errors are ignored: a daemon works without its supervisor.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        address = environment.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the NUL of an abstract socket address.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        limit = environment.get("WATCHDOG_USEC", "")
        is_watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._limit = int(limit) if limit.isdecimal() and is_watched else 0

    def ready(self) -> None:
        """Report that the service is ready."""
        self._send("READY=1")

    def status(self, text: str) -> None:
        """Report the current activity of the service, in one line."""
        self._send(f"STATUS={' '.join(text.split())}")

    def stopping(self) -> None:
        """Report that the service is shutting down."""
        self._send("STOPPING=1")

    def reloading(self) -> None:
        """Report that the configuration is being reloaded, until ``ready``."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    @property
    def pace(self) -> float:
        """Seconds within which ``watchdog`` has to be called again; infinite if there is no watchdog."""
        return self._limit / 2e6 if self._limit else math.inf

    @contextlib.contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Return a context of any duration in which the supervisor does not apply its watchdog timeout."""
        if not self._limit:
            yield
            return
        self._send(f"WATCHDOG_USEC={_FOREVER}\nWATCHDOG=1")
        try:
            yield
        finally:
            self._send(f"WATCHDOG_USEC={self._limit}\nWATCHDOG=1")

    def watchdog(self) -> None:
        """Report that the service is alive."""
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(_PATIENCE)
            channel.connect(self._address)
            channel.sendall(message.encode("utf-8", errors="replace"))


#: The directory that exists if systemd is process 1; see sd_booted(3).
BOOTED = Path("/run/systemd/system")

#: The slice of all scopes, so that ``systemctl status`` and ``systemd-cgls`` show all scripts and their daemons.
_SLICE = "system-zkdeployment.slice"

_CONTROL_PATIENCE = 20.0  # time limit in seconds for systemctl

#: The control groups of this process, one line for each hierarchy; see cgroups(7).
_CONTROL_GROUPS = Path("/proc/self/cgroup")

#: The line of the hierarchy that systemd uses, for a process of a service.
_SERVICE = re.compile(r"^(?:0:|\d+:name=systemd):/(?:\S+/)?([^/\s]+\.service)(?:/|$)", re.MULTILINE)


@dataclass(frozen=True)
class Scope:
    """A scope, by the name of its ``unit``; ``None`` on a machine without systemd.

    ``properties`` are further settings of the unit, as in unit files.
    """

    unit: str | None = None
    properties: tuple[str, ...] = ()

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs ``argv`` in this scope.

        The command replaces itself by the program: process id, output and exit status are those of the program.
        """
        if self.unit is None:
            return list(argv)
        options = ["--scope", "--quiet", "--collect", f"--unit={self.unit}", f"--slice={_SLICE}"]
        # systemd stops units in the reverse order of their start.
        order = [] if (service := _own_service()) is None else [f"--property=Before={service}"]
        properties = [f"--property={setting}" for setting in self.properties]
        return ["systemd-run", *options, *order, *properties, "--", *argv]

    def signal(self, group: int, number: Signals) -> None:
        """Send a signal to all processes of this scope; without one, to the process group ``group``."""
        if self.unit is not None:
            try:
                process.run(
                    ["systemctl", "kill", f"--signal={number.name}", self.unit], timeout=_CONTROL_PATIENCE
                ).check()
            except ProgramError as error:  # The scope has ended, or systemd does not respond.
                get_logger().debug("scope-not-signalled", unit=self.unit, reason=str(error))
            else:
                return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)


def new_scope(name: str, *properties: str) -> Scope:
    """Return a new scope with ``properties`` for one program; its unique unit name contains ``name``.

    Only root may create scopes of the system's systemd; for other users the scope has no unit.
    """
    if os.geteuid() != 0 or not BOOTED.is_dir() or shutil.which("systemd-run") is None:
        return Scope()
    label = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:100]
    return Scope(f"zkdeployment-{label}-{uuid4().hex}.scope", properties)


#: The units of the time spans that systemctl prints, in seconds; see systemd.time(7).
_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3_600.0,
    "d": 86_400.0,
    "w": 604_800.0,
    "month": 2_629_800.0,
    "y": 31_557_600.0,
}


def stop_limit(service: str) -> float | None:
    """Return the seconds after which systemd kills a service that it stops; ``None`` without such a service."""
    if not BOOTED.is_dir():
        return None
    command = ["systemctl", "show", "--property=LoadState,TimeoutStopUSec", service]
    try:
        shown = process.run(command, timeout=_CONTROL_PATIENCE).check().stdout
    except ProgramError:
        return None
    values = dict(re.findall(r"(?m)^(\w+)=(.*)$", shown))
    if values.get("LoadState") != "loaded":
        return None
    span = values["TimeoutStopUSec"]
    parts = re.findall(r"([0-9.]+)([a-z]+)", span)
    return math.inf if span == "infinity" else sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _own_service() -> str | None:
    """Return the service that this process belongs to, if systemd started it."""
    service = _SERVICE.search(_CONTROL_GROUPS.read_text(encoding="utf-8"))
    return None if service is None else service[1]
