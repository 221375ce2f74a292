"""Runs other programs: from argument lists, without a shell, and without input unless the caller gives it.

All other modules use this module to run programs. Output limits and records of scripts belong to
``agent.scripts``.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import subprocess
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ProgramError
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_POLL = 0.2  # seconds between two checks of a running program


@dataclass(frozen=True)
class Completed:
    """A program that ended: its exit status (negative: the signal that killed it) and its output."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    def check(self) -> Completed:
        """Return this result, or raise ``ProgramError`` with the program's messages if it failed."""
        if self.status:
            output = (self.stderr.strip() or self.stdout.strip())[-2000:]
            raise ProgramError(f"{' '.join(self.argv)} failed with status {self.status}: {output}")
        return self


def run(  # noqa: PLR0913  one limit or stream each
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    tick: Callable[[], None] = lambda: None,
    text: str | Callable[[], str] | None = None,
    ready: bytes = b"",
    output_limit: float = math.inf,
    pass_fds: Sequence[int] = (),
) -> Completed:
    """Return the result, with any exit status, of a program that runs in its own session.

    ``env`` replaces the environment. ``text`` is the program's standard input, or a function that returns the
    input and is called after the start of the program; ``timeout`` begins at the start. The input is given only
    after the program has printed ``ready``, and never if it closes its output before. ``pass_fds`` are the
    descriptors of open files that the program inherits. ``tick`` is called a few times a second. Raises
    ``ProgramError`` if the program cannot be started, exceeds ``timeout`` seconds or prints more than
    ``output_limit`` bytes, which is checked as often as ``tick`` is called. Then, and when ``tick`` raises, the
    program's process group is killed. Signals to this process, such as those of a terminal, do not reach the
    program.
    """
    try:
        with subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            pass_fds=pass_fds,
        ) as child:
            try:
                given = text() if callable(text) else text
                end = math.inf if timeout is None else time.monotonic() + timeout
                first = _await_output(child, argv, end, tick, ready, output_limit)
                given = given if first.endswith(ready) else None
                stdout, stderr = _communicate(child, argv, end, tick, given, output_limit)
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
    return Completed(tuple(argv), child.returncode, first.decode(errors="replace") + stdout, stderr)


def _await_output(
    child: subprocess.Popen[str],
    argv: Sequence[str],
    end: float,
    tick: Callable[[], None],
    awaited: bytes,
    output_limit: float,
) -> bytes:
    """Return the output of a program up to the ``awaited`` text, or all of it if the program has closed it."""
    printed, waiting = b"", select.poll()  # which, unlike select(), takes descriptors above 1023
    if child.stdout is not None:
        waiting.register(child.stdout, select.POLLIN)
    checked = time.monotonic()
    while child.stdout is not None and not printed.endswith(awaited):
        left = max(0.0, end - time.monotonic())
        is_ready = waiting.poll(1000 * min(left, _POLL))
        if not is_ready and left < _POLL:
            raise subprocess.TimeoutExpired(list(argv), left)
        if time.monotonic() >= checked + _POLL:
            tick()
            checked = time.monotonic()
        if not is_ready:
            continue
        part = os.read(child.stdout.fileno(), 1)
        if not part:
            break
        printed += part
        _check_output(argv, output_limit, printed, None)
    return printed


def _communicate(
    child: subprocess.Popen[str],
    argv: Sequence[str],
    end: float,
    tick: Callable[[], None],
    text: str | None,
    output_limit: float,
) -> tuple[str, str]:
    while True:
        left = max(0.0, end - time.monotonic())
        try:
            stdout, stderr = child.communicate(text, timeout=min(left, _POLL))
        except subprocess.TimeoutExpired as error:
            _check_output(argv, output_limit, error.output, error.stderr)
            if left < _POLL:
                raise
        else:
            _check_output(argv, output_limit, stdout, stderr)
            return stdout, stderr
        text = None  # the first call keeps the rest of the output
        tick()


def _check_output(argv: Sequence[str], limit: float, *streams: str | bytes | None) -> None:
    """Raise ``ProgramError`` if a program has printed more than ``limit`` bytes."""
    if sum(len(stream or "") for stream in streams) > limit:
        raise ProgramError(f"{' '.join(argv)} printed more than {limit:g} bytes and was killed")


def start(
    argv: Sequence[str],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Start a program in its own session, its output appended to ``log``, and return its process id.

    The program outlives this process. Raises ``ProgramError`` if it cannot be started.
    """
    child = Child(_launch(argv, log, "ab", cwd, env))
    child.abandon()
    return child.pid


def run_apart(argv: Sequence[str], *, output: Path, env: Mapping[str, str] | None = None) -> int:
    """Return the exit status of a program that must never be interrupted, run without a time limit.

    The program runs in its own session and writes to the file ``output``. Signals to this process do not reach the
    program, and the program continues when this process dies. Raises ``ProgramError`` if it cannot be started.
    """
    child = _launch(argv, output, "wb", None, env)
    try:
        return child.wait()
    finally:
        child.returncode = 0  # prevents the warning "still running" after an interrupted wait


class Child:
    """A running program in its own session and process group, which outlives this process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def wait(self, timeout: float) -> int | None:
        """Return the exit status, or ``None`` if the program still runs after ``timeout`` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def abandon(self) -> None:
        """Leave the program running without waiting for it."""
        if self._process.returncode is None:
            # This prevents the warning "still running". When this process has ended, init reaps the program.
            self._process.returncode = 0


def spawn(argv: Sequence[str], *, output: Path, env: Mapping[str, str], cwd: str | None = None) -> Child:
    """Start a program in its own session and return it; its output is appended to ``output``.

    Raises ``ProgramError`` if the program cannot be started; the ``__cause__`` is the ``OSError``.
    """
    return Child(_launch(argv, output, "ab", cwd, env))


def _launch(
    argv: Sequence[str],
    output: Path,
    mode: str,
    cwd: Path | str | None,
    env: Mapping[str, str] | None,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a program in its own session; its output goes to a file."""
    try:
        with output.open(mode) as printed:
            return subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=None if env is None else dict(env),
                stdin=stdin,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        where = "" if error.filename in {None, argv[0]} else f"{error.filename}: "
        raise ProgramError(f"cannot run {argv[0]}: {where}{error.strerror}") from error


class Conversation:
    """A running program in its own session, whose standard input is a socket for both directions.

    The program outlives this process, and reads the end of its input when this process dies.
    """

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self._process = process
        self._connection = connection
        weakref.finalize(self, connection.close)  # the program of a forgotten conversation ends, too
        # The program may end long before it is waited for; it must not stay a zombie.
        threading.Thread(target=process.wait, name=f"wait-{process.pid}", daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Whether the program still runs."""
        return self._process.returncode is None

    def read_line(self, *, timeout: float, tick: Callable[[], None]) -> bytes | None:
        """Return the program's next line; ``None`` if the program closed the socket, as it does when it ends.

        ``tick`` is called a few times a second. When ``tick`` raises, and after ``timeout`` seconds, the program's
        process group is killed. Raises ``TimeoutError``.
        """
        self._connection.settimeout(_POLL)
        try:
            return self._read_line(time.monotonic() + timeout, tick)
        except BaseException:
            self._kill()
            self.close()
            raise

    def _read_line(self, end: float, tick: Callable[[], None]) -> bytes | None:
        line = b""
        while not line.endswith(b"\n"):
            try:
                part = self._connection.recv(65536)
            except TimeoutError:
                if time.monotonic() > end:
                    raise
                tick()
            else:
                if not part:
                    return None
                line += part
        return line

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def send(self, line: bytes) -> None:
        """Send a line; a program that has ended does not get it."""
        self._connection.settimeout(None)
        with contextlib.suppress(OSError):
            self._connection.sendall(line)

    def close(self) -> int:
        """Close the socket, wait until the program ends, and return its exit status (negative: a signal)."""
        self._connection.close()
        return self._process.wait()

    def end(self, patience: float) -> None:
        """Close the socket; kill the program's process group if the program runs for ``patience`` more seconds."""
        self._connection.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()

    def wait(self) -> tuple[int, bytes]:
        """Wait until the program ends by itself; return its exit status and its output that was not read yet."""
        status = self._process.wait()
        return status, self._rest()

    def _rest(self) -> bytes:
        """Return the remaining output of a program that has ended, and close the socket."""
        self._connection.settimeout(0)
        rest = b""
        with self._connection, contextlib.suppress(OSError):  # the program ended without reading all its input
            while part := self._connection.recv(65536):
                rest += part
        return rest


def converse(argv: Sequence[str], *, output: Path, env: Mapping[str, str]) -> Conversation:
    """Start a program that reads from a socket and writes to it, and return the conversation.

    The program runs in its own session and writes its other output to the file ``output``. Raises ``ProgramError``
    if it cannot be started.
    """
    here, there = socket.socketpair()
    with there:
        try:
            return Conversation(_launch(argv, output, "wb", None, env, stdin=there.fileno()), here)
        except ProgramError:
            here.close()
            raise


class Attached:
    """A running program that shares the input, the output and the process group of this process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def wait(self) -> int:
        """Return the exit status when the program ends; negative: the signal that killed it."""
        return self._process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the program if it still runs."""
        self._process.send_signal(number)


def attach(argv: Sequence[str]) -> Attached:
    """Start and return a program that shares this process's terminal; raises ``ProgramError`` if it cannot."""
    try:
        return Attached(subprocess.Popen(list(argv)))
    except OSError as error:
        raise ProgramError(f"cannot run {argv[0]}: {error.strerror}") from error


def replace(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
    """Replace this process by another program; raises ``ProgramError`` if the program cannot be started."""
    try:
        os.execvpe(argv[0], list(argv), dict(env if env is not None else os.environ))  # noqa: S606
    except OSError as error:
        raise ProgramError(f"cannot run {argv[0]}: {error.strerror}") from error


#: Seconds of a tick of the kernel.
TICK = 1 / os.sysconf("SC_CLK_TCK")


def start_time(pid: int) -> float | None:
    """Return when a process was started, in seconds since the machine's boot; ``None`` if the process has ended.

    psutil's start time depends on the wall clock, which may be changed. Raises ``OSError`` if the system does not
    answer.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the program's name, in parentheses, may contain any characters
    return None if fields[0] in {"Z", "X"} else int(fields[19]) * TICK
