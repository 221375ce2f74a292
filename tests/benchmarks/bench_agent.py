"""Measures the agent against bare kazoo: reading the whole tree, idle resource use, and reaction time."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psutil
from kazoo.client import KazooClient

from benchmarks.baseline import create_in_transactions, read_tree
from benchmarks.bench_publish import running_server
from benchmarks.fleets import fleet_text, host_name
from benchmarks.results import Result, Scale, best, interleaved, middle, seconds
from support.agents import AgentHost, Fleet
from support.waiting import wait_until
from support.zookeeper import connected
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.host import Identity
from zkdeployment.sandbox.zookeeper import ZooKeeperServer
from zkdeployment.tree.parse import parse_bytes
from zkdeployment.zookeeper.session import Session

_PATIENCE = 60
#: Seconds of a round in which idle processes are watched, and milliseconds an agent may take longer than a watch.
_IDLE = 3
_MORE = 20
#: The modules of an installation are byte-compiled.
_INSTALLED = {"PYTHONDONTWRITEBYTECODE": ""}
_PRIVATE = "idle agent's memory that no other process shares"

#: A process that only holds a session.
_BARE = """
import sys, threading
from kazoo.client import KazooClient
KazooClient(sys.argv[1], timeout=30).start()
print("connected", flush=True)
threading.Event().wait()
"""

#: The same with the libraries that the agent needs: the least that its private memory can be.
_WITH_LIBRARIES = f"import configparser, subprocess, tempfile, zkdeployment.base.log.lines\n{_BARE}"


def measure(scale: Scale) -> Iterator[Result]:
    """Measure a tree of each size, and one agent."""
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
        for hosts in scale.hosts:
            yield _reading(server, hosts, scale.rounds)
        with connected(server.address) as client:
            client.create("/agent")
        with connected(f"{server.address}/agent") as client:
            fleet = Fleet(Path(scratch), f"{server.address}/agent", client)
            fleet.set_version("first")
            host = fleet.host("host1")
            with host.new_process(**_INSTALLED):
                wait_until(lambda: host.has_finished("first"), "the agent compiled its modules", _PATIENCE)
            with (
                host.new_process(**_INSTALLED) as agent,
                _bare(_BARE, fleet.connection) as bare,
                _bare(_WITH_LIBRARIES, fleet.connection) as libraries,
            ):
                wait_until(lambda: host.has_finished("first"), "the agent is at the first version", _PATIENCE)
                yield _acting(host, scale.rounds * 10)
                yield from _idling(psutil.Process(agent.pid), psutil.Process(bare.pid), scale.rounds)
                yield from _private_memory(*(psutil.Process(each.pid) for each in (agent, libraries, bare)))


def _reading(server: ZooKeeperServer, hosts: int, rounds: int) -> Result:
    """Measure reading a host's deployments from a tree without compiled targets (version set by hand)."""
    tree = parse_bytes("fleet.zk", fleet_text(hosts).encode()).tree
    chroot = f"tree{hosts}"
    with connected(server.address) as root:
        root.create(f"/{chroot}")
    identity = Identity("id0", host_name(0))
    with connected(f"{server.address}/{chroot}") as client, Session(f"{server.address}/{chroot}") as session:
        create_in_transactions(client, tree)
        client.create("/hosts", b'{"version": "by hand"}')
        fleet = ZooKeeperFleet(session)
        ours: list[float] = []

        def read() -> None:
            ours.append(seconds(lambda: fleet.wanted(identity, "by hand")))

        one_by_one = interleaved(read_tree(client), len(tree), read, rounds)
    return Result(
        work="what one host is to run, version set by hand",
        size=f"{len(tree):,} nodes",
        value=best(ours),
        against="one request at a time",
        reference=one_by_one,
        at_least=40,
    )


@contextmanager
def _bare(program: str, connection: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", program, connection], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def _idling(agent: psutil.Process, bare: psutil.Process, rounds: int) -> Iterator[Result]:
    before = _wakes(agent), _wakes(bare)
    start = time.perf_counter()
    time.sleep(_IDLE * rounds)  # the measured processes are idle meanwhile
    # Sessions with a server that started on a busy machine are long, and so is the time between two wake-ups.
    wait_until(lambda: _wakes(agent) > before[0] and _wakes(bare) > before[1], "both woke up", _PATIENCE)
    minutes = (time.perf_counter() - start) / 60
    after = _wakes(agent), _wakes(bare)
    ours, floor = agent.memory_full_info(), bare.memory_full_info()
    against = "process with a bare client"
    for work, value, reference, at_most in (
        ("idle agent's memory", ours.rss, floor.rss, 1.5),
        (_PRIVATE, ours.uss, floor.uss, 1.5),
    ):
        yield Result(
            work=work,
            size="1 agent",
            value=value / 2**20,
            unit="MB",
            against=against,
            reference=reference / 2**20,
            at_most=at_most,
        )
    yield Result(
        work="idle agent's wake-ups a minute",
        size="1 agent",
        value=(after[0] - before[0]) / minutes,
        unit="",
        against=against,
        reference=(after[1] - before[1]) / minutes,
    )


def _private_memory(agent: psutil.Process, libraries: psutil.Process, bare: psutil.Process) -> Iterator[Result]:
    """Compare the memory that no other process shares with that of a client that has imported the libraries.

    The libraries alone against the bare client show how much of the agent's memory is not its own.
    """
    ours, floor, least = (process.memory_full_info().uss / 2**20 for process in (agent, libraries, bare))
    for work, value, against, reference, at_most in (
        (_PRIVATE, ours, "bare client with the libraries", floor, 1.5),
        ("a client's with the agent's libraries, likewise", floor, "process with a bare client", least, None),
    ):
        yield Result(
            work=work,
            size="1 agent",
            value=value,
            unit="MB",
            against=against,
            reference=reference,
            at_most=at_most,
        )


def _wakes(process: psutil.Process) -> int:
    """Return the number of voluntary context switches of all threads of a process since its start."""
    statuses = [file.read_text() for file in Path(f"/proc/{process.pid}/task").glob("*/status")]
    return sum(int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0]) for status in statuses)


def _acting(host: AgentHost, rounds: int) -> Result:
    """Measure the time from setting a version to the agent's first write, including the watch that observes it."""
    watched: list[float] = []
    acted: list[float] = []
    with connected(host.fleet.connection) as one, connected(host.fleet.connection) as other:
        cluster, own = _seen(one, "/hosts"), _seen(other, f"/hosts/{host.id}")
        for number in range(rounds):
            version = f"version {number}"
            start = time.perf_counter()
            host.fleet.set_version(version)
            watched.append(cluster.get(timeout=_PATIENCE)[0] - start)
            moment, node = own.get(timeout=_PATIENCE)
            acted.append(moment - start)
            while node.get("version") != version:
                _, node = own.get(timeout=_PATIENCE)
            wait_until(partial(host.has_finished, version), f"the agent is at {version}", _PATIENCE)
    return Result(
        work="version set until the agent's first write",
        size="1 agent",
        value=middle(acted),
        against=f"bare watch, and {_MORE} ms",
        reference=middle(watched) + _MORE / 1000,
        at_most=1,
    )


def _seen(client: KazooClient, path: str) -> SimpleQueue[tuple[float, dict[str, Any]]]:
    """Return a queue that receives the time and properties of a node at every change from now on."""
    seen: SimpleQueue[tuple[float, dict[str, Any]]] = SimpleQueue()
    client.DataWatch(path, lambda data, *_: seen.put((time.perf_counter(), json.loads(data))))
    seen.get(timeout=_PATIENCE)
    return seen
