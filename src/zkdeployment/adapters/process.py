"""The only door to other programs: argument lists only, no shell, standard input closed.

Scripts of packages, whose output is streamed and capped, are run by ``adapters.scripts`` on top of this.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_LOOK = 0.2  # seconds between two looks at a running program


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ended: its exit status (negative: the signal that ended it) and what it printed."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    def check(self) -> Completed:
        """Return itself, or raise ``ProgramError`` with the program's words if it failed."""
        if self.status:
            words = (self.stderr.strip() or self.stdout.strip())[-2000:]
            raise ProgramError(f"{' '.join(self.argv)} failed with status {self.status}: {words}")
        return self


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Completed:
    """Run a program to its end, in a session of its own, and return what it printed, whatever its exit status.

    ``env`` replaces the environment. Raises ``ProgramError`` if it cannot be started or runs over ``timeout``
    seconds. It is killed then, and all that it started with it; so it is when ``tick`` raises something, which is
    called a few times a second. Signals meant for us (a terminal's, say) do not reach it.
    """
    try:
        with subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as child:
            try:
                stdout, stderr = _communicate(child, timeout, tick)
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                raise
    except FileNotFoundError as error:
        missing = error.filename if cwd is not None and error.filename == str(cwd) else argv[0]
        raise ProgramError(f"cannot run {argv[0]}: {missing} does not exist or is not on the PATH") from error
    except OSError as error:
        raise ProgramError(f"cannot run {argv[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ProgramError(f"{' '.join(argv)} did not end within {timeout:g} s and was killed") from error
    return Completed(tuple(argv), child.returncode, stdout, stderr)


def _communicate(child: subprocess.Popen[str], timeout: float | None, tick: Callable[[], None]) -> tuple[str, str]:
    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        left = max(0.0, end - time.monotonic())
        try:
            return child.communicate(timeout=min(left, _LOOK))
        except subprocess.TimeoutExpired:
            if left < _LOOK:
                raise
        tick()


def start(
    argv: Sequence[str],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Start a program in a session of its own, its output appended to ``log``, and return its process id.

    It outlives this process. Raises ``ProgramError`` if it cannot be started.
    """
    child = Child(_launch(argv, log, "ab", cwd, env))
    child.abandon()
    return child.pid


def run_apart(argv: Sequence[str], *, output: Path, env: Mapping[str, str] | None = None) -> int:
    """Run a program to its end in a session of its own and return its exit status; there is no time limit.

    What it prints goes to the file ``output``. For work that must never be cut short: signals meant for us do not
    reach it, and when this process dies it goes on. Raises ``ProgramError`` if it cannot be started.
    """
    child = _launch(argv, output, "wb", None, env)
    try:
        return child.wait()
    finally:
        child.returncode = 0  # Disown it if the wait was interrupted.


class Child:
    """A running program that leads a session and a process group of its own; it outlives this process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def wait(self, timeout: float) -> int | None:
        """Return its exit status, or ``None`` if it still runs after ``timeout`` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def abandon(self) -> None:
        """Let it run without us: nobody here waits for it any more."""
        if self._process.returncode is None:
            self._process.returncode = 0  # Disown it: no "still running" warning, init reaps it when we are gone.


def spawn(argv: Sequence[str], *, output: Path, env: Mapping[str, str], cwd: str | None = None) -> Child:
    """Start a program in a session of its own and return it; what it prints is appended to ``output``.

    Raises ``ProgramError`` if it cannot be started; its ``__cause__`` is the ``OSError``.
    """
    return Child(_launch(argv, output, "ab", cwd, env))


def _launch(
    argv: Sequence[str], output: Path, mode: str, cwd: Path | str | None, env: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own that prints into a file."""
    try:
        with output.open(mode) as printed:
            return subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        where = "" if error.filename in {None, argv[0]} else f"{error.filename}: "
        raise ProgramError(f"cannot run {argv[0]}: {where}{error.strerror}") from error


class Attached:
    """A running program that shares our input, output and process group."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def wait(self) -> int:
        """Return its exit status when it ends; negative: the signal that ended it."""
        return self._process.wait()

    def signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        self._process.send_signal(number)


def attach(argv: Sequence[str]) -> Attached:
    """Start a program in our place in the terminal; raises ``ProgramError`` if it cannot be started."""
    try:
        return Attached(subprocess.Popen(list(argv)))
    except OSError as error:
        raise ProgramError(f"cannot run {argv[0]}: {error.strerror}") from error


def replace(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
    """Become another program; does not return. Raises ``ProgramError`` if it cannot be started."""
    try:
        os.execvpe(argv[0], list(argv), dict(env if env is not None else os.environ))  # noqa: S606
    except OSError as error:
        raise ProgramError(f"cannot run {argv[0]}: {error.strerror}") from error
