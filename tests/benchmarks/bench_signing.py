"""Compares publications that are signed, and reads of them, with those that are not, on one ZooKeeper."""

import gc
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.bench_publish import Side, discard, running_server
from benchmarks.fleets import FleetRepository, fleet_text, host_name
from benchmarks.results import Result, Scale, best, seconds
from support.keys import make_key, make_publishers
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.host import Identity
from zkdeployment.programs.host_trust import trusted_publications
from zkdeployment.publishing.keys import PublisherKeysFile, PublishKey, sign_text
from zkdeployment.publishing.signing.statement import NAMESPACE, SignedStatement, Statement
from zkdeployment.sandbox.zookeeper import ZooKeeperServer
from zkdeployment.tree.parse import parse_bytes
from zkdeployment.zookeeper import paths

#: The most that a signed publication may cost, as a multiple of one without a signature: of a whole tree, and of
#: one property.
_AT_MOST, _AT_MOST_SMALL = 1.1, 1.35


def measure(scale: Scale) -> Iterator[Result]:
    """Measure the smallest tree; repeated imports of larger ones fill the memory of the server."""
    for hosts in scale.hosts[:1]:
        with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
            yield from _measure(hosts, scale.rounds, Path(scratch), server)


def _measure(hosts: int, rounds: int, scratch: Path, server: ZooKeeperServer) -> Iterator[Result]:
    tree = parse_bytes("fleet.zk", fleet_text(hosts).encode()).tree
    size = f"{len(tree):,} nodes"
    key = PublishKey(make_key(scratch / "key"))
    repository = FleetRepository(scratch / "repository", hosts)
    repository.push()
    sides: dict[bool, Side] = {}
    imports, changes = _Costs(), _Costs()
    for number in range(rounds):
        for signed in (False, True) if number % 2 else (True, False):
            if signed in sides:
                discard(sides[signed], tree)
            signer = key if signed else None
            sides[signed] = Side(server, f"side{number}{signed}", repository, scratch / f"{signed}", signer)
            imports.measure(sides[signed], signed=signed)
    yield from imports.results("whole tree published, signed", size, _AT_MOST)
    programs: list[float] = []
    statement = Statement(1, 1, "revision", None, {f"{number:02x}": "0" * 64 for number in range(256)}).to_text()
    for number in range(rounds * 4):
        repository.push()
        for signed in (False, True) if number % 2 else (True, False):
            sides[signed].source.update()
            changes.measure(sides[signed], signed=signed)
        programs.append(seconds(partial(sign_text, scratch / "key", NAMESPACE, statement)))
    yield from changes.results("one property changed, signed", size, _AT_MOST_SMALL)
    yield Result(work="one property changed: ssh-keygen alone", size=size, value=best(programs))
    yield Result(
        work="one property changed, signed",
        size=size,
        value=best(changes.wall[True]),
        against="not signed, then ssh-keygen alone",
        reference=best(changes.wall[False]) + best(programs),
        at_most=_AT_MOST,
    )
    yield from _reading(sides[True], size, scratch, rounds * 4)
    for side in sides.values():
        side.session.close()


@dataclass(frozen=True, slots=True)
class _Costs:
    """The seconds that publications took with and without a signature, and the processor time of this process.

    The processor time of ``ssh-keygen``, a process of its own, is not part of it.
    """

    wall: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})
    processor: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})

    def measure(self, side: Side, *, signed: bool) -> None:
        """Publish the tip that was fetched."""
        gc.collect()
        processor, start = time.process_time(), time.perf_counter()
        side.syncer.sync()
        self.wall[signed].append(time.perf_counter() - start)
        self.processor[signed].append(time.process_time() - processor)

    def results(self, work: str, size: str, at_most: float) -> Iterator[Result]:
        """Yield the whole time, and the processor time of the syncer."""
        for what, costs in (("", self.wall), (": processor time of the syncer", self.processor)):
            yield Result(
                work=f"{work}{what}",
                size=size,
                value=best(costs[True]),
                against="not signed",
                reference=best(costs[False]),
                at_most=at_most,
            )


def _reading(side: Side, size: str, scratch: Path, rounds: int) -> Iterator[Result]:
    """Measure the reads of a publication by an agent with publishers, the first time and again."""
    publishers = make_publishers(scratch / "publishers", scratch / "key")
    fleet, identity = ZooKeeperFleet(side.session), Identity("id0", host_name(0))
    cluster, node = fleet.cluster(identity), side.session.get(paths.SIGNED)
    assert cluster is not None
    assert cluster.revision is not None
    assert node is not None
    signed, revision = SignedStatement.from_data(node.data), cluster.revision
    first: list[float] = []
    again: list[float] = []
    unsigned: list[float] = []
    programs: list[float] = []
    for _ in range(rounds):
        trusted = trusted_publications(publishers, side.session, root=scratch / "root", run=scratch / "run")
        read = partial(trusted.targets, identity, revision)
        first.append(seconds(read))
        again.append(seconds(read))
        unsigned.append(seconds(partial(fleet.wanted, identity, revision)))
        keys = PublisherKeysFile(publishers)  # which has verified nothing yet
        programs.append(seconds(partial(keys.verify, signed)))
    for work, values, against, references, at_most in (
        ("what one host is to run, verified", first, "ssh-keygen alone", programs, 1.5),
        ("what one host is to run, verified before", again, "not signed", unsigned, None),
    ):
        yield Result(
            work=work,
            size=size,
            value=best(values),
            against=against,
            reference=best(references),
            at_most=at_most,
        )
