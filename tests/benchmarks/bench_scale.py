"""Measures what one ensemble carries: bytes of a publication, watches and memory of many sessions, and observers.

The bytes are those that the kernel counted on the connections, so the load of the machine has no influence. The
sessions are raw protocol sessions in a process of their own, each with a watch on ``/hosts``, as an agent has one.
"""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from benchmarks.bench_publish import Fetched, running_server
from benchmarks.bench_watches import watching
from benchmarks.fleets import FleetRepository, host_name, make_syncer
from benchmarks.results import Result, Scale, middle, seconds
from support.zookeeper import connected
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.host import Identity
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.sandbox.zookeeper import ZooKeeperServer, find_installation, free_port
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kazoo.client import KazooClient

#: Writes of each kind of ensemble, in each round.
_WRITES = 200


def measure(scale: Scale) -> Iterator[Result]:
    """Measure each size of a fleet, and ensembles with voters and observers."""
    for hosts in dict.fromkeys((*scale.hosts, *scale.watchers)):
        with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
            yield from _publication(Path(scratch), server, hosts)
            yield from _sessions(server, hosts)
    yield from _observers(scale.rounds)


def _publication(scratch: Path, server: ZooKeeperServer, hosts: int) -> Iterator[Result]:
    """Measure the bytes of publications of a tree for so many hosts, and those that one host reads."""
    repository = FleetRepository(scratch / "repository", hosts)
    repository.push()
    source = Fetched(GitSource(repository.url, scratch / "mirror"))
    size = f"{hosts:,} hosts"
    with Session(server.address) as session:
        syncer = make_syncer(source, session)
        before = _traffic(server)
        syncer.sync()
        yield Result(work="bytes of a full import", size=size, value=_kilobytes(before, server), unit="kB")
        repository.push()
        source.update()
        before = _traffic(server)
        syncer.sync()
        work = "bytes of a publication, one property"
        yield Result(work=work, size=size, value=_kilobytes(before, server), unit="kB")
        fleet = ZooKeeperFleet(session)
        cluster = fleet.cluster()
        assert cluster is not None
        assert cluster.revision is not None
        before = _traffic(server)
        fleet.wanted(Identity("id0", host_name(0)), cluster.revision)
        yield Result(work="bytes that a host reads", size=size, value=_kilobytes(before, server), unit="kB")


def _sessions(server: ZooKeeperServer, count: int) -> Iterator[Result]:
    """Measure a server with so many sessions, each with a watch that fires."""
    assert server.pid is not None
    size = f"{count:,} sessions"
    process = psutil.Process(server.pid)
    alone = process.memory_info().rss
    with watching(server.address, count) as fan_out, connected(server.address) as client:
        before = _traffic(server)
        fan_out(lambda: client.set("/hosts", client.get("/hosts")[0]))
        each = 1000 * _kilobytes(before, server) / count
        watches = int(re.findall(r"zk_watch_count\s+(\d+)", _ask(server, "mntr"))[0])
        more = (process.memory_info().rss - alone) / 2**20
    yield Result(work="watches of sessions", size=size, value=watches, unit="")
    yield Result(work="bytes of a fired and renewed watch", size=size, value=each, unit="B")
    yield Result(work="server's memory for sessions", size=size, value=more, unit="MB")


def _observers(rounds: int) -> Iterator[Result]:
    """Measure a write through a follower of three voters, of five, and of three with two observers, in turns."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        ensembles = [
            stack.enter_context(_ensemble(Path(scratch), voters, observers))
            for voters, observers in ((3, 0), (5, 0), (3, 2))
        ]
        addresses = [*(ensemble[0] for ensemble in ensembles), ensembles[2][-1]]
        clients = [stack.enter_context(connected(address)) for address in addresses]
        taken: list[list[float]] = [[] for _ in clients]
        for client in clients[:3]:
            client.create("/written", b"x" * 100)
        for _ in range(1 + 2 * rounds):
            for client, times in zip(clients, taken, strict=True):
                times.append(seconds(partial(_write, client)) / _WRITES)
    three, *others = (middle(times[1:]) for times in taken)  # the first round warms the servers
    sizes = ("five voters", "three voters, two observers", "the same, through an observer")
    for size, value in zip(sizes, others, strict=True):
        yield Result(work="a write", size=size, value=value, against="three voters", reference=three)


def _write(client: KazooClient) -> None:
    for _ in range(_WRITES):
        client.set("/written", b"x" * 100)


@contextmanager
def _ensemble(scratch: Path, voters: int, observers: int) -> Iterator[list[str]]:
    """Run an ensemble, and yield the addresses of its servers, the observers last."""
    installation = find_installation()
    numbers = range(1, voters + observers + 1)
    addresses = {
        number: f"127.0.0.1:{free_port()}:{free_port()}" + (":observer" if number > voters else "")
        for number in numbers
    }
    servers = [
        ZooKeeperServer(
            installation,
            scratch / f"{voters}-{observers}-{number}",
            number=number,
            ensemble=addresses,
            more=("peerType=observer",) if number > voters else (),
        )
        for number in numbers
    ]
    try:
        for server in servers:
            server.start(wait=False)
        for server in servers:
            server.wait()
        yield [server.address for server in servers]
    finally:
        for server in servers:
            server.kill()


def _traffic(server: ZooKeeperServer) -> int:
    """Return the bytes that the kernel counted on all connections of clients of a server, in both directions."""
    listing = subprocess.run(
        ["ss", "-tinH", "state", "established", "dport", "=", f":{server.port}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return sum(int(number) for number in re.findall(r"bytes_(?:sent|received):(\d+)", listing.stdout))


def _kilobytes(before: int, server: ZooKeeperServer) -> float:
    return (_traffic(server) - before) / 1000


def _ask(server: ZooKeeperServer, word: str) -> str:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(word.encode())
        return connection.makefile("rb").read().decode()
