"""The script runner with real processes and real files."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs

from support.waiting import wait_until
from zkdeployment.agent import scripts
from zkdeployment.agent import scripts as script_output
from zkdeployment.agent.scripts import RecordedRun, ScriptRecord, ScriptRunner
from zkdeployment.base.errors import LockLostError, ScriptError, ShutdownError, UnreachableError
from zkdeployment.base.machine.systemd import Scope
from zkdeployment.base.stop import MAX_OUTPUT_BYTES


class AgentDied(BaseException):
    """The end of an agent in the middle of a wait, which nothing may catch."""


def _raising(error: Exception):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.fixture
def make(tmp_path: Path):
    def runner(**options) -> ScriptRunner:
        values = {
            "environment": {"PATH": os.environ["PATH"], "HERE": str(tmp_path)},
            "logs": tmp_path / "log",
            "record": tmp_path / "script",
        }
        return ScriptRunner(**(values | options))

    return runner


def script(directory: Path, text: str, mode: int = 0o755) -> str:
    file = directory / "a-script"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def only_log(directory: Path) -> Path:
    (log,) = (directory / "log").glob("*.log")
    return log


def test_a_script_gets_only_its_own_environment(tmp_path, make):
    make().run([script(tmp_path, "#!/bin/sh\ncat /proc/$$/environ\n")], name="a b/c 0", revision=17)
    printed = dict(entry.split("=", 1) for entry in only_log(tmp_path).read_text().rstrip("\0").split("\0"))
    own = {"ZKDEPLOYMENT_VERSION": "17", "ZKDEPLOYMENT_ROLE": ""}
    assert printed == {"PATH": os.environ["PATH"], "HERE": str(tmp_path)} | own
    assert only_log(tmp_path).name.endswith("Z-a-b-c-0.log")


def test_only_the_owner_and_the_group_can_read_the_output(tmp_path, make):
    make().run([script(tmp_path, "#!/bin/sh\necho x\n")], name="x", revision="r")
    assert [path.stat().st_mode & 0o007 for path in (only_log(tmp_path), tmp_path / "log")] == [0, 0]


def test_a_script_runs_in_the_given_directory(tmp_path, make):
    (tmp_path / "there").mkdir()
    make().run([script(tmp_path, "#!/bin/sh\npwd\n")], name="x", revision="r", directory=str(tmp_path / "there"))
    assert only_log(tmp_path).read_text() == f"{tmp_path}/there\n"


def test_a_script_leads_its_own_session_and_has_no_standard_input(tmp_path, make):
    text = "#!/bin/sh\nps -o sid= -p $$ > $HERE/sid; echo $$ > $HERE/pid; readlink /proc/$$/fd/0 > $HERE/stdin\n"
    make().run([script(tmp_path, text)], name="x", revision="r")
    assert int((tmp_path / "sid").read_text()) == int((tmp_path / "pid").read_text())
    assert (tmp_path / "stdin").read_text() == "/dev/null\n"
    assert not (tmp_path / "script").exists()


def test_a_failure_has_a_message_and_the_end_of_the_output(tmp_path, make):
    text = "#!/bin/sh\nseq 5000\nprintf '\\033[31mred\\007\\n' >&2\nexit 42\n"
    with pytest.raises(ScriptError) as caught:
        make().run([script(tmp_path, text), "-u", "/a", "0"], name="x", revision="r")
    assert str(caught.value) == f"{tmp_path}/a-script -u /a 0 failed with exit status 42"
    assert caught.value.tail.endswith("5000\n\\x1b[31mred\\x07\n")
    assert len(caught.value.tail) < MAX_OUTPUT_BYTES + 100


def test_a_script_killed_by_a_signal_is_a_failure(tmp_path, make):
    with pytest.raises(ScriptError, match="was killed by SIGKILL"):
        make().run([script(tmp_path, "#!/bin/sh\nkill -9 $$\n")], name="x", revision="r")


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        ("#!/no/such/interpreter -x\n", 0o755, "the interpreter of its first line ('#!/no/such/interpreter -x')"),
        ("", 0o755, "expected a program or a script whose first line is #! and an interpreter, found neither"),
        ("#!", 0o755, "the interpreter of its first line ('#!') does not exist"),
        ("#!/bin/sh\r\n", 0o755, r"the interpreter of its first line ('#!/bin/sh\r') does not exist"),
        ("#!/bin/sh\n", 0o644, "it is not executable"),
    ],
)
def test_the_error_explains_why_a_script_cannot_be_started(tmp_path, make, text, mode, problem):
    with pytest.raises(ScriptError) as caught:
        make().run([script(tmp_path, text, mode)], name="x", revision="r")
    assert problem in str(caught.value)


def test_a_missing_script_and_an_unwritable_log_directory_are_errors(tmp_path, make):
    for program in (str(tmp_path / "nothing"), "no-such-program"):
        with pytest.raises(ScriptError, match=f"cannot run {program}: the file does not exist"):
            make().run([program], name="x", revision="r")
    (tmp_path / "file").touch()
    with pytest.raises(ScriptError, match="cannot write the output of scripts"):
        make(logs=tmp_path / "file" / "log").run(["/bin/true"], name="x", revision="r")


class TestAnErrorWhileAScriptRuns:
    """Whatever fails beside a running script, the wait ends with the script, and its exit status counts."""

    @pytest.mark.parametrize("place", ["tick", "follow"])
    def test_is_logged_once_and_ends_no_wait(self, tmp_path, make, place):
        errors = [RuntimeError("a defect"), OSError(errno.EMFILE, "too many open files"), UnreachableError("away")]

        def fail(*_: object) -> None:
            if errors:
                raise errors.pop(0)
            (tmp_path / "go").touch()

        text = "#!/bin/sh\nwhile [ ! -e $HERE/go ]; do sleep 0.02; done\ntouch $HERE/done\n"
        with capture_logs() as logs:
            make(**{place: fail}).run([script(tmp_path, text)], name="x", revision="r")
        assert (tmp_path / "done").exists()
        assert not (tmp_path / "script").exists()
        assert [line["event"] for line in logs] == ["script-not-watched", "script-completed"]

    @pytest.mark.parametrize("call", ["pread", "pwrite"])
    def test_in_its_output_changes_neither_its_result_nor_the_other_duties(
        self, tmp_path, make, monkeypatch, call
    ):
        text = f"#!/bin/sh\nhead -c {3 * script_output.HEAD + script_output.TAIL} /dev/zero\ntouch $HERE/long\n"
        waiting = "while [ ! -e $HERE/go ]; do sleep 0.02; done\nexit 3\n"
        ticks: list[bool] = []

        def tick() -> None:
            ticks.append((tmp_path / "long").exists())
            if ticks.count(True) == 3:
                (tmp_path / "go").touch()

        monkeypatch.setattr(os, call, _raising(OSError(errno.ENOSPC, "No space left on device")))
        with capture_logs() as logs, pytest.raises(ScriptError, match="failed with exit status 3"):
            make(tick=tick).run([script(tmp_path, text + waiting)], name="x", revision="r")
        failed = [line["reason"] for line in logs if line["event"] == "output-not-followed"]
        assert failed == ["No space left on device"]

    def test_in_a_vanished_directory_of_outputs_is_none(self, tmp_path, make):
        text = "#!/bin/sh\nrm -r $HERE/log\necho done > $HERE/done\nsleep 0.5\n"
        make(verbose=True).run([script(tmp_path, text)], name="x", revision="r")
        assert (tmp_path / "done").exists()

    def test_that_ends_the_agent_leaves_the_record_of_a_script_that_survives(self, tmp_path, make, monkeypatch):
        def stop() -> None:
            if (tmp_path / "started").exists():
                raise ShutdownError("stopping")

        monkeypatch.setattr(scripts, "_terminate", lambda *_: None)  # as for a script that waits for a dead disk
        text = "#!/bin/sh\ntouch $HERE/started\nwhile [ ! -e $HERE/go ]; do sleep 0.02; done\n"
        with pytest.raises(ShutdownError):
            make(tick=stop).run([script(tmp_path, text)], name="x", revision="r")
        assert ScriptRecord(tmp_path / "script").orphan() is not None
        make(tick=(tmp_path / "go").touch).wait_for_predecessor()
        assert not (tmp_path / "script").exists()

    def test_of_the_process_table_does_not_count_as_the_end_of_an_orphan(self, tmp_path, make, monkeypatch):
        def die() -> None:
            raise AgentDied

        text = "#!/bin/sh\nwhile [ ! -e $HERE/go ]; do sleep 0.02; done\n"
        with pytest.raises(AgentDied):
            make(tick=die).run([script(tmp_path, text)], name="x", revision="r")
        orphan = ScriptRecord(tmp_path / "script").orphan()
        with monkeypatch.context() as patch:
            patch.setattr(scripts.Path, "read_text", _raising(OSError(errno.EMFILE, "too many files")))
            assert orphan.is_running
        (tmp_path / "go").touch()
        assert orphan.wait(30)


class TestOutputOfADaemon:
    """The output of a daemon that a script started; the test plays the daemon and has the output file open."""

    LIMIT = script_output.HEAD + 2 * script_output.TAIL + 200

    @pytest.fixture
    def daemon(self, tmp_path, make):
        make().run([script(tmp_path, "#!/bin/sh\necho begins\n")], name="daemon", revision="r1")
        (log,) = (tmp_path / "log").glob("*.log")
        with log.open("ab", buffering=0) as output:
            yield log, output

    def test_is_capped_after_the_script_ended(self, make, daemon):
        log, output = daemon
        for _ in range(3):
            output.write(b"x" * self.LIMIT)
            make().cap_outputs()
            assert log.stat().st_size <= self.LIMIT
        output.write(b"still recorded\n")
        assert log.read_bytes().startswith(b"begins\n")
        assert log.read_bytes().endswith(b"still recorded\n")

    def test_is_capped_while_another_script_runs(self, tmp_path, make, daemon, monkeypatch):
        monkeypatch.setattr(scripts, "_CAP_INTERVAL", 0)
        log, output = daemon
        output.write(b"x" * 2 * self.LIMIT)
        text = "#!/bin/sh\nwhile [ ! -e $HERE/go ]; do sleep 0.02; done\n"

        def tick():
            if log.stat().st_size <= self.LIMIT:
                (tmp_path / "go").touch()

        make(tick=tick, timeout=60).run([script(tmp_path, text)], name="other", revision="r1")
        assert log.stat().st_size <= self.LIMIT

    def test_is_kept_while_the_daemon_runs(self, tmp_path, make, daemon, monkeypatch):
        monkeypatch.setattr(scripts, "_KEPT_LOGS", 2)
        log, output = daemon
        for _ in range(3):
            make().run([script(tmp_path, "#!/bin/sh\n")], name="later", revision="r1")
        assert log.exists()
        output.close()
        make().run([script(tmp_path, "#!/bin/sh\n")], name="later", revision="r1")
        assert not log.exists()


def test_a_script_ends_although_its_daemon_keeps_the_output_open(tmp_path, make):
    text = "#!/bin/sh\nsleep 60 &\necho $! > $HERE/daemon\n"
    started = time.monotonic()
    make().run([script(tmp_path, text)], name="x", revision="r")
    daemon = psutil.Process(int((tmp_path / "daemon").read_text()))
    assert time.monotonic() - started < 59
    assert daemon.is_running()
    daemon.kill()


def test_a_script_that_exceeds_the_timeout_is_killed_with_its_process_group(tmp_path, make):
    text = "#!/bin/sh\ntrap 'echo asked' TERM\nsleep 60 &\necho $! > $HERE/child\nwait; sleep 1\n"
    for limit in (0.5, 5, 50):
        with pytest.raises(ScriptError, match=f"x did not end within {limit:g} s and was killed") as caught:
            make(timeout=limit).run([script(tmp_path, text)], name="x", revision="r")
        if (tmp_path / "child").exists():
            break  # else the machine was too slow to start it
    assert caught.value.tail.startswith("asked")
    child = int((tmp_path / "child").read_text())

    def is_gone() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(child).status() == psutil.STATUS_ZOMBIE
        return True

    wait_until(is_gone, "child is gone")
    assert not (tmp_path / "script").exists()


def test_a_script_is_terminated_when_the_agent_stops(tmp_path, make):
    def tick() -> None:
        if (tmp_path / "started").exists():
            raise ShutdownError("stopping")

    with pytest.raises(ShutdownError):
        make(tick=tick).run(
            [script(tmp_path, "#!/bin/sh\ntouch $HERE/started\nexec sleep 60\n")], name="x", revision=1
        )
    assert not (tmp_path / "script").exists()


def test_the_next_agent_waits_for_the_recorded_script(tmp_path, make):
    text = "#!/bin/sh\ntouch $HERE/started\nwhile [ ! -e $HERE/go ]; do sleep 0.02; done\n"
    path = script(tmp_path, text)
    records = []

    def tick() -> None:
        if (tmp_path / "script").exists():
            records.append(json.loads((tmp_path / "script").read_text()))
            raise AgentDied

    with pytest.raises(AgentDied):
        make(tick=tick).run([path], name="x", revision="r")
    assert records[0]["argv"] == [path]
    ticks = []

    def release() -> None:
        ticks.append(psutil.pid_exists(records[0]["pid"]))
        (tmp_path / "go").touch()

    announced = []
    make(tick=release).wait_for_predecessor(lambda *script: announced.append(script))
    assert ticks[0]
    assert announced == [("r", "x")]
    assert not (tmp_path / "script").exists()


def recorded(argv):
    return RecordedRun(argv, Scope(), "deploy /a 0", "r1")


def test_an_orphaned_script_has_the_same_timeout(tmp_path, make):
    orphan = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
    ScriptRecord(tmp_path / "script").started(recorded(["sleep"]), orphan.pid)
    make(timeout=0.1).wait_for_predecessor()
    assert not (tmp_path / "script").exists()
    assert orphan.wait() == -signal.SIGTERM


#: A program that plays an agent that is killed right after the start of its script; arguments: DIRECTORY ARGV….
_KILLED_AGENT = """\
import os, pathlib, signal, sys
from zkdeployment.agent import scripts
scripts.ScriptRecord.started = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
here = pathlib.Path(sys.argv[1])
environment = {"PATH": os.environ["PATH"], "HERE": sys.argv[1]}
runner = scripts.ScriptRunner(environment=environment, logs=here / "log", record=here / "script")
runner.run(sys.argv[2:], name="x", revision="r")
"""


def test_the_next_agent_waits_for_a_script_whose_process_was_not_recorded(tmp_path, make):
    text = "#!/bin/sh\n(sleep 60) &\necho $! > $HERE/daemon\nwhile [ ! -e $HERE/go ]; do sleep 0.02; done\n"
    path = script(tmp_path, text)
    agent = subprocess.run([sys.executable, "-c", _KILLED_AGENT, str(tmp_path), path, "/a", "0"], check=False)
    assert agent.returncode == -signal.SIGKILL
    assert "pid" not in json.loads((tmp_path / "script").read_text())
    wait_until((tmp_path / "daemon").exists, "the script runs")
    logs = []

    def release() -> None:
        logs.append(only_log(tmp_path))
        (tmp_path / "go").touch()

    make(tick=release).wait_for_predecessor()
    assert logs, "the next agent waited"
    assert not (tmp_path / "script").exists()
    daemon = psutil.Process(int((tmp_path / "daemon").read_text()))
    assert daemon.is_running(), "the agent does not wait for a daemon that the script started"
    daemon.kill()


def test_the_next_agent_does_not_wait_for_a_script_that_was_never_started(tmp_path, make):
    argv = ["/bin/sleep", "60"]
    older = subprocess.Popen(argv, start_new_session=True)
    other = ScriptRecord(tmp_path / "other")
    other.started(recorded(argv), older.pid)
    wait_until(lambda: other.orphan().age > 0.1, "the process is older than the record")
    ScriptRecord(tmp_path / "script").begin(recorded(argv))
    try:
        make(tick=lambda: pytest.fail("waited")).wait_for_predecessor()
    finally:
        older.kill()
        older.wait()
    assert not (tmp_path / "script").exists()


def test_the_program_starts_directly_after_the_last_check_of_a_script(tmp_path, make):
    def check() -> None:
        assert json.loads((tmp_path / "script").read_text())["argv"] == [path]
        assert only_log(tmp_path) is not None
        raise LockLostError("this host was suspended")

    path = script(tmp_path, "#!/bin/sh\ntouch $HERE/ran\n")
    with pytest.raises(LockLostError):
        make().run([path], name="x", revision="r", last_check=check)
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "script").exists()


def test_a_script_is_not_started_unless_it_can_be_recorded(tmp_path, make):
    text = "#!/bin/sh\ntouch $HERE/ran\n"
    with pytest.raises(ScriptError, match=r"cannot record the running script in .*/nowhere/script: No such file"):
        make(record=tmp_path / "nowhere/script").run([script(tmp_path, text)], name="x", revision="r")
    assert not (tmp_path / "ran").exists()


def test_the_next_agent_does_not_wait_for_a_script_that_has_ended(tmp_path, make):
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    ScriptRecord(tmp_path / "script").started(recorded(["/bin/true"]), ended.pid)
    make(tick=lambda: pytest.fail("waited")).wait_for_predecessor()
    assert not (tmp_path / "script").exists()


@pytest.mark.parametrize(
    "record",
    ["", "nonsense", "[]", '{"unit": null, "name": "x", "revision": "r", "pid": 1, "started": 5}', '{"pid": "x"}'],
)
def test_a_damaged_record_and_a_record_of_another_process_are_ignored(tmp_path, make, record):
    (tmp_path / "script").write_text(record)
    make(tick=lambda: pytest.fail("waited")).wait_for_predecessor()
    assert not (tmp_path / "script").exists()


def test_a_script_waits_for_an_earlier_script_that_the_end_of_a_wait_left_running(tmp_path, make):
    def die() -> None:
        raise AgentDied

    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nwhile [ ! -e $HERE/go ]; do sleep 0.02; done\necho slow >> $HERE/journal\n")
    slow.chmod(0o755)
    with pytest.raises(AgentDied):
        make(tick=die).run([str(slow)], name="slow", revision="r")
    make(tick=(tmp_path / "go").touch).run(
        [script(tmp_path, "#!/bin/sh\necho next >> $HERE/journal\n")], name="x", revision="r"
    )
    assert (tmp_path / "journal").read_text() == "slow\nnext\n"


def test_verbose_output_is_shown_line_by_line_while_the_script_runs(tmp_path, make, monkeypatch):
    lines: list[str] = []
    runner = make(verbose=True, tick=lambda: (tmp_path / "go").touch() if "one" in lines else None)
    text = "#!/bin/sh\necho one\nwhile [ ! -e $HERE/go ]; do sleep 0.02; done\nprintf 'two\\r\\nthree'\n"
    monkeypatch.setattr(
        script_output.ScriptOutput,
        "__init__",
        _showing(script_output.ScriptOutput.__init__, lines),
    )
    runner.run([script(tmp_path, text)], name="x", revision="r")
    assert lines == ["one", "two", "three"]


def _showing(original, lines):
    def init(self, file, show=None):
        assert show is not None
        original(self, file, lines.append)

    return init


def test_an_endless_output_takes_limited_disk_space_and_memory(tmp_path, make):
    write = "for _ in range(400): os.write(1, b'x' * (1 << 20))"
    text = f"#!{sys.executable}\nimport os\n{write}\nos.write(1, b'the end')\n"
    before = psutil.Process().memory_info().rss
    make(verbose=True).run([script(tmp_path, text)], name="x", revision="r")
    log = only_log(tmp_path)
    assert log.stat().st_size <= script_output.HEAD + script_output.TAIL + 200
    assert log.read_bytes().endswith(b"the end")
    assert b"cut: the output was too long" in log.read_bytes()
    assert psutil.Process().memory_info().rss - before < 40 << 20


def test_a_long_line_is_shown_in_pieces(tmp_path):
    shown: list[str] = []
    with script_output.ScriptOutput(tmp_path / "log", shown.append) as output:
        (tmp_path / "log").write_bytes(b"a" * 10_000 + b"\nend")
        output.finish()
    assert [len(piece) for piece in shown] == [4096, 4096, 1808, 3]


def test_old_logs_are_pruned(tmp_path, make):
    logs = tmp_path / "log"
    logs.mkdir()
    for number in range(250):
        (logs / f"20200101T000000.{number:06}Z-x.log").touch()
    make().run(["/bin/true"], name="x", revision="r")
    remaining = sorted(path.name for path in logs.iterdir())
    assert len(remaining) == 200
    assert "20200101T000000.000050Z-x.log" not in remaining
    assert not remaining[-1].startswith("2020")


def test_a_script_runs_although_old_logs_are_removed_while_they_are_pruned(tmp_path, make, monkeypatch):
    logs = tmp_path / "log"
    logs.mkdir()
    for number in range(201):
        (logs / f"20200101T000000.{number:06}Z-x.log").touch()
    is_written = scripts.is_written

    def removed(file: Path) -> bool:
        file.unlink()
        return is_written(file)

    monkeypatch.setattr(scripts, "is_written", removed)
    make().run(["/bin/true"], name="x", revision="r")
    assert len(list(logs.iterdir())) == 200


def test_a_signal_to_the_scripts_process_group_does_not_reach_the_agent(tmp_path, make):
    make().run([script(tmp_path, "#!/bin/sh\ntrap '' TERM\nkill -TERM 0\n")], name="x", revision="r")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
