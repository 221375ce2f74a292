"""Forked programs behave as those that a new Python runs."""

import os
import signal
import subprocess

import pytest

from support.forks import ForkedProgram, run_forked
from support.waiting import wait_until

BAD = "/shop : web\n    version\n"


def test_a_forked_program_has_its_own_arguments_directory_streams_and_exit_status(tmp_path):
    (tmp_path / "a.zk").write_text(BAD)
    done = run_forked("lint", "a.zk", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith("a.zk:2:")
    assert "a.zk:2:" not in done.stderr
    unknown = run_forked("nonsense")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "there is no verb 'nonsense'" in unknown.stderr


def test_a_forked_program_has_its_own_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ZKDEPLOYMENT_CONFIG", str(tmp_path / "inherited.cfg"))
    assert f"{tmp_path}/inherited.cfg" in run_forked("status").stderr
    own = os.environ | {"ZKDEPLOYMENT_CONFIG": str(tmp_path / "own.cfg")}
    assert f"{tmp_path}/own.cfg" in run_forked("status", env=own).stderr


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)], ids=["terminated", "killed"]
)
def test_a_forked_program_runs_until_a_signal_ends_it(zookeeper, client, number, status):
    client.create("/web/providers", makepath=True)
    program = ForkedProgram(["provide", "-z", zookeeper, "/web/providers", "app1:80"])
    wait_until(lambda: client.exists("/web/providers/app1:80"), "the program works")
    assert program.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.01)
    program.send_signal(number)
    assert (program.wait(), program.poll()) == (status, status)
    program.kill()  # it has ended: another process with its id is left alone
