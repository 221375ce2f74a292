import os
import signal
import subprocess
import sys

import pytest

from support.waiting import wait_until
from zkdeployment.sandbox.processes import end_processes, sandbox_processes

SLEEP = "import time; time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


@pytest.fixture
def start():
    started = []

    def start(*arguments: str, program=SLEEP, **options):
        options.setdefault("start_new_session", True)
        child = subprocess.Popen([sys.executable, "-c", program, *arguments], stdin=subprocess.DEVNULL, **options)
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def pids(directory):
    return {process.pid for process in sandbox_processes(directory)}


@pytest.mark.parametrize("variable", ["ZKDEPLOYMENT_SANDBOX", "ZKDEPLOYMENT_ROOT", "ZKDEPLOYMENT_CONFIG"])
def test_a_process_belongs_by_its_environment(tmp_path, start, variable):
    inside = start(env={variable: str(tmp_path / "hosts/host1/root")})
    wait_until(lambda: inside.pid in pids(tmp_path), "the process is found")
    assert pids(tmp_path) == {inside.pid}


def test_a_process_belongs_by_its_working_directory_or_an_argument(tmp_path, start):
    working = start(cwd=tmp_path)
    named = start(str(tmp_path / "server.py"))
    optioned = start(f"--installroot={tmp_path}/root")
    wait_until(lambda: {working.pid, named.pid, optioned.pid} <= pids(tmp_path), "the processes are found")
    assert pids(tmp_path) == {working.pid, named.pid, optioned.pid}


def test_neighbours_and_commands_about_the_sandbox_and_this_process_do_not_belong(tmp_path, start):
    directory = tmp_path / "box"
    directory.mkdir()
    neighbour = start(env={"ZKDEPLOYMENT_ROOT": f"{directory}2/root"})
    command = start("sandbox", "status", "-d", str(directory))
    inside = start(cwd=directory)
    wait_until(lambda: inside.pid in pids(directory), "the sandbox's process is listed")
    assert not {neighbour.pid, command.pid, os.getpid(), os.getppid()} & pids(directory)


def test_a_users_shell_in_the_directory_does_not_belong(tmp_path):
    terminal, theirs = os.openpty()
    take = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); print(flush=True); "
    shell = subprocess.Popen(
        [sys.executable, "-c", take + SLEEP],
        cwd=tmp_path,
        stdin=theirs,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        shell.stdout.readline()
        assert pids(tmp_path) == set()
    finally:
        shell.kill()
        shell.wait()
        shell.stdout.close()
        os.close(terminal)
        os.close(theirs)


def test_all_processes_are_ended_even_if_they_ignore_sigterm(tmp_path, start):
    stubborn = start(cwd=tmp_path, program=STUBBORN, stdout=subprocess.PIPE)
    stubborn.stdout.readline()
    meek = start(cwd=tmp_path)
    wait_until(lambda: {stubborn.pid, meek.pid} <= pids(tmp_path), "both are found")
    end_processes(tmp_path, grace=0.2)
    assert pids(tmp_path) == set()
    assert (meek.wait(), stubborn.wait()) == (-signal.SIGTERM, -signal.SIGKILL)
