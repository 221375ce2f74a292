"""Records the running script in a file, so that the successor of a killed agent finds the script and waits for it.

The record is written before the script is started, and completed with the process id right after the start. If the
agent is killed in between, the script's process is the session leader that has the recorded arguments.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zkdeployment.adapters import durable
from zkdeployment.adapters.late_imports import late_import
from zkdeployment.adapters.scripts.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST = 1 << 20
_POLL = 0.05  # seconds between two checks of a process that is not a child of this one
_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class OrphanedScript:
    """A script whose agent was killed. ``started`` is in seconds since the machine's boot.

    ``name`` and ``revision`` are those of its run.
    """

    pid: int
    started: float
    scope: Scope
    name: str
    revision: str

    @property
    def is_running(self) -> bool:
        """Whether the script still runs."""
        started = _started(self.pid)
        return started is not None and started == self.started

    def wait(self, seconds: float) -> None:
        """Return when the script has ended, after at most ``seconds``."""
        end = time.monotonic() + seconds
        while self.is_running and time.monotonic() < end:
            time.sleep(_POLL)

    @property
    def age(self) -> float:
        """The seconds since the script was started; changes of the clock do not matter."""
        return _since_boot() - self.started


@dataclass(frozen=True)
class RecordedRun:
    """One run of a script: its arguments, its scope, and its ``name`` and ``revision`` for operators."""

    argv: Sequence[str]
    scope: Scope
    name: str
    revision: str

    def content(self) -> dict[str, Any]:
        """Return what the record holds of the run."""
        return {"argv": list(self.argv), "unit": self.scope.unit, "name": self.name, "revision": self.revision}


@dataclass(frozen=True)
class ScriptRecord:
    """The record of the running script in ``file``."""

    file: Path

    def begin(self, run: RecordedRun) -> None:
        """Record a script that is about to be started; raises ``OSError``."""
        self._write({**run.content(), "begun": _since_boot()})

    def started(self, run: RecordedRun, pid: int) -> None:
        """Record the process of a started script; raises ``OSError``."""
        self._write({**run.content(), "pid": pid, "started": _started(pid)})

    def clear(self) -> None:
        """Remove the record: no script runs."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)

    def orphan(self) -> OrphanedScript | None:
        """Return the recorded script if it still runs; ``None`` otherwise, and for a damaged record."""
        try:
            content = json.loads(durable.read(self.file, _LONGEST) or b"null")
            if "pid" in content:
                found: tuple[int, float] | None = content["pid"], content["started"]
            else:
                found = _search(content["argv"], content["begun"])
            if found is None:
                return None
            script = OrphanedScript(*found, Scope(content["unit"]), content["name"], content["revision"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return script if script.is_running else None

    def _write(self, content: dict[str, Any]) -> None:
        durable.replace(self.file, json.dumps(content).encode(), sync=False)  # no script survives a reboot


def _search(argv: Sequence[str], begun: float) -> tuple[int, float] | None:
    """Return the session leader that was started since ``begun`` with a command line that ends in ``argv``.

    An interpreter and its options may come first. Return its process id and when it was started.
    """
    with late_import():
        import psutil  # noqa: PLC0415  a megabyte that most agents never need

    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [])[-len(argv) :] == argv and _leads_session(process.pid):
            started = _started(process.pid)
            if started is not None and started > begun - 2 * _TICK:
                return process.pid, started
    return None


def _leads_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def _started(pid: int) -> float | None:
    """Return when a process was started, in seconds since the machine's boot; ``None`` if the process has ended.

    psutil's start time depends on the wall clock, which may be changed.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the program's name, in parentheses, may contain any characters
    return None if fields[0] in {"Z", "X"} else int(fields[19]) * _TICK


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
