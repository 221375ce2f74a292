"""Compares publishing a tree and reading a host's targets with a node-by-node baseline and with lower bounds.

All measurements use one ZooKeeper. The baseline pauses at regular intervals; zkdeployment is measured in these
pauses. The baseline receives the parsed tree. The measurement of zkdeployment covers the syncer's complete
cycle on a real repository that was fetched before: reading blobs, parsing, checking, compiling the targets,
comparing and writing.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from kazoo.client import KazooClient

from benchmarks.baseline import create_in_transactions, delete_in_transactions, deployments_of, import_tree
from benchmarks.fleets import FleetRepository, fleet_text, host_name, make_syncer
from benchmarks.results import Result, Scale, best, interleaved, middle, seconds
from support.zookeeper import connected
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.host import Identity
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.ports import PublicationSigner
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.sandbox.zookeeper import ZooKeeperServer, find_installation
from zkdeployment.tree.parse import parse_bytes
from zkdeployment.tree.values import Tree
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Check

#: The nodes of a tree that counts as large: its text alone takes milliseconds to read.
_LARGE = 10_000


def measure(scale: Scale) -> Iterator[Result]:
    """Measure a tree of each size."""
    for hosts in scale.hosts:
        with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
            yield from _measure(hosts, scale.rounds, Path(scratch), server)


@contextmanager
def running_server(directory: Path) -> Iterator[ZooKeeperServer]:
    """Run a ZooKeeper server for the duration of the context."""
    server = ZooKeeperServer(find_installation(), directory / "zookeeper")
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Fetched:
    """A source that fetches in advance, so that measurements exclude git's transport."""

    def __init__(self, source: GitSource) -> None:
        self._source = source
        self.update()

    def update(self) -> None:
        """Fetch the tip for later calls of ``fetch``."""
        self._tip = self._source.fetch()

    def fetch(self) -> object:
        """Return the tip that was fetched in advance."""
        return self._tip

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class Side:
    """A zkdeployment syncer with its own ZooKeeper chroot, which signs publications with ``signer``."""

    def __init__(
        self,
        server: ZooKeeperServer,
        chroot: str,
        repository: FleetRepository,
        directory: Path,
        signer: PublicationSigner | None = None,
    ) -> None:
        self.signer = signer
        self.signed = None if signer is None else directory / "signed"
        self.repository = repository
        self.source = Fetched(GitSource(repository.url, directory / "mirror"))
        self.session = Session(f"{server.address}/{chroot}", create_chroot=True)
        self.session.open()
        self.syncer = self.fresh()

    def fresh(self) -> Syncer:
        """Return a syncer with empty caches, like the syncer of a newly started command."""
        return make_syncer(self.source, self.session, self.signer, self.signed)

    def change(self, syncer: Syncer, *, fetch: bool = False) -> float:
        """Push a change of one property; return the seconds its publication takes."""
        self.repository.push()
        if not fetch:
            return self.publish(syncer)

        def fetch_and_sync() -> None:
            self.source.update()
            syncer.sync()

        return seconds(fetch_and_sync)

    def publish(self, syncer: Syncer) -> float:
        """Fetch the tip; return the seconds its publication takes."""
        self.source.update()
        return seconds(syncer.sync)

    def operations(self) -> list[int]:
        """Publish a change of one property; return the number of nodes that each transaction writes."""
        written: list[int] = []
        begin = self.session.begin

        def counted(*operations: Any) -> Callable[[], None]:
            if any(operation.path == "/hosts" for operation in operations):
                written.append(sum(not isinstance(operation, Check) for operation in operations))
            return begin(*operations)

        with mock.patch.object(self.session, "begin", counted):
            self.change(self.syncer)
        return written


def _measure(hosts: int, rounds: int, scratch: Path, server: ZooKeeperServer) -> Iterator[Result]:
    tree = parse_bytes("fleet.zk", fleet_text(hosts).encode()).tree
    changed = parse_bytes("fleet.zk", fleet_text(hosts, version="2.0").encode()).tree
    size = f"{len(tree):,} nodes"
    repository = FleetRepository(scratch / "repository", hosts)
    repository.push()
    with connected(server.address) as root:
        for chroot in ("baseline", "floor"):
            root.create(f"/{chroot}")
    with connected(f"{server.address}/baseline") as old, connected(f"{server.address}/floor") as bare:
        floors: list[float] = []
        imports: list[float] = []
        sides: list[Side] = []

        def import_both() -> None:
            floors.append(seconds(lambda: create_in_transactions(bare, tree)))
            delete_in_transactions(bare, tree)
            if sides:
                discard(sides[-1], tree)
            sides.append(Side(server, f"ours{len(sides)}", repository, scratch))
            imports.append(seconds(sides[-1].syncer.sync))

        old_import = interleaved(import_tree(old, tree), len(tree), import_both, rounds)
        side, full = sides[-1], best(imports)
        yield Result(
            work="full import", size=size, value=full, against="node by node", reference=old_import, at_least=55
        )
        yield Result(
            work="full import",
            size=size,
            value=full,
            against="bare transactions of 500 creates",
            reference=best(floors),
            at_most=0.9,
        )
        yield from _changes(side, size, rounds, import_tree(old, changed), len(changed))
        yield from _reading(side, size, rounds, old)
    side.session.close()


def discard(side: Side, tree: Tree) -> None:
    """Remove the nodes that a side published, so that the server has room for the next tree."""
    side.session.close()
    with connected(side.session.connection) as client:
        delete_in_transactions(client, tree)
        for parent in ("/zkdeployment/targets", "/zkdeployment/signed"):
            names = client.get_children(parent) if client.exists(parent) else []
            delete_in_transactions(client, Tree({f"{parent}/{name}": {} for name in names}))


def _changes(side: Side, size: str, rounds: int, steps: Iterable[object], count: int) -> Iterator[Result]:
    work = "one property changed"
    floors: list[float] = []
    requests: list[float] = []
    warm: list[float] = []
    cold: list[float] = []
    fetched: list[float] = []

    def change_all() -> None:
        floors.append(seconds(lambda: _two_writes(client)))
        requests.append(seconds(lambda: _bare_requests(client)))
        warm.append(side.change(side.syncer))
        cold.append(side.change(side.fresh()))
        side.change(side.syncer)  # refreshes the cache of the running syncer before the next measurement
        fetched.append(side.change(side.syncer, fetch=True))

    with connected(side.session.connection) as client:
        old_change = interleaved(steps, count, change_all, rounds * 2)
    for change, value, at_least in (
        (f"{work}, syncer running", best(warm), 100),
        (f"{work}, syncer just started", best(cold), 150),
        (f"{work}, git fetch included", best(fetched), 100),
    ):
        yield Result(
            work=change, size=size, value=value, against="node by node", reference=old_change, at_least=at_least
        )
    for against, references, at_most in (
        ("bare transaction of two writes", floors, 5 if count < _LARGE else 7),
        ("its requests to ZooKeeper, bare", requests, None),
    ):
        yield Result(
            work=f"{work}, syncer running: median",
            size=size,
            value=middle(warm),
            against=against,
            reference=middle(references),
            at_most=at_most,
        )
    sizes = side.operations()
    yield Result(work=f"{work}: transactions", size=size, value=len(sizes), unit="")
    yield Result(work=f"{work}: nodes written", size=size, value=sum(sizes), unit="")


def _bare_requests(client: KazooClient) -> None:
    """Send the necessary requests of a publication: read, lock, read the changing nodes, write and release."""
    client.get("/hosts")
    client.get_children("/hosts")
    contender = client.create_async("/hosts-lock/bare", ephemeral=True, sequence=True)
    client.get_children("/hosts-lock")
    client.get("/databases/customer0")
    client.get("/zkdeployment/targets")
    _two_writes(client, contender.get())


def _two_writes(client: KazooClient, lock: str | None = None) -> None:
    transaction = client.transaction()
    transaction.set_data("/databases", b"")
    transaction.set_data("/databases/customer0", b"")
    if lock is not None:
        transaction.delete(lock)
    transaction.commit()


def _reading(side: Side, size: str, rounds: int, old: KazooClient) -> Iterator[Result]:
    fleet = ZooKeeperFleet(side.session)
    cluster = fleet.cluster(Identity("id0", host_name(0)))
    assert cluster is not None
    assert cluster.revision is not None
    revision = cluster.revision
    identity = Identity("id0", host_name(0))
    target = f"/zkdeployment/targets/{identity.name}"
    ours: list[float] = []
    floors: list[float] = []
    with connected(side.session.connection) as client:
        for _ in range(rounds * 2):
            floors.append(seconds(lambda: [client.get(path) for path in ("/hosts", target, "/hosts")]))
            ours.append(seconds(lambda: fleet.wanted(identity, revision)))
        old_walk = seconds(lambda: deployments_of(old, identity.name))
        for _ in range(rounds * 2):
            floors.append(seconds(lambda: [client.get(path) for path in ("/hosts", target, "/hosts")]))
            ours.append(seconds(lambda: fleet.wanted(identity, revision)))
    work = "what one host is to run"
    value = best(ours)
    yield Result(work=work, size=size, value=value, against="walk of the tree", reference=old_walk, at_least=100)
    yield Result(work=work, size=size, value=value, against="three bare reads", reference=best(floors))
