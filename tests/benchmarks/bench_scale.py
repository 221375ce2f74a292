"""Measures what one ensemble carries: bytes of a publication, watches and memory of many sessions, and observers.

The bytes are those that the kernel counted on the connections, so the load of the machine has no influence. The
sessions are raw protocol sessions in processes of their own, each with a watch on ``/hosts``, as an agent has one;
the agents of a sandbox are real.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from benchmarks.bench_publish import Fetched, running_server
from benchmarks.bench_watches import watching
from benchmarks.fleets import FleetRepository, host_name, make_syncer
from benchmarks.results import Result, Scale, middle, seconds
from support.zookeeper import connected, ensemble_addresses
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.host import Identity
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.sandbox import samples
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.layout import SandboxDescription, numbered
from zkdeployment.sandbox.zookeeper import ZooKeeperServer, find_installation
from zkdeployment.sandbox.zookeeper import servers as servers_of
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kazoo.client import KazooClient

#: Writes to each ensemble in a turn. Other work on the machine concerns the writes of one short turn equally, so
#: the ratio within a turn is more certain than the seconds.
_WRITES = 20

#: The time limit of a deployment in seconds.
_PATIENCE = 600.0


def measure(scale: Scale) -> Iterator[Result]:
    """Measure each size of a fleet, many sessions, real agents, and ensembles with voters and observers."""
    for hosts in scale.carried:
        with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
            yield from _publication(Path(scratch), server, hosts)
            yield from _sessions([server], hosts, f"{hosts:,} sessions")
    for sessions in scale.spread:
        with tempfile.TemporaryDirectory() as scratch, _ensemble(Path(scratch), 3, 0) as servers:
            with connected(servers[0].address) as client:
                client.create("/hosts", json.dumps({"version": "0" * 40}).encode())
            yield from _sessions(servers, sessions, f"{sessions:,} sessions, three servers")
    yield from _agents(scale.real)
    yield from _observers(scale.rounds, scale.turns)


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
        cluster = fleet.cluster(Identity("id0", host_name(0)))
        assert cluster is not None
        assert cluster.revision is not None
        before = _traffic(server)
        fleet.wanted(Identity("id0", host_name(0)), cluster.revision)
        yield Result(work="bytes that a host reads", size=size, value=_kilobytes(before, server), unit="kB")


def _sessions(servers: Sequence[ZooKeeperServer], count: int, size: str) -> Iterator[Result]:
    """Measure servers that share so many sessions, each with a watch that fires; the memory is the largest one."""
    before = [_memory(server) for server in servers]
    addresses = ",".join(server.address for server in servers)
    with watching(addresses, count) as fan_out, connected(servers[0].address) as client:
        sent = sum(map(_traffic, servers))
        fan_out(lambda: client.set("/hosts", client.get("/hosts")[0]))
        each = (sum(map(_traffic, servers)) - sent) / count
        watches = sum(_counted(server, "zk_watch_count") for server in servers)
        more = max(_memory(server) - alone for server, alone in zip(servers, before, strict=True))
    yield Result(work="watches of sessions", size=size, value=watches, unit="")
    yield Result(work="bytes of a fired and renewed watch", size=size, value=each, unit="B")
    yield Result(work="server's memory without sessions", size=size, value=max(before), unit="MB")
    yield Result(work="server's memory for sessions", size=size, value=more, unit="MB")


def _agents(count: int) -> Iterator[Result]:
    """Measure a sandbox with so many real agents: a publication that concerns none of them, and a deployment."""
    hosts = numbered(count)
    identities = [host.identity for host in hosts]
    size = f"{count:,} real agents"
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch, ExitStack() as stack:
        sandbox = Sandbox(Path(scratch) / "sandbox")
        sandbox.up(hosts)
        stack.callback(sandbox.down)
        (Path(scratch) / "packages").mkdir()
        sandbox.add_rpms(samples.build(Path(scratch) / "packages"))
        (server,) = servers_of(sandbox.layout, SandboxDescription.load(sandbox.layout.description).ports)

        def deploy(text: str) -> float:
            """Push a tree, and return the bytes a host until all have it, without those of idle sessions."""
            (Path(scratch) / "tree").mkdir(exist_ok=True)
            (Path(scratch) / "tree" / "demo.zk").write_text(text, encoding="utf-8")
            start, before = time.monotonic(), _traffic(server)
            revision = sandbox.push(Path(scratch) / "tree", "A change")
            files = [Path(host["run-directory"]) / "host_version" for host in sandbox.status()["hosts"].values()]
            while not all(file.exists() and json.loads(file.read_bytes()) == revision for file in files):
                if time.monotonic() > start + _PATIENCE:
                    raise TimeoutError("the agents do not deploy the tree")
                time.sleep(0.2)
            return (_traffic(server) - before - idle * (time.monotonic() - start)) / count

        idle = 0.0
        deploy(samples.tree(identities))
        idle = _idle_rate(server, seconds=count)
        sessions, watches = _ask(server, "cons").count("sid="), _counted(server, "zk_watch_count")
        unconcerned = deploy(samples.tree(identities) + "\n/other\n  color = 'red'\n")
        concerned = deploy(samples.tree(identities, version="1.1"))
    yield Result(work="sessions of a fleet", size=size, value=sessions, unit="")
    yield Result(work="watches of a fleet", size=size, value=watches, unit="")
    yield Result(work="publication that concerns no host, a host", size=size, value=unconcerned / 1000, unit="kB")
    yield Result(work="deployment of a new version, a host", size=size, value=concerned / 1000, unit="kB")


def _idle_rate(server: ZooKeeperServer, *, seconds: float) -> float:
    """Return the bytes a second on the connections of a server, over so many seconds."""
    start, before = time.monotonic(), _traffic(server)
    time.sleep(seconds)
    return (_traffic(server) - before) / (time.monotonic() - start)


def _observers(rounds: int, turns: int) -> Iterator[Result]:
    """Measure a write through a follower of three voters, of five, and of three with two observers, in turns."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        ensembles = [
            stack.enter_context(_ensemble(Path(scratch), voters, observers))
            for voters, observers in ((3, 0), (5, 0), (3, 2))
        ]
        measured = [*map(_follower, ensembles), ensembles[2][-1]]
        clients = [stack.enter_context(connected(server.address)) for server in measured]
        taken: list[list[float]] = [[] for _ in clients]
        for client in clients[:3]:
            client.create("/written", b"x" * 100)
        for client in clients * turns:
            _write(client)  # warms the servers
        turn = list(zip(clients, taken, strict=True))
        for _ in range(rounds * turns):
            turn.reverse()
            for client, times in turn:
                times.append(seconds(partial(_write, client)) / _WRITES)
    three, *others = taken
    sizes = ("five voters", "three voters, two observers", "the same, through an observer")
    for size, times in zip(sizes, others, strict=True):
        ratio = middle([time / reference for time, reference in zip(times, three, strict=True)])
        reference = middle(three)
        yield Result(
            work="a write", size=size, value=ratio * reference, against="three voters", reference=reference
        )


def _follower(ensemble: Sequence[ZooKeeperServer]) -> ZooKeeperServer:
    """Return a voter that is not the leader."""
    return next(server for server in ensemble if "Mode: follower" in _ask(server, "srvr"))


def _write(client: KazooClient) -> None:
    for _ in range(_WRITES):
        client.set("/written", b"x" * 100)


@contextmanager
def _ensemble(scratch: Path, voters: int, observers: int) -> Iterator[list[ZooKeeperServer]]:
    """Run an ensemble, which grants sessions as long as ZooKeeper does by default; yield the observers last."""
    installation = find_installation()
    numbers = range(1, voters + observers + 1)
    addresses = {
        number: address + (":observer" if number > voters else "")
        for number, address in ensemble_addresses(voters + observers).items()
    }
    servers = [
        ZooKeeperServer(
            installation,
            scratch / f"{voters}-{observers}-{number}",
            number=number,
            ensemble=addresses,
            more=("maxSessionTimeout=40000", *(["peerType=observer"] if number > voters else [])),
        )
        for number in numbers
    ]
    try:
        for server in servers:
            server.start(wait=False)
        for server in servers:
            server.wait()
        yield servers
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


def _memory(server: ZooKeeperServer) -> float:
    """Return the resident memory of a server's process in MB."""
    assert server.pid is not None
    return psutil.Process(server.pid).memory_info().rss / 2**20


def _counted(server: ZooKeeperServer, name: str) -> int:
    (number,) = re.findall(rf"{name}\s+(\d+)", _ask(server, "mntr"))
    return int(number)


def _ask(server: ZooKeeperServer, word: str) -> str:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(word.encode())
        return connection.makefile("rb").read().decode()
