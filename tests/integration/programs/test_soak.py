"""Many deployments by one agent do not increase its threads, open files or memory."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kazoo.client import KazooClient

from support.agents import AgentHost, Fleet, put_script
from support.waiting import wait_until

INSTANCES = 40
WARM = 8  # versions until caches and pools have reached their size
SCRIPT = "#!/bin/true\n"


@pytest.fixture
def fleet(zookeeper: str, client: KazooClient) -> Iterator[Fleet]:
    """A fleet in memory, because writes to a disk would take most of the time."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Fleet(Path(directory), zookeeper, client)


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    host = fleet.host("h1")
    put_script(host.root, "foo", SCRIPT)
    fleet.service("/who/myfoo", "foo", "1.0", h1=INSTANCES)
    return host


def weigh(agent: psutil.Process) -> tuple[int, int, int]:
    """Return the agent's threads, open files and resident bytes."""
    return agent.num_threads(), agent.num_fds(), agent.memory_info().rss


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_hundreds_of_deployments_leak_no_threads_open_files_or_memory(fleet, host):
    with host.new_process() as child:
        agent = psutil.Process(child.pid)
        for number in range(25):
            fleet.set_version(f"r{number}")
            wait_until(lambda number=number: host.has_finished(f"r{number}"), f"r{number}")
            if number == WARM:
                threads, files, memory = weigh(agent)
        now = weigh(agent)
    assert len(host.markers) == INSTANCES
    assert now[0] <= threads + 1
    assert now[1] <= files + 2  # the measurement may include files that are being read
    assert now[2] <= memory * 1.1
