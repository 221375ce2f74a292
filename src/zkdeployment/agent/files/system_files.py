"""The operating system of a host: what the host has completed of its system node, its boot, and its reboot."""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.rebooting import newest_of_running
from zkdeployment.base.errors import HostFilesError, ProgramError, RebootError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import process
from zkdeployment.base.machine.boots import read_boot_id
from zkdeployment.base.machine.files import JsonFile
from zkdeployment.base.machine.reboots import SystemState
from zkdeployment.base.system import RebootFacts
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.agent.adapters import PackageManager

_KERNEL = Path("sys/kernel/osrelease")
_INIT = Path("proc/1")
_UPTIME = Path("uptime")

#: The program of dnf that reports the packages that ask for a reboot; one line for each, with an asterisk.
_REPORTER = "needs-restarting"
_REPORTED = re.compile(r"^ +\* (\S+)", re.MULTILINE)

#: Seconds after which a reboot command that has not ended is killed.
_PATIENCE = 60.0


@dataclass(eq=False, repr=False)
class SystemFiles:
    """The operating system below ``root``. Reads and writes raise ``HostFilesError``.

    ``may_reboot`` is whether the configuration permits reboots, ``command`` the command that reboots the host.
    """

    root: Path
    may_reboot: bool = False
    command: Sequence[str] = ("systemctl", "reboot")
    _file: JsonFile[SystemState] = field(init=False)

    def __post_init__(self) -> None:
        file = self.root / "var" / "lib" / "zkdeployment" / "system"
        self._file = JsonFile(file, SystemState.from_json, SystemState.to_json, expected="the state of the system")

    def state(self) -> SystemState:
        """Return the completed work; a damaged file counts as missing, so that updates are repeated."""
        return self._file.load() or SystemState()

    def save(self, state: SystemState) -> None:
        """Record what the host has completed, durably."""
        if state != self.state():
            self._file.save(state)

    def boot_id(self) -> str:
        """Return the id of the present boot."""
        return self._from_kernel(read_boot_id)

    def booted(self) -> float:
        """Return when the host booted, in seconds since the epoch.

        As ``needs-restarting`` has it, the later of two times counts: when process 1 began, which is right in a
        container, and the present time without the time that the kernel has run, which is right if the clock was
        wrong while the host booted.
        """
        text = self._read(_UPTIME)
        try:
            up = float(text.partition(" ")[0])
            began = (self.root / _INIT if (self.root / _INIT).exists() else Path("/") / _INIT).stat().st_mtime
        except (OSError, ValueError) as error:
            raise HostFilesError(
                f"cannot read when the host booted from /{_INIT} and /proc/{_UPTIME}: {error}"
            ) from error
        return max(began, time.time() - up)

    def facts(self, packages: PackageManager, *, asks_dnf: bool = True) -> RebootFacts:
        """Return the facts that decide whether the host needs a reboot; raises ``PackageError``.

        With ``asks_dnf``, dnf's own program is asked, too, which takes as long as a start of dnf.
        """
        booted, kernel = self.booted(), self._read(_KERNEL)
        return RebootFacts(
            boot_id=self.boot_id(),
            booted=booted,
            kernel=kernel,
            installed_kernel=newest_of_running(packages.installed(), kernel),
            changed=packages.installed_since(booted),
            reported=self._reported() if asks_dnf else None,
        )

    def _reported(self) -> frozenset[str] | None:
        """Return the packages that dnf's own program reports; ``None`` for a scratch root, or without it."""
        program = shutil.which(_REPORTER)
        if self.root != Path("/") or program is None:
            return None
        try:
            done = process.run([program, "-r"], env={**os.environ, "LC_ALL": "C.UTF-8"}, timeout=_PATIENCE)
        except ProgramError as error:
            get_logger().warning("reboot-reasons-unknown", reason=str(error))
            return None
        return frozenset(_REPORTED.findall(done.stdout))

    def _read(self, name: Path) -> str:
        """Return the content of a file of the kernel."""
        return self._from_kernel(lambda proc: (proc / name).read_text(encoding="ascii").strip())

    def _from_kernel(self, read: Callable[[Path], str]) -> str:
        """Call ``read`` with the directory of the kernel's files, of which a scratch root may have its own."""
        missing = None
        for proc in (self.root / "proc", Path("/proc")):
            try:
                return read(proc)
            except FileNotFoundError as error:
                missing = error
            except (OSError, UnicodeDecodeError) as error:
                raise HostFilesError(f"cannot read a file of the kernel in {proc}: {error}") from error
        raise HostFilesError(f"this machine lacks a file of the kernel: {missing}")

    def reboot(self) -> None:
        """Call the command that reboots the host; raises ``RebootError`` if it fails."""
        get_logger().warning("reboot", command=list(self.command))
        try:
            process.run(self.command, timeout=_PATIENCE).check()
        except ProgramError as error:
            raise RebootError(
                f"the host cannot reboot: {error}; correct reboot-command or the rights of the agent, or set"
                " reboots = no to reboot the host by hand"
            ) from error
