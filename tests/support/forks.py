"""Programs of the package as processes that start at once: forked from a process that has imported their modules.

The start of Python and the import of modules take most of the processor time of an agent in a test. A forked
program is a process of its own, with its own environment, output, signals and exit status; only its start differs.
Tests of the start itself, and of a program's memory, use a new Python.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO, NoReturn

#: The modules that every forked program finds imported.
_MODULES = ("zkdeployment.programs.main", "zkdeployment.programs.agent", "zkdeployment.programs.verbs")

_LONGEST_REQUEST = 1 << 20


class ForkedProgram:
    """The process of ``zkdeployment`` with some arguments: the part of ``subprocess.Popen`` that tests need."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        output: IO[Any] | None = None,
        errors: IO[Any] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Start the process with the environment ``env`` (default: that of the tests).

        Without ``output``, nothing that the program prints is kept; without ``errors``, both streams are one.
        """
        environment = dict(os.environ if env is None else env)
        request = {"argv": argv, "environment": environment, "directory": str(cwd or Path.cwd())}
        self._reports, reports = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with reports, Path(os.devnull).open("wb") as nothing:
            output = output or nothing
            files = [file.fileno() for file in (reports, output, errors or output)]
            socket.send_fds(_requests(), [json.dumps(request).encode()], files)
        self.pid = int(self._reports.recv(100))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, as ``Popen`` does; ``None`` if the process is running."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status as soon as the process has ended."""
        if self.returncode is None:
            self._reports.settimeout(timeout)
            try:
                self.returncode = int(self._reports.recv(100))
            except (TimeoutError, BlockingIOError):
                assert timeout is not None
                raise subprocess.TimeoutExpired("a forked program", timeout) from None
            self._reports.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the process to end, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def run_forked(
    *argv: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``zkdeployment`` with these arguments as a forked process; return what ``subprocess.run`` would."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        status = ForkedProgram(argv, env, output=output, errors=errors, cwd=cwd).wait()
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess([*argv], status, output.read().decode(), errors.read().decode())


@cache
def _requests() -> socket.socket:
    """Start the process from which all programs of this test process are forked; return the way to it."""
    from support.limits import outliving_the_test  # noqa: PLC0415  the process that forks needs nothing of pytest

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST_REQUEST)
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, str(theirs.fileno())],
        env=outliving_the_test(),
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def _serve(requests: socket.socket) -> None:
    """Fork a program for each request, until the process of the tests ends."""
    watching: set[int] = set()
    while True:
        request, files, *_ = socket.recv_fds(requests, _LONGEST_REQUEST, 3)
        if not request:
            return
        watching -= {pid for pid in watching if os.waitpid(pid, os.WNOHANG)[0]}
        pid = os.fork()
        if pid == 0:
            requests.close()
            _watch(json.loads(request), *files)
        watching.add(pid)
        for file in files:
            os.close(file)


def _watch(request: dict[str, Any], reports: int, output: int, errors: int) -> NoReturn:
    """Fork the program, and report its id and its exit status."""
    pid = os.fork()
    if pid == 0:
        os.close(reports)
        for file, number in ((output, 1), (errors, 2)):
            os.dup2(file, number)
            os.close(file)
        _run(**request)
    os.close(output)
    os.close(errors)
    os.write(reports, str(pid).encode())
    _, status = os.waitpid(pid, 0)
    os.write(reports, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(argv: list[str], environment: dict[str, str], directory: str) -> NoReturn:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["zkdeployment", *argv]
    from zkdeployment.programs.main import main  # noqa: PLC0415  the process of the tests does not need it

    main()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in _MODULES:
        importlib.import_module(module)
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
