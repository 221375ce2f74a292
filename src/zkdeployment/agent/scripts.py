"""Runs the scripts of packages, each in its own session, and finds the script of a killed agent.

The output goes to a file and not to a pipe. Therefore the script continues if the agent dies, and the agent does
not wait for a daemon that the script started and that keeps the output open.

The record is written before the script is started, and completed with the process id right after the start. If the
agent is killed in between, the script's process is the session leader that has the recorded arguments.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import re
import shutil
import signal
import time
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from zkdeployment.base.errors import ProgramError, ScriptError, ShutdownError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files, process
from zkdeployment.base.machine.program import late_import
from zkdeployment.base.machine.systemd import Scope, new_scope
from zkdeployment.base.stop import MAX_OUTPUT_BYTES, end_of_output
from zkdeployment.base.text import printable_lines
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.machine.process import Child


HEAD = 5 * 1024 * 1024
TAIL = 5 * 1024 * 1024

_CHUNK = 64 * 1024
_LONGEST_LINE = 4096
_CUT = b"\n... cut: the output was too long; the end of it follows ...\n"


class ScriptOutput:
    """The output of a script in ``file``, to which the script appends; a context manager.

    The first and the last megabytes of a long output are kept: when the file grows larger, its middle is removed
    in place. ``show`` is called with each line, up to the first cut. Only opening the file raises ``OSError``: a
    later error is logged once, because the script runs whether its output can be kept or not.
    """

    def __init__(self, file: Path, show: Callable[[str], None] | None = None) -> None:
        self.file = file
        self._show = show
        self._shown = 0
        self._line = b""
        self._has_failed = False
        self._descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def follow(self) -> None:
        """Show the new lines, then cut the file if it is too long."""
        with self._logged_errors():
            self._show_new()
            self._cut_above(HEAD + len(_CUT) + 2 * TAIL)

    def finish(self) -> None:
        """Show the remaining lines, then cut the file to its final size."""
        with self._logged_errors():
            self._show_new()
            if self._line and self._show is not None:
                self._show_lines(b"\n")
            self._cut_above(HEAD + len(_CUT) + TAIL)

    def tail(self, size: int) -> str:
        """Return the end of the output, at most ``size`` bytes, as ``end_of_output`` does; after an error none."""
        ending = b""
        with self._logged_errors():
            start = max(0, os.fstat(self._descriptor).st_size - size - 1)
            ending = os.pread(self._descriptor, size + 1, start)
        return end_of_output(ending, size)

    @contextlib.contextmanager
    def _logged_errors(self) -> Iterator[None]:
        """Log the first error of the file, and suppress all."""
        try:
            yield
        except OSError as error:
            if not self._has_failed:
                get_logger().error("output-not-followed", file=str(self.file), reason=error.strerror)
            self._has_failed = True

    def _show_new(self) -> None:
        if self._show is not None:
            while self._shown < HEAD and (new := self._read(self._shown, HEAD)):
                self._shown += len(new)
                self._show_lines(new)

    def _read(self, start: int, limit: int) -> bytes:
        return os.pread(self._descriptor, min(_CHUNK, limit - start), start)

    def _show_lines(self, new: bytes) -> None:
        *lines, self._line = (self._line + new).split(b"\n")
        while len(self._line) > _LONGEST_LINE:
            lines.append(self._line[:_LONGEST_LINE])
            self._line = self._line[_LONGEST_LINE:]
        for line in lines:
            for start in range(0, max(1, len(line)), _LONGEST_LINE):
                piece = line[start : start + _LONGEST_LINE]
                self._show(printable_lines(piece.decode("utf-8", errors="replace").rstrip("\r")))  # type: ignore[misc]

    def _cut_above(self, limit: int) -> None:
        """Move the end of a file above a size directly behind its head, while the script continues to append."""
        if os.fstat(self._descriptor).st_size <= limit:
            return
        source = os.fstat(self._descriptor).st_size - TAIL
        target = HEAD + os.pwrite(self._descriptor, _CUT, HEAD)
        while chunk := os.pread(self._descriptor, _CHUNK, source):
            source += len(chunk)
            target += os.pwrite(self._descriptor, chunk, target)
        os.ftruncate(self._descriptor, target)


def cap(file: Path) -> None:
    """Limit the size of an output file to which a daemon started by a script may append; errors are logged."""
    try:
        with ScriptOutput(file) as output:
            output.follow()
    except OSError as error:
        get_logger().warning("output-not-capped", file=str(file), reason=error.strerror)


def is_written(file: Path) -> bool:
    """Whether a process has a file open for writing, according to the kernel's leases; raises ``OSError``.

    A file that was removed meanwhile is not written.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # ignored by default, sent if the lease is broken
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False


_LONGEST = 1 << 20
_RECORD_POLL = 0.05  # seconds between two checks of a process that is not a child of this one


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
        """Whether the script still runs; true if the system does not answer."""
        try:
            started = process.start_time(self.pid)
        except OSError:
            return True
        return started is not None and started == self.started

    def wait(self, seconds: float) -> bool:
        """Wait until the script has ended, at most ``seconds``; return whether it has ended."""
        end = time.monotonic() + seconds
        while is_running := self.is_running:
            if time.monotonic() >= end:
                break
            time.sleep(_RECORD_POLL)
        return not is_running

    @property
    def age(self) -> float:
        """Return the seconds since the script was started, independent of changes of the clock."""
        return _since_boot() - self.started


@dataclass(frozen=True)
class RecordedRun:
    """One run of a script: its arguments, its scope, and its ``name`` and ``revision`` for operators."""

    argv: Sequence[str]
    scope: Scope
    name: str
    revision: str

    def content(self) -> dict[str, Any]:
        """Return the content of the record about the run."""
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
        self._write({**run.content(), "pid": pid, "started": process.start_time(pid)})

    def clear(self) -> None:
        """Remove the record: no script runs."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)

    def orphan(self) -> OrphanedScript | None:
        """Return the recorded script if it still runs; ``None`` if it does not, and for a damaged record."""
        try:
            content = json.loads(files.read(self.file, _LONGEST) or b"null")
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
        files.replace(self.file, json.dumps(content).encode(), sync=False)  # no script survives a reboot


def _search(argv: Sequence[str], begun: float) -> tuple[int, float] | None:
    """Return the session leader that was started since ``begun`` with a command line that ends in ``argv``.

    The command line may begin with an interpreter and its options. Return the process id and the time of the
    start.
    """
    with late_import():
        import psutil  # noqa: PLC0415  a megabyte that most agents never need

    for candidate in psutil.process_iter(["cmdline"]):
        if (candidate.info["cmdline"] or [])[-len(argv) :] == argv and _leads_session(candidate.pid):
            started = process.start_time(candidate.pid)
            if started is not None and started > begun - 2 * process.TICK:
                return candidate.pid, started
    return None


def _leads_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wait_for_end(is_over: Callable[[], bool], beside: Sequence[Callable[[], None]]) -> None:
    """Call ``is_over``, which waits a moment, until a script has ended, and each function ``beside`` in between.

    Only ``ShutdownError`` ends the wait earlier: as long as a script runs, its host has to hold the lock and to
    know of the script. Any other error is logged once for each function.
    """
    failed: set[int] = set()
    while not is_over():
        for number, call in enumerate(beside):
            try:
                call()
            except ShutdownError:
                raise
            except Exception:  # noqa: BLE001  neither a full disk nor a defect may end the wait
                if number not in failed:
                    get_logger().exception("script-not-watched")
                failed.add(number)


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

    ``environment`` is the environment of scripts without the revision and the role of the host, which ``role``
    returns. ``logs`` is the directory of output files. The file ``record`` names the running script, so that the
    successor of a killed agent waits for the script. ``timeout`` is in seconds; 0 means no limit. ``tick`` is
    called a few times a second while a script runs; when ``tick`` raises ``ShutdownError``, the script is
    terminated. ``follow`` is called as often with the revision, the name and the output of the script, and with
    whether the script is over; it must not raise.
    """

    environment: Mapping[str, str]
    logs: Path
    record: Path
    role: Callable[[], str | None] = field(default=lambda: None)
    timeout: float = 0
    verbose: bool = False
    tick: Callable[[], None] = field(default=lambda: None)
    follow: Callable[[str, str, ScriptOutput, bool], None] = field(default=lambda *_: None)

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
        """Run ``argv`` and wait until it exits; a status other than 0 is a failure.

        Its output goes to the log and to a file of limited size, named after ``name``. ``directory`` is the
        working directory (default: the agent's). ``facts`` are further variables of its environment.
        ``last_check`` is called right before the script starts; if it raises an error, the script does not start.
        """
        self.wait_for_predecessor()  # also for a script that this agent left running after an error
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
                status = self._wait(child, run, output)
            finally:
                child.abandon()
            seconds = round(time.monotonic() - started, 3)
            if status:
                tail = output.tail(_TAIL)
                log.error(
                    "script-failed", status=status, seconds=seconds, output=tail[-_LOGGED:], file=str(output.file)
                )
                raise ScriptError(f"{' '.join(argv)} {_outcome(status)}", tail, str(output.file), status)
            log.info("script-completed", seconds=seconds, file=str(output.file))

    def cap_outputs(self) -> None:
        """Limit the output files of programs that scripts left running; errors are logged."""
        try:
            outputs = sorted(self.logs.glob("*.log"))
        except OSError as error:
            get_logger().warning("outputs-not-listed", directory=str(self.logs), reason=error.strerror)
            return
        for file in outputs:
            cap(file)

    def wait_for_predecessor(self, announce: Callable[[str, str], None] = lambda _, __: None) -> None:
        """Wait for the script that a killed agent left running: two scripts must never change one host.

        If there is such a script, ``announce`` is called before the wait, with its revision and its name.
        """
        orphan = self._record.orphan()
        if orphan is not None:
            announce(orphan.revision, orphan.name)
            log = get_logger().bind(pid=orphan.pid)
            log.warning("orphaned-script-awaited", record=str(self.record))

            def end_if_late() -> None:
                if self.timeout and orphan.age > self.timeout:
                    log.error("script-timed-out", seconds=self.timeout)
                    _terminate(orphan.scope, orphan.pid, orphan.wait)

            wait_for_end(lambda: orphan.wait(_POLL), (self.tick, end_if_late))
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

    def _wait(self, child: Child, run: RecordedRun, output: ScriptOutput) -> int:
        """Return the exit status of a script when it has ended; its record then does not exist any more.

        Raises ``ScriptError`` if the script exceeded the timeout. An agent that has to end terminates the script,
        then passes on ``ShutdownError``; if the script survives that, its record stays for the next agent.
        """
        end = time.monotonic() + self.timeout if self.timeout else math.inf
        due = time.monotonic() + _CAP_INTERVAL
        is_late = False

        def end_if_late() -> None:
            nonlocal is_late
            if time.monotonic() > end:
                is_late = True
                _terminate(run.scope, child.pid, child.wait)

        def cap_if_due() -> None:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + _CAP_INTERVAL
                self.cap_outputs()

        def follow() -> None:
            output.follow()
            self.follow(run.revision, run.name, output, False)

        try:
            wait_for_end(lambda: child.wait(_POLL) is not None, (follow, cap_if_due, end_if_late, self.tick))
        except ShutdownError:
            get_logger().warning("script-terminated", run=run.name, reason="the agent is stopping")
            _terminate(run.scope, child.pid, child.wait)
            if child.wait(0) is not None:
                self._record.clear()
            raise
        self._record.clear()
        output.finish()
        self.follow(run.revision, run.name, output, True)
        if is_late:
            reason = f"{run.name} did not end within {self.timeout:g} s and was killed"
            raise ScriptError(reason, output.tail(_TAIL), str(output.file))
        return child.wait(0) or 0


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

    systemd-run would not report the reason, or would pass the file to a shell.
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
        line = first_bytes.partition(b"\n")[0].decode("utf-8", errors="replace").strip(" \t")
        # The kernel separates words at blanks and tabs alone: a carriage return belongs to the name.
        interpreter = line.removeprefix("#!").replace("\t", " ").strip(" ").partition(" ")[0]
        if not Path(interpreter).is_file():
            raise ScriptError(
                f"cannot run {program}: the interpreter of its first line ({line!a}) does not exist; install the"
                " interpreter, or correct the script"
            )
    elif b"\0" not in first_bytes:  # a text file: every binary format has NUL bytes at its beginning
        raise ScriptError(
            f"cannot run {program}: expected a program or a script whose first line is #! and an interpreter,"
            " found neither; correct the script"
        )
