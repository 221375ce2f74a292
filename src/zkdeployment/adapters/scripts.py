"""Runs other people's scripts (a ``Scripts``): each in a session of its own, its output in a capped file."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from zkdeployment.adapters import durable, process
from zkdeployment.adapters.script_output import ScriptOutput
from zkdeployment.errors import ProgramError, ScriptError, ShutdownError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.adapters.process import Child
    from zkdeployment.model.cluster import Revision

_KEPT_LOGS = 200
_TAIL = 4096
_LOOK = 0.2  # seconds between two looks at a running script
_MERCY = 5.0  # seconds between SIGTERM and SIGKILL
_SAME_START = 2.0  # the kernel's clock and ours may differ by a little


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRunner:
    """Runs one script at a time.

    ``environment`` is all that scripts get, but for the revision. ``logs`` is the directory of their output, and
    ``record`` the file that says which script runs, so that the agent that comes after a killed one waits for
    it. ``timeout`` is in seconds, 0 for none. ``tick`` is called a few times a second while a script runs; when it
    raises ``ShutdownError``, the script is ended.
    """

    environment: Mapping[str, str]
    logs: Path
    record: Path
    timeout: float = 0
    verbose: bool = False
    tick: Callable[[], None] = field(default=lambda: None)

    def run(self, argv: Sequence[str], *, name: str, revision: Revision, directory: str | None = None) -> None:
        """Run ``argv`` to its end, in ``directory``; raises ``ScriptError`` unless it exits with status 0."""
        log = get_logger().bind(script=argv[0], run=name)
        with self._output(name) as output:
            started = time.monotonic()
            child = self._start(argv, output.file, revision, directory)
            try:
                self._note(child, argv)
                status = self._wait(child, output, name)
            finally:
                child.abandon()
            output.finish()
            self._forget()
            seconds = round(time.monotonic() - started, 3)
            if status:
                tail = output.tail(_TAIL)
                log.error("script-failed", status=status, seconds=seconds, output=tail, file=str(output.file))
                raise ScriptError(f"{' '.join(argv)} {_outcome(status)}", tail)
            log.info("script-done", seconds=seconds, file=str(output.file))

    def wait_for_predecessor(self) -> None:
        """Wait for a script that a killed agent left running: there is one actor on a host at most."""
        found = self._left_running()
        if found is not None:
            log = get_logger().bind(pid=found.pid)
            log.warning("waiting-for-script-of-killed-agent", record=str(self.record))
            while _runs(found):
                self.tick()
                psutil.wait_procs([found], timeout=_LOOK)
                if self.timeout and time.time() - found.create_time() > self.timeout:
                    log.error("script-timeout", seconds=self.timeout)
                    _end(found.pid, lambda seconds: psutil.wait_procs([found], timeout=seconds))
            log.info("script-of-killed-agent-ended")
        self._forget()

    def _output(self, name: str) -> ScriptOutput:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        words = re.sub(r"[^A-Za-z0-9._+@~=-]+", "-", name).strip("-")[:100]
        log = get_logger().bind(run=name)
        try:
            self.logs.mkdir(mode=0o750, parents=True, exist_ok=True)
            for old in sorted(self.logs.glob("*.log"))[: -(_KEPT_LOGS - 1)]:
                old.unlink(missing_ok=True)
            return ScriptOutput(
                self.logs / f"{stamp}-{words}.log",
                show=(lambda line: log.debug("script-output", line=line)) if self.verbose else None,
            )
        except OSError as error:
            raise ScriptError(f"cannot write the output of scripts to {self.logs}: {error.strerror}") from error

    def _start(self, argv: Sequence[str], output: Path, revision: Revision, directory: str | None) -> Child:
        environment = {**self.environment, "ZKDEPLOYMENT_VERSION": str(revision)}
        try:
            return process.spawn(argv, output=output, env=environment, cwd=directory)
        except ProgramError as error:
            raise ScriptError(_why_not_started(argv[0], error)) from error

    def _wait(self, child: Child, output: ScriptOutput, name: str) -> int:
        deadline = time.monotonic() + self.timeout if self.timeout else None
        while (status := child.wait(_LOOK)) is None:
            output.follow()
            if deadline is not None and time.monotonic() > deadline:
                _end(child.pid, child.wait)
                output.finish()
                self._forget()
                raise ScriptError(
                    f"{name} did not end within {self.timeout:g} s and was killed", output.tail(_TAIL)
                )
            try:
                self.tick()
            except ShutdownError:
                get_logger().warning("script-ended", run=name, reason="the agent was asked to end")
                _end(child.pid, child.wait)
                self._forget()
                raise
        return status

    def _note(self, child: Child, argv: Sequence[str]) -> None:
        try:
            started = psutil.Process(child.pid).create_time()
        except psutil.NoSuchProcess:
            return  # it has ended already
        note = {"pid": child.pid, "started": started, "argv": list(argv)}
        try:
            durable.replace(self.record, json.dumps(note).encode())
        except OSError as error:
            # The script runs: going on without the record is less harm than killing it.
            get_logger().error("script-not-recorded", file=str(self.record), reason=error.strerror)

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            self.record.unlink(missing_ok=True)

    def _left_running(self) -> psutil.Process | None:
        try:
            note = json.loads(durable.read(self.record, 1 << 20) or b"null")
            found = psutil.Process(note["pid"])
            return found if abs(found.create_time() - note["started"]) < _SAME_START else None
        except (OSError, ValueError, KeyError, TypeError, psutil.Error):
            return None


def _runs(found: psutil.Process) -> bool:
    try:
        return found.is_running() and found.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _end(pid: int, wait: Callable[[float], object]) -> None:
    """End a script and all of its process group: SIGTERM, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)
        wait(_MERCY)


def _outcome(status: int) -> str:
    if status > 0:
        return f"failed with exit status {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"


def _why_not_started(script: str, error: ProgramError) -> str:
    """Say why a script could not be started, better than the system's error number does."""
    code = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
    file = Path(script)
    if code == errno.ENOENT and file.exists():
        with file.open("rb") as opened:
            first = opened.readline(200).decode("utf-8", errors="replace").strip()
        return f"cannot run {script}: the interpreter of its first line ({first!a}) does not exist"
    if code == errno.ENOEXEC:
        return f"cannot run {script}: it is neither a program nor a script that starts with #! and an interpreter"
    if code == errno.ENOENT:
        return f"cannot run {script}: there is no such file"
    if code == errno.EACCES:
        return f"cannot run {script}: it is not executable"
    return str(error)
