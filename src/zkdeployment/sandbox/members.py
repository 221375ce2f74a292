"""What of a sandbox can be stopped and started: agents, the syncer, the coordinator, ZooKeeper servers."""

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

#: An agent that is told to end finishes its step first: seconds until it is killed.
_GRACE = 40.0


class SandboxMember(Protocol):
    """What of a sandbox can be stopped and started by its name."""

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""

    def start(self) -> None:
        """Start it unless it runs."""

    def stop(self) -> None:
        """End it and return when it is gone."""

    def kill(self) -> None:
        """End it as a crash would."""


@dataclass(frozen=True, slots=True)
class SandboxDaemon:
    """One of our daemons, ``zkdeployment WORDS…``, of the sandbox ``owner``.

    Its log and its process id are in ``directory``, called after ``name``.
    """

    owner: Path
    directory: Path
    name: str
    words: Sequence[str]

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid

    @property
    def crashed(self) -> bool:
        """Whether it ended though nobody stopped it."""
        return self._process.pid_file.exists() and not self._process.alive

    def start(self) -> None:
        """Start it unless it runs; raises ``ProgramError`` if that cannot be done."""
        if not self._process.alive:
            argv = [sys.executable, "-m", "zkdeployment", *self.words]
            environment = plain_environment(self.owner)
            self._process.start(argv, log=self.log, cwd=self.directory, env=environment)

    def stop(self) -> None:
        """End it and return when it is gone."""
        self._process.stop(_GRACE)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()

    @property
    def _process(self) -> BackgroundProcess:
        return BackgroundProcess(self.directory / f"{self.name}.pid")


def plain_environment(owner: Path) -> dict[str, str]:
    """Return this process' environment without what points to another fleet, marked as ``owner``'s.

    The program itself is the first to be found on its ``PATH``.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ZKDEPLOYMENT_", "ZC_ZK_"))}
    programs = str(Path(sys.executable).parent)
    return kept | {VARIABLE: str(owner), "PATH": f"{programs}:{kept.get('PATH', os.defpath)}"}
