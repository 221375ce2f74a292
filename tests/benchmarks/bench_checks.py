"""Measures the checks of a coordinator: a turn that changes nothing, and a push that changes one property.

The reference is the plain way: to read all check instances. The memory is that of a process of its own.
"""

import logging
import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.bench_publish import running_server
from benchmarks.results import Result, Scale, best, seconds
from support.fleets.written import WrittenFleet
from zkdeployment.base import log
from zkdeployment.base.host import Host, Identity
from zkdeployment.checks.daemon import CheckDaemon, build_checks
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create

#: The hosts, each of which runs all services.
_HOSTS = 100

_DOCUMENTS = {
    ("monitoring", ("nagios1",)): {
        "schema": "zkdeployment/MonitoringSystem/v1",
        "metadata": {"name": "nagios1"},
        "data": {},
    },
    ("check", ("tcp",)): {
        "schema": "zkdeployment/CheckConfiguration/v1",
        "metadata": {"name": "tcp"},
        "data": {
            "object": "/shop",
            "monitoring": "nagios1",
            "check": {"command": "check_tcp", "arguments": ["-H", "{host.address}", "-p", "{property.port}"]},
        },
    },
}


def measure(scale: Scale) -> Iterator[Result]:
    """Measure a fleet with the largest number of instances."""
    hosts = min(_HOSTS, scale.large // 10)
    services = scale.large // hosts
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_server(Path(scratch)) as server,
        WrittenFleet(server.address) as fleet,
    ):
        sequence = _publish(fleet, services, {})
        identities = [Identity(f"h{number}", f"h{number}.example.com", "web") for number in range(hosts)]
        fleet.report(*identities)
        fleet.register(*(Host(identity, "r", sequence=sequence) for identity in identities))
        yield from _measure(fleet, server.address, services, hosts, scale.rounds)


def _measure(fleet: WrittenFleet, address: str, services: int, hosts: int, rounds: int) -> Iterator[Result]:
    size = f"{services * hosts:,} instances"
    with coordinator(address) as checks:
        created = seconds(checks.daemon.run_turn)
        yield Result(work="all check instances made for the first time", size=size, value=created)
        everything = best([seconds(checks.read_all) for _ in range(rounds)])
        against = "reading all instances"
        checks.daemon.run_turn()
        nothing = [seconds(checks.daemon.run_turn) for _ in range(rounds)]
        yield Result(
            work="turn of the checks that changes nothing",
            size=size,
            value=best(nothing),
            against=against,
            reference=everything,
            at_least=100,
        )
        pushes = []
        for number in range(rounds):
            _publish(fleet, services, {number: 9000 + number})
            pushes.append(seconds(checks.daemon.run_turn))
        yield Result(
            work="checks after a push that changes one property of one service",
            size=size,
            value=best(pushes),
            against=against,
            reference=everything,
            at_least=2,
        )
    yield from _memory(address, size)


@dataclass(frozen=True)
class LeadingCoordinator:
    """The checks of a coordinator that leads, and its session."""

    daemon: CheckDaemon
    session: Session

    def read_all(self) -> None:
        """Read and decode all instances."""
        for _ in ZooKeeperCheckInstances(self.session).scan():
            pass


@contextmanager
def coordinator(address: str) -> Iterator[LeadingCoordinator]:
    """Yield the checks of a coordinator that leads."""
    with Session(address) as session:
        session.ensure(paths.COORDINATORS)
        node = f"{paths.COORDINATORS}/bench-{session.id}"
        session.commit(Create(node, ephemeral=True))
        daemon, _ = build_checks(session, lambda: node, interval=20.0)
        try:
            yield LeadingCoordinator(daemon, session)
        finally:
            daemon.close()


def _publish(fleet: WrittenFleet, services: int, ports: dict[int, int]) -> int:
    """Publish services on all hosts, all at port 80 but for these."""
    lines = ["/shop"]
    for number in range(services):
        lines += [
            f"  /s{number} : s{number}",
            "    version = '1'",
            f"    port = {ports.get(number, 80)}",
            "    /deploy",
            "      /web",
        ]
    return fleet.publish("r", "\n".join([*lines, ""]), documents=_DOCUMENTS)


def _memory(address: str, size: str) -> Iterator[Result]:
    """Measure the memory of a coordinator that takes over, which reads all instances once."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_take_over, args=(address, there), daemon=True)
    process.start()
    there.close()
    before, present, peak = here.recv()
    process.join()
    for work, value in (
        ("coordinator's memory before its first turn", before),
        ("its memory after it has read all check instances", present),
        ("its peak meanwhile", peak),
    ):
        yield Result(work=work, size=size, value=value, unit="MB")


def _take_over(address: str, pipe: Connection) -> None:
    log.configure()
    logging.getLogger().setLevel(logging.ERROR)
    with coordinator(address) as checks:
        before = _resident("VmRSS")
        checks.daemon.run_turn()
        checks.daemon.run_turn()
        pipe.send((before, _resident("VmRSS"), _resident("VmHWM")))


def _resident(kind: str) -> float:
    """Return the present (``VmRSS``) or peak (``VmHWM``) resident memory of this process, in MB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[kind].split()[0]) / 1024
