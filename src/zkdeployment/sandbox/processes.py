"""The processes of a sandbox: started in the background, found again, and ended with all that they started.

Their time limits grow while the machine has more work than processors.

A process belongs to the sandbox in a directory if its environment names the directory (agents, scripts and their
children inherit it), or if its working directory or an argument is in that directory. A process with a terminal
does not belong to the sandbox: it may be a user's shell or editor.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from zkdeployment.base.errors import ProgramError
from zkdeployment.base.machine import process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: The largest factor by which a busy machine stretches a time limit.
_LARGEST = 10.0


def slowdown() -> float:
    """Return the average number of programs per processor that wanted to run in the last minute, at least 1."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return 1.0
    return max(1.0, load / len(os.sched_getaffinity(0)))


class Deadline:
    """A time limit of ``seconds`` for programs that share the processors with other work.

    A second counts only as much as a program gets of it: with a load of 22 on two processors, 11 seconds count as
    one. The limit is over after ten times ``seconds`` in any case.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._begun = self._counted = time.monotonic()
        self._used = 0.0

    @property
    def passed(self) -> bool:
        """Whether the time limit is over."""
        now = time.monotonic()
        self._used += (now - self._counted) / slowdown()
        self._counted = now
        return self._used > self.seconds or now - self._begun > _LARGEST * self.seconds

    def __str__(self) -> str:
        elapsed = self._counted - self._begun
        if elapsed < 2 * self._used:
            return f"{elapsed:.0f} s"
        return (
            f"{elapsed:.0f} s on a machine that is too busy to judge (it had time for {self._used:.0f} s of work)"
        )


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


#: The variable with the sandbox's directory, in the environment of all processes that the sandbox starts.
VARIABLE = "ZKDEPLOYMENT_SANDBOX"

_PLACES = (VARIABLE, "ZKDEPLOYMENT_ROOT", "ZKDEPLOYMENT_CONFIG")

_ROUNDS = 20


def sandbox_processes(directory: Path) -> list[psutil.Process]:
    """Return the processes of the sandbox in ``directory``, except this process and its ancestors."""
    here = str(directory.resolve())
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [target for target in psutil.process_iter() if target.pid not in ours and _belongs(target, here)]


def end_processes(directory: Path, *, grace: float = 2.0) -> None:
    """End all processes of the sandbox: with SIGTERM, and after ``grace`` seconds with SIGKILL.

    The ZooKeeper servers are killed last, so that all other processes can close their sessions. Raises
    ``ProgramError`` with the ids of processes that did not end.
    """
    targets = [target for target in sandbox_processes(directory) if not _is_server(target)]
    for target in targets:
        _signal(target, kill=False)
    wait_ended(targets, grace)
    for _ in range(_ROUNDS):  # an ended process may have started others just before
        targets = sandbox_processes(directory)
        if not targets:
            return
        for target in targets:
            _signal(target, kill=True)
        wait_ended(targets, grace)
    pids = ", ".join(f"{target.pid}" for target in targets)
    raise ProgramError(f"processes of the sandbox in {directory} did not end after SIGKILL: {pids}")


def _signal(target: psutil.Process, *, kill: bool) -> None:
    try:
        if kill:
            target.kill()
        else:
            target.terminate()
    except psutil.Error:
        pass  # The process ended by itself, or belongs to another user; the next round decides.


def _is_server(target: psutil.Process) -> bool:
    try:
        return target.name() == "java"
    except psutil.Error:
        return False


def _belongs(target: psutil.Process, here: str) -> bool:
    try:
        if has_ended(target) or _has_terminal(target):
            return False
        return any(_inside(place, here) for place in _places(target, here))
    except (psutil.Error, OSError):
        return False  # The process has ended, or belongs to another user.


def _has_terminal(target: psutil.Process) -> bool:
    # psutil knows only terminals under /dev; the kernel's seventh field is set for all terminals.
    fields = Path(f"/proc/{target.pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    return fields.split()[4] != "0"


def _places(target: psutil.Process, here: str) -> Iterator[str]:
    environment = target.environ()
    yield from (environment[name] for name in _PLACES if name in environment)
    yield target.cwd()
    for word in target.cmdline():
        # ``sandbox status -d DIR`` only refers to the sandbox; ``--installroot=DIR/hosts/…`` works in it.
        value = word.partition("=")[2] if word.startswith("-") else word
        if value != here:
            yield value


def _inside(place: str, here: str) -> bool:
    return place == here or place.startswith(here + os.sep)
