"""The members of a sandbox, which can be stopped and started: daemons and ZooKeeper servers."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from zkdeployment.sandbox.background import BackgroundProcess
from zkdeployment.sandbox.process_cleanup import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Seconds until a stopped daemon is killed. An agent finishes its step before it ends.
_STOP_TIMEOUT = 40.0


class SandboxMember(Protocol):
    """A part of a sandbox that can be stopped and started by its name."""

    @property
    def pid(self) -> int | None:
        """The process id while the member runs."""

    def start(self) -> None:
        """Start the member unless it runs."""

    def stop(self) -> None:
        """End the member and return when it has ended."""

    def kill(self) -> None:
        """End the member like a crash."""


@dataclass(frozen=True, slots=True)
class SandboxDaemon:
    """A daemon of the sandbox ``owner``: ``zkdeployment ARGUMENTS…``.

    Its log and its process id are in files in ``directory``, which are named for ``name``.
    """

    owner: Path
    directory: Path
    name: str
    arguments: Sequence[str]

    @property
    def log(self) -> Path:
        """The file of the daemon's output."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The process id while the member runs."""
        return self._process.pid

    @property
    def crashed(self) -> bool:
        """Whether the daemon ended without being stopped."""
        return self._process.pid_file.exists() and not self._process.alive

    def start(self) -> None:
        """Start the daemon unless it runs; raises ``ProgramError`` if it cannot be started."""
        if not self._process.alive:
            argv = [sys.executable, "-m", "zkdeployment", *self.arguments]
            environment = plain_environment(self.owner)
            self._process.start(argv, log=self.log, cwd=self.directory, env=environment)

    def stop(self) -> None:
        """End the member and return when it has ended."""
        self._process.stop(_STOP_TIMEOUT)

    def kill(self) -> None:
        """End the member like a crash."""
        self._process.kill()

    @property
    def _process(self) -> BackgroundProcess:
        return BackgroundProcess(self.directory / f"{self.name}.pid")


def plain_environment(owner: Path) -> dict[str, str]:
    """Return this process's environment without references to other fleets, and with a mark of ``owner``.

    The present installation of the program is the first on its ``PATH``.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ZKDEPLOYMENT_", "ZC_ZK_"))}
    programs = str(Path(sys.executable).parent)
    return kept | {VARIABLE: str(owner), "PATH": f"{programs}:{kept.get('PATH', os.defpath)}"}
