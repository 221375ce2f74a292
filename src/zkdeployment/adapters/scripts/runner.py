"""Runs the scripts of packages, each in its own session with an output file.

The output file belongs into ``output``, the record of the running script into ``record``.
"""

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
from zkdeployment.adapters.scripts.record import RecordedRun, ScriptRecord
from zkdeployment.adapters.scripts.scopes import new_scope
from zkdeployment.errors import ProgramError, ScriptError, ShutdownError, ZkdeploymentError
from zkdeployment.log import get_logger
from zkdeployment.model.stop import MAX_OUTPUT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.adapters.process import Child
    from zkdeployment.adapters.scripts.scopes import Scope
    from zkdeployment.model.cluster import Revision

_KEPT_LOGS = 200
_TAIL = MAX_OUTPUT_BYTES
_LOGGED = 4096
_FIRST_BYTES = 256  # bytes of a program's first line that the kernel reads
_POLL = 0.2  # seconds between two checks of a running script
_CAP_INTERVAL = 10.0  # seconds between two checks of the output files of daemons that earlier scripts started
_TERMINATION_GRACE = 5.0  # seconds between SIGTERM and SIGKILL


@dataclass(frozen=True, kw_only=True)
class ScriptRunner:
    """Runs the scripts of applications, one at a time; raises ``ScriptError`` if a script fails.

    ``environment`` is the complete environment of scripts, except for the revision and the role of the host, which
    ``role`` returns. ``logs`` is the directory of output files. The file ``record`` names the running script, so
    that the successor of a killed agent waits for the script. ``timeout`` is in seconds; 0 means no limit.
    ``tick`` is called a few times a second while a script runs; when ``tick`` raises ``ShutdownError``, the script
    is terminated.
    """

    environment: Mapping[str, str]
    logs: Path
    record: Path
    role: Callable[[], str | None] = field(default=lambda: None)
    timeout: float = 0
    verbose: bool = False
    tick: Callable[[], None] = field(default=lambda: None)

    def run(
        self,
        argv: Sequence[str],
        *,
        name: str,
        revision: Revision,
        directory: str | None = None,
        facts: Mapping[str, str] | None = None,
        last_check: Callable[[], None] = lambda: None,
    ) -> None:
        """Run ``argv`` and wait until it exits; any status but 0 is a failure.

        Its output goes to the log and to a file of limited size, named after ``name``. ``directory`` is the
        working directory (default: the agent's). ``facts`` are further variables of its environment.
        ``last_check`` is called right before the script starts; if it raises an error, the script does not start.
        """
        self.wait_for_predecessor()  # also for a script of this agent that an error left running
        log = get_logger().bind(script=argv[0], run=name)
        environment = {
            **self.environment,
            "ZKDEPLOYMENT_ROLE": self.role() or "",
            "ZKDEPLOYMENT_VERSION": str(revision),
            **(facts or {}),
        }
        _check_program(argv[0], environment.get("PATH", ""))
        scope = new_scope(name)
        with self._output(name) as output:
            started = time.monotonic()
            run = RecordedRun(argv, scope, name, str(revision))
            child = self._start(run, output.file, environment, directory, last_check)
            try:
                status = self._wait(child, scope, output, name)
            finally:
                child.abandon()
            output.finish()
            self._record.clear()
            seconds = round(time.monotonic() - started, 3)
            if status:
                tail = output.tail(_TAIL)
                log.error(
                    "script-failed", status=status, seconds=seconds, output=tail[-_LOGGED:], file=str(output.file)
                )
                raise ScriptError(f"{' '.join(argv)} {_outcome(status)}", tail)
            log.info("script-completed", seconds=seconds, file=str(output.file))

    def cap_outputs(self) -> None:
        """Limit the output files of programs that scripts left running; never raises."""
        try:
            for file in sorted(self.logs.glob("*.log")):
                cap(file)
        except OSError as error:
            get_logger().warning("output-not-capped", directory=str(self.logs), reason=error.strerror)

    def wait_for_predecessor(self, announce: Callable[[str, str], None] = lambda _, __: None) -> None:
        """Wait for the script that a killed agent left running: two scripts must never change one host.

        If there is one, ``announce`` is called before the wait, with its revision and its name.
        """
        orphan = self._record.orphan()
        if orphan is not None:
            announce(orphan.revision, orphan.name)
            log = get_logger().bind(pid=orphan.pid)
            log.warning("orphaned-script-awaited", record=str(self.record))
            while orphan.is_running:
                self.tick()
                time.sleep(_POLL)
                if self.timeout and orphan.age > self.timeout:
                    log.error("script-timed-out", seconds=self.timeout)
                    _terminate(orphan.scope, orphan.pid, orphan.wait)
            log.info("orphaned-script-ended")
        self._record.clear()

    @property
    def _record(self) -> ScriptRecord:
        return ScriptRecord(self.record)

    def _output(self, name: str) -> ScriptOutput:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        label = re.sub(r"[^A-Za-z0-9._+@~=-]+", "-", name).strip("-")[:100]
        log = get_logger().bind(run=name)
        try:
            self.logs.mkdir(mode=0o750, parents=True, exist_ok=True)
            for old in sorted(self.logs.glob("*.log"))[: -(_KEPT_LOGS - 1)]:
                if not is_written(old):  # a daemon that still writes would fill the disk with a deleted file
                    old.unlink(missing_ok=True)
            return ScriptOutput(
                self.logs / f"{stamp}-{label}.log",
                show=(lambda line: log.debug("script-printed", line=line)) if self.verbose else None,
            )
        except OSError as error:
            raise ScriptError(f"cannot write the output of scripts to {self.logs}: {error.strerror}") from error

    def _start(
        self,
        run: RecordedRun,
        output: Path,
        environment: Mapping[str, str],
        directory: str | None,
        last_check: Callable[[], None],
    ) -> Child:
        try:
            self._record.begin(run)
        except OSError as error:
            raise ScriptError(
                f"cannot record the running script in {self.record}: {error.strerror}; no script was started"
            ) from error
        command = run.scope.wrap(run.argv)
        try:
            last_check()
            child = process.spawn(command, output=output, env=environment, cwd=directory)
        except ProgramError as error:
            self._record.clear()
            raise ScriptError(str(error)) from error
        except ZkdeploymentError:
            self._record.clear()
            raise
        try:
            self._record.started(run, child.pid)
        except OSError as error:
            # The script already runs, and ``_search`` finds it without the process id: killing it is worse.
            get_logger().error("script-not-recorded", file=str(self.record), reason=error.strerror)
        return child

    def _wait(self, child: Child, scope: Scope, output: ScriptOutput, name: str) -> int:
        deadline = time.monotonic() + self.timeout if self.timeout else None
        due = time.monotonic() + _CAP_INTERVAL
        while (status := child.wait(_POLL)) is None:
            output.follow()
            if time.monotonic() >= due:
                self.cap_outputs()
                due = time.monotonic() + _CAP_INTERVAL
            if deadline is not None and time.monotonic() > deadline:
                _terminate(scope, child.pid, child.wait)
                output.finish()
                self._record.clear()
                raise ScriptError(
                    f"{name} did not end within {self.timeout:g} s and was killed", output.tail(_TAIL)
                )
            try:
                self.tick()
            except ShutdownError:
                get_logger().warning("script-terminated", run=name, reason="the agent is stopping")
                _terminate(scope, child.pid, child.wait)
                self._record.clear()
                raise
        return status


def _terminate(scope: Scope, pid: int, wait: Callable[[float], object]) -> None:
    """Send SIGTERM, then SIGKILL, to a script and all processes that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        scope.signal(pid, number)
        wait(_TERMINATION_GRACE)


def _outcome(status: int) -> str:
    if status > 0:
        return f"failed with exit status {status}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-status).name}"
    return f"was killed by signal {-status}"


def _check_program(program: str, search: str) -> None:
    """Raise ``ScriptError`` with the reason if a program cannot be run; ``search`` is a ``PATH``.

    systemd-run would report less than the reason, or pass the file to a shell.
    """
    located = program if "/" in program else shutil.which(program, path=search)
    file = Path(located or program)
    if located is None or not file.exists():
        raise ScriptError(f"cannot run {program}: the file does not exist; install its package again")
    if not (file.is_file() and os.access(file, os.X_OK)):
        raise ScriptError(f"cannot run {program}: it is not executable; its package has to set mode 755")
    try:
        with file.open("rb") as opened:
            first_bytes = opened.read(_FIRST_BYTES)
    except OSError as error:
        raise ScriptError(f"cannot run {program}: {error.strerror}") from error
    if first_bytes.startswith(b"#!"):
        line = first_bytes.splitlines()[0].decode("utf-8", errors="replace").strip()
        interpreter = line.removeprefix("#!").split()[:1]
        if not Path(*interpreter).is_file():
            raise ScriptError(
                f"cannot run {program}: the interpreter of its first line ({line!a}) does not exist; install the"
                " interpreter, or correct the script"
            )
    elif b"\0" not in first_bytes:  # a text file: every binary format has NUL bytes at its beginning
        raise ScriptError(
            f"cannot run {program}: expected a program or a script whose first line is #! and an interpreter,"
            " found neither; correct the script"
        )
