"""Processes that outlive the command that started them, and that a later command finds again."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import psutil

from zkdeployment.adapters import process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: The kernel's clock and ours may differ by a little when a process' start time is worked out again.
_SAME_START = 2.0

#: Even SIGKILL takes its time when a process is in the kernel.
_KILL_LIMIT = 10.0


class BackgroundProcess:
    """A process known by ``pid_file``, which holds its id and when it started.

    A process id alone may have been given to somebody else since: nothing but the process that was started
    here is ever signalled.
    """

    def __init__(self, pid_file: Path) -> None:
        self.pid_file = pid_file

    def start(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> int:
        """Start a program in a session of its own and return its process id.

        Raises ``ProgramError`` if it cannot be started.
        """
        pid = process.start(argv, log=log, cwd=cwd, env=env)
        self.adopt(pid)
        return pid

    def adopt(self, pid: int) -> None:
        """Note a process that was started in another way."""
        started = psutil.Process(pid).create_time()
        self.pid_file.write_text(json.dumps({"pid": pid, "started": started}), encoding="ascii")

    @property
    def pid(self) -> int | None:
        """The process id, or ``None`` when the process is not running."""
        found = self._process()
        return None if found is None else found.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process() is not None

    def stop(self, timeout: float = 10.0) -> None:
        """End the process (SIGTERM, after ``timeout`` seconds SIGKILL) and return when it is gone."""
        if (found := self._process()) is not None:
            found.terminate()
            if not wait_ended([found], timeout):
                self.kill()
        self.pid_file.unlink(missing_ok=True)

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash would, and return when it is gone."""
        if (found := self._process()) is not None:
            found.kill()
            wait_ended([found], _KILL_LIMIT)
        self.pid_file.unlink(missing_ok=True)

    def _process(self) -> psutil.Process | None:
        try:
            noted = json.loads(self.pid_file.read_text(encoding="ascii"))
            found = psutil.Process(noted["pid"])
            same = abs(found.create_time() - noted["started"]) < _SAME_START
            return found if same and not has_ended(found) else None
        except (OSError, ValueError, KeyError, TypeError, psutil.NoSuchProcess):
            return None


def has_ended(found: psutil.Process) -> bool:
    """Whether a process does nothing any more, be its entry still there because nobody asked for its status."""
    try:
        return not found.is_running() or found.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_ended(processes: Sequence[psutil.Process], timeout: float) -> bool:
    """Return when all of these have ended, or after ``timeout`` seconds; say whether they have."""
    deadline = time.monotonic() + timeout
    while not all(has_ended(one) for one in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
