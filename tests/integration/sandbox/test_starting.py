import sys
import threading

import pytest

from support.waiting import wait_until
from zkdeployment.base.errors import ProgramError, WaitTimeoutError
from zkdeployment.sandbox import processes
from zkdeployment.sandbox.processes import BackgroundProcess, SandboxDaemon


@pytest.fixture
def daemon(tmp_path):
    """A daemon whose process is replaced by a program that prints a message and sleeps."""
    made = SandboxDaemon(tmp_path, tmp_path, "agent", [])
    command = [sys.executable, "-c", "import time; print('still thinking', flush=True); time.sleep(600)"]
    BackgroundProcess(tmp_path / "agent.pid").start(command, log=made.log)
    wait_until(lambda: "thinking" in made.log.read_text(encoding="utf-8"), "it runs")
    yield made
    made.kill()


def test_waiting_ends_when_all_agents_are_registered(zookeeper, client, daemon):
    client.create("/hosts/host1", makepath=True)
    waiting = threading.Thread(
        target=processes.wait_registered, args=(zookeeper, {"host1": daemon, "host2": daemon}), daemon=True
    )
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    client.create("/hosts/host2")
    waiting.join()
    assert not waiting.is_alive()


def test_the_error_for_an_agent_that_ends_early_has_the_end_of_its_log(zookeeper, daemon):
    daemon.kill()
    with pytest.raises(ProgramError, match="the agent of host1 ended before it was registered: still thinking"):
        processes.wait_registered(zookeeper, {"host1": daemon})


def test_the_error_for_a_slow_agent_has_the_end_of_its_log(zookeeper, daemon, monkeypatch):
    monkeypatch.setattr(processes, "_LIMIT", -10.0)
    with pytest.raises(
        WaitTimeoutError, match=r"the agent of host1 took too long.* the end of its log: still thinking"
    ):
        processes.wait_registered(zookeeper, {"host1": daemon})


def test_the_error_for_a_syncer_that_ends_early_has_the_end_of_its_log(zookeeper, daemon):
    daemon.kill()
    with pytest.raises(ProgramError, match="the syncer ended before it published the tree: still thinking"):
        processes.wait_published(zookeeper, daemon)
