"""Runs other people's scripts (a ``Scripts``): each in a session of its own, its output in a capped file."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters import process
from zkdeployment.adapters.scripts.output import ScriptOutput, cap, is_written
from zkdeployment.adapters.scripts.record import ScriptRecord
from zkdeployment.adapters.scripts.scopes import new_scope
from zkdeployment.errors import ProgramError, ScriptError, ShutdownError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.adapters.process import Child
    from zkdeployment.adapters.scripts.scopes import Scope
    from zkdeployment.model.cluster import Revision

_KEPT_LOGS = 200
_TAIL = 4096
_BEGINNING = 256  # bytes of a program; the kernel looks at no more of its first line
_LOOK = 0.2  # seconds between two looks at a running script
_CAP = 10.0  # seconds between two looks at the output of programs that earlier scripts left running
_MERCY = 5.0  # seconds between SIGTERM and SIGKILL


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
        self.wait_for_predecessor()  # of this agent, too, should one have got lost: two never act on one host
        log = get_logger().bind(script=argv[0], run=name)
        environment = {**self.environment, "ZKDEPLOYMENT_VERSION": str(revision)}
        _check_program(argv[0], environment.get("PATH", ""))
        scope = new_scope(name)
        with self._output(name) as output:
            started = time.monotonic()
            child = self._start(argv, scope, output.file, environment, directory)
            try:
                status = self._wait(child, scope, output, name)
            finally:
                child.abandon()
            output.finish()
            self._record.forget()
            seconds = round(time.monotonic() - started, 3)
            if status:
                tail = output.tail(_TAIL)
                log.error("script-failed", status=status, seconds=seconds, output=tail, file=str(output.file))
                raise ScriptError(f"{' '.join(argv)} {_outcome(status)}", tail)
            log.info("script-done", seconds=seconds, file=str(output.file))

    def cap_outputs(self) -> None:
        """Cap the output of programs that scripts left running, as that of the scripts was capped."""
        try:
            for file in sorted(self.logs.glob("*.log")):
                cap(file)
        except OSError as error:
            get_logger().warning("output-not-capped", directory=str(self.logs), reason=error.strerror)

    def wait_for_predecessor(self) -> None:
        """Wait for a script that a killed agent left running: there is one actor on a host at most."""
        left = self._record.left()
        if left is not None:
            log = get_logger().bind(pid=left.pid)
            log.warning("waiting-for-script-of-killed-agent", record=str(self.record))
            while left.runs:
                self.tick()
                time.sleep(_LOOK)
                if self.timeout and left.age > self.timeout:
                    log.error("script-timeout", seconds=self.timeout)
                    _end(left.scope, left.pid, left.wait)
            log.info("script-of-killed-agent-ended")
        self._record.forget()

    @property
    def _record(self) -> ScriptRecord:
        return ScriptRecord(self.record)

    def _output(self, name: str) -> ScriptOutput:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        words = re.sub(r"[^A-Za-z0-9._+@~=-]+", "-", name).strip("-")[:100]
        log = get_logger().bind(run=name)
        try:
            self.logs.mkdir(mode=0o750, parents=True, exist_ok=True)
            for old in sorted(self.logs.glob("*.log"))[: -(_KEPT_LOGS - 1)]:
                if not is_written(old):  # a program that goes on would fill the disk unseen
                    old.unlink(missing_ok=True)
            return ScriptOutput(
                self.logs / f"{stamp}-{words}.log",
                show=(lambda line: log.debug("script-output", line=line)) if self.verbose else None,
            )
        except OSError as error:
            raise ScriptError(f"cannot write the output of scripts to {self.logs}: {error.strerror}") from error

    def _start(
        self,
        argv: Sequence[str],
        scope: Scope,
        output: Path,
        environment: Mapping[str, str],
        directory: str | None,
    ) -> Child:
        try:
            self._record.begin(argv, scope)
        except OSError as error:
            raise ScriptError(f"cannot write {self.record}, which says what runs: {error.strerror}") from error
        try:
            child = process.spawn(scope.wrap(argv), output=output, env=environment, cwd=directory)
        except ProgramError as error:
            self._record.forget()
            raise ScriptError(str(error)) from error
        try:
            self._record.started(argv, scope, child.pid)
        except OSError as error:
            # It runs, and can be found without: that is less harm than killing it.
            get_logger().error("script-not-recorded", file=str(self.record), reason=error.strerror)
        return child

    def _wait(self, child: Child, scope: Scope, output: ScriptOutput, name: str) -> int:
        deadline = time.monotonic() + self.timeout if self.timeout else None
        due = time.monotonic() + _CAP
        while (status := child.wait(_LOOK)) is None:
            output.follow()
            if time.monotonic() >= due:
                self.cap_outputs()
                due = time.monotonic() + _CAP
            if deadline is not None and time.monotonic() > deadline:
                _end(scope, child.pid, child.wait)
                output.finish()
                self._record.forget()
                raise ScriptError(
                    f"{name} did not end within {self.timeout:g} s and was killed", output.tail(_TAIL)
                )
            try:
                self.tick()
            except ShutdownError:
                get_logger().warning("script-ended", run=name, reason="the agent was asked to end")
                _end(scope, child.pid, child.wait)
                self._record.forget()
                raise
        return status


def _end(scope: Scope, pid: int, wait: Callable[[float], object]) -> None:
    """End a script and all that it started: SIGTERM, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        scope.signal(pid, number)
        wait(_MERCY)


def _outcome(status: int) -> str:
    if status > 0:
        return f"failed with exit status {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"


def _check_program(program: str, search: str) -> None:
    """Raise ``ScriptError`` if a program cannot be run, saying why; ``search`` is a ``PATH``.

    What starts it in a scope would tell less than the system's error number, or give it to a shell.
    """
    found = program if "/" in program else shutil.which(program, path=search)
    file = Path(found or program)
    if found is None or not file.exists():
        raise ScriptError(f"cannot run {program}: there is no such file")
    if not (file.is_file() and os.access(file, os.X_OK)):
        raise ScriptError(f"cannot run {program}: it is not executable")
    try:
        with file.open("rb") as opened:
            beginning = opened.read(_BEGINNING)
    except OSError as error:
        raise ScriptError(f"cannot run {program}: {error.strerror}") from error
    if beginning.startswith(b"#!"):
        line = beginning.splitlines()[0].decode("utf-8", errors="replace").strip()
        interpreter = line.removeprefix("#!").split()[:1]
        if not Path(*interpreter).is_file():
            raise ScriptError(f"cannot run {program}: the interpreter of its first line ({line!a}) does not exist")
    elif b"\0" not in beginning:  # text; every format of programs has some of those
        raise ScriptError(
            f"cannot run {program}: it is neither a program nor a script that starts with #! and an interpreter"
        )
