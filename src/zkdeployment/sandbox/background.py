"""Background processes, which outlive the command that started them, and which later commands find again."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import psutil

from zkdeployment.adapters import process
from zkdeployment.sandbox.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: The tolerance in seconds for the start time of a process, which is computed from the kernel's clock each time.
_SAME_START = 2.0

#: The limit in seconds for the end after SIGKILL, which takes time while a process is in the kernel.
_KILL_LIMIT = 10.0


class BackgroundProcess:
    """A process that is identified by ``pid_file``, which contains its id and its start time.

    The kernel may reuse a process id. The start time ensures that only the process that was started here receives
    signals.
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
        """Record a process that was started in another way."""
        started = psutil.Process(pid).create_time()
        self.pid_file.write_text(json.dumps({"pid": pid, "started": started}), encoding="ascii")

    @property
    def pid(self) -> int | None:
        """The process id; ``None`` when the process does not run."""
        process = self._process()
        return None if process is None else process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process() is not None

    def stop(self, timeout: float = 10.0) -> None:
        """End the process (SIGTERM, after ``timeout`` seconds SIGKILL), and return when it has ended."""
        if (process := self._process()) is not None:
            process.terminate()
            if not wait_ended([process], timeout):
                self.kill()
        self.pid_file.unlink(missing_ok=True)

    def kill(self) -> None:
        """End the process with SIGKILL, like a crash, and return when it has ended."""
        if (process := self._process()) is not None:
            process.kill()
            wait_ended([process], _KILL_LIMIT)
        self.pid_file.unlink(missing_ok=True)

    def _process(self) -> psutil.Process | None:
        try:
            record = json.loads(self.pid_file.read_text(encoding="ascii"))
            candidate = psutil.Process(record["pid"])
            same = abs(candidate.create_time() - record["started"]) < _SAME_START
            return candidate if same and not has_ended(candidate) else None
        except (OSError, ValueError, KeyError, TypeError, psutil.NoSuchProcess):
            return None


def has_ended(target: psutil.Process) -> bool:
    """Whether a process has ended, also if it is a zombie because its parent did not read its status."""
    try:
        return not target.is_running() or target.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_ended(processes: Sequence[psutil.Process], timeout: float) -> bool:
    """Wait up to ``timeout`` seconds for the end of all processes, and return whether they have ended."""
    deadline = Deadline(timeout)
    while not all(has_ended(target) for target in processes):
        if deadline.passed:
            return False
        time.sleep(0.02)
    return True
