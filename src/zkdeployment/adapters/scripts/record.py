"""Which script runs, in a file, so that the agent that comes after a killed one finds it and waits.

The file is there before the script is started, and gets its process id right after. An agent killed in between
left a process without an id: that is the one which leads a session and has the arguments that were noted.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from zkdeployment.adapters import durable
from zkdeployment.adapters.scripts.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST = 1 << 20
_LOOK = 0.05  # seconds between two looks at a process that is not our child
_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Left:
    """A script that a killed agent left running. ``started`` is in seconds since the machine's start."""

    pid: int
    started: float
    scope: Scope

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        started = _started(self.pid)
        return started is not None and started == self.started

    def wait(self, seconds: float) -> None:
        """Return when it has ended, after ``seconds`` at most."""
        end = time.monotonic() + seconds
        while self.runs and time.monotonic() < end:
            time.sleep(_LOOK)

    @property
    def age(self) -> float:
        """For how many seconds it has been running, whatever was done to the clock meanwhile."""
        return _since_boot() - self.started


@dataclass(frozen=True, slots=True)
class ScriptRecord:
    """The record in ``file``."""

    file: Path

    def begin(self, argv: Sequence[str], scope: Scope) -> None:
        """Note that a script is about to be started; raises ``OSError``."""
        self._write({"argv": list(argv), "unit": scope.unit, "begun": _since_boot()})

    def started(self, argv: Sequence[str], scope: Scope, pid: int) -> None:
        """Note its process; raises ``OSError``."""
        self._write({"argv": list(argv), "unit": scope.unit, "pid": pid, "started": _started(pid)})

    def forget(self) -> None:
        """Remove the record: no script runs."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)

    def left(self) -> Left | None:
        """Return the script of the record if it still runs; ``None`` also for a record that means nothing."""
        try:
            note = json.loads(durable.read(self.file, _LONGEST) or b"null")
            scope = Scope(note["unit"])
            if "pid" not in note:
                return _search(note["argv"], note["begun"], scope)
            found = Left(note["pid"], note["started"], scope)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if found.runs else None

    def _write(self, note: dict[str, Any]) -> None:
        durable.replace(self.file, json.dumps(note).encode(), sync=False)  # no script outlives the machine


def _search(argv: Sequence[str], begun: float, scope: Scope) -> Left | None:
    """Find what was started with these arguments (behind an interpreter's, if it is a script) since ``begun``."""
    for found in psutil.process_iter(["cmdline"]):
        if (found.info["cmdline"] or [])[-len(argv) :] == argv and _leads_session(found.pid):
            started = _started(found.pid)
            if started is not None and started > begun - 2 * _TICK:
                return Left(found.pid, started, scope)
    return None


def _leads_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def _started(pid: int) -> float | None:
    """Return when a process was started, in seconds since the machine's; ``None`` if it has ended.

    psutil tells it by the wall clock, which may be set meanwhile.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # before that comes a name, which may hold anything
    return None if fields[0] in {"Z", "X"} else int(fields[19]) * _TICK


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
