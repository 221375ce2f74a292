"""The sources of check instances: documents, services, targets and hosts, shared by threads.

Watches report the changes: while nothing changes, nothing is read.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError
from zkdeployment.base.host import Host
from zkdeployment.base.machine.calls import turn
from zkdeployment.checks.documents import CHECK, ON_CALL, SYSTEM, CheckConfiguration, OnCall
from zkdeployment.checks.rules.spawning import (
    CheckBasis,
    CheckedHost,
    CheckSnapshot,
    checked_hosts,
    service_paths,
    service_properties,
)
from zkdeployment.publishing.store.assignments import read_targets
from zkdeployment.publishing.store.cluster import decode_published, published_revision
from zkdeployment.publishing.store.documents import read_published_documents
from zkdeployment.publishing.store.hosts import decode as decode_inventory
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import FollowedNodes, late_read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.json_values import Properties
    from zkdeployment.checks.ports import CheckSources
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


#: Attempts to read one publication while further publications follow.
_ATTEMPTS = 5


class ZooKeeperCheckSources:
    """The sources through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = FollowedNodes(session, lambda: None)  # the next turn of the life cycle reads soon enough
        self._awaited: frozenset[str] = frozenset()
        self._registered: dict[str, tuple[Node, Host]] = {}
        self._known: dict[str, tuple[Node, KnownHost]] = {}
        self._hosts: Mapping[str, CheckedHost] = {}
        self._published: Node | None = None
        self._outdated = True
        self._follows_hosts = False
        self._snapshot = CheckSnapshot()

    def read(self, awaited: Collection[str] = ()) -> CheckSnapshot:
        self._awaited = frozenset(awaited)
        outdated, self._outdated = self._outdated, True  # the result, unless all of the following succeeds
        changed = self._nodes.refresh(self._wanted)
        targets = self._nodes.node(paths.TARGETS)
        if targets is not self._published and published_revision(targets) is not None:  # none: one is in progress
            self._snapshot = self._read_publication(targets)
            self._published = targets
        if self._follows_hosts != bool(self._snapshot.basis.configurations):
            self._follows_hosts, outdated = not self._follows_hosts, True
            self._nodes.refresh(self._wanted)
        if changed or outdated:
            self._read_hosts()
        if self._snapshot.basis.hosts is not self._hosts:
            self._snapshot = self._snapshot.with_hosts(self._hosts)
        self._outdated = False
        return self._snapshot

    def _wanted(self) -> Iterator[Read]:
        """Yield all reads to follow: no hosts without a check, and inventories of only a few hosts."""
        yield Read(paths.TARGETS)
        if not self._follows_hosts:
            return
        yield Read(paths.HOSTS, children=True)
        yield Read(paths.INVENTORY, children=True)
        yield from (Read(f"{paths.HOSTS}/{name}") for name in self._nodes.children(paths.HOSTS))
        yield from (Read(f"{paths.INVENTORY}/{name}") for name in self._with_inventory())

    def _read_publication(self, targets: Node | None) -> CheckSnapshot:
        """Return the publication that ``targets`` describe, or a later one."""
        for _ in range(_ATTEMPTS):
            if published_revision(targets) is None:
                break
            published = decode_published(targets)
            documents = read_published_documents(self._session, (CHECK.name, SYSTEM.name, ON_CALL.name))
            configurations = {found.name: found for found in documents.of(CHECK).values()}
            basis = self._basis(configurations, documents.of(ON_CALL).values()) if configurations else CheckBasis()
            after = self._session.get(paths.TARGETS)
            if after is not None and targets is not None and after.changed == targets.changed:
                systems = {found.name: found.callback for found in documents.of(SYSTEM).values()}
                return CheckSnapshot(basis, published.effective_since, systems)
            targets = after
        raise ConflictError("the publication changed while it was read; the coordinator tries again")

    def _basis(self, configurations: Mapping[str, CheckConfiguration], duties: Iterable[OnCall]) -> CheckBasis:
        targets = read_targets(self._session, self._session.children(paths.TARGETS) or ())
        services = sorted(
            path
            for path in service_paths(targets)
            if any(configuration.concerns(path) for configuration in configurations.values())
        )
        read: dict[str, Node | None] = dict(zip(services, self._session.get_many(services), strict=True))

        def look(path: str) -> Properties | None:
            """Return the properties of a node; the targets of links are read when they are needed."""
            if path not in read:
                read[path] = self._session.get(path)
            node = read[path]
            return None if node is None else node.properties

        properties = service_properties(look, services)
        return CheckBasis(configurations, targets, properties, duties={duty.path: duty for duty in duties})

    def _read_hosts(self) -> None:
        """Decode the hosts whose nodes have changed.

        Raises ``ConflictError`` if ever more hosts registered or left, so that not all nodes were read.
        """
        registered = self._read_below(paths.HOSTS, self._nodes.existing(paths.HOSTS))
        inventories = self._nodes.existing(paths.INVENTORY) & self._with_inventory()
        self._registered = {
            name: known if known is not None and known[0] is node else (node, _host(name, node))
            for name, node in registered.items()
            for known in (self._registered.get(name),)
        }
        self._known = {
            name: known if known is not None and known[0] is node else (node, decode_inventory(name, node.data))
            for name, node in self._read_below(paths.INVENTORY, inventories).items()
            for known in (self._known.get(name),)
        }
        hosts = checked_hosts(
            (host for _, host in self._registered.values()), (known for _, known in self._known.values())
        )
        if hosts != self._hosts:
            self._hosts = hosts

    def _read_below(self, directory: str, names: Collection[str]) -> dict[str, Node]:
        nodes = {name: node for name in names if (node := self._nodes.node(f"{directory}/{name}")) is not None}
        if len(nodes) < len(names):
            raise ConflictError("hosts registered or left while all hosts were read; try again")
        return nodes

    def _with_inventory(self) -> frozenset[str]:
        """Return the hosts whose inventories are followed: absent hosts and awaited hosts."""
        absent = frozenset(self._nodes.children(paths.INVENTORY)) - self._nodes.existing(paths.HOSTS)
        return absent | self._awaited


def _host(name: str, node: Node) -> Host:
    return Host.from_properties(name, node.properties)


#: Seconds that a thread waits for the read of another thread.
_PATIENCE = 5.0


class SharedCheckSources:
    """The sources of another ``CheckSources``, for any thread."""

    def __init__(self, sources: CheckSources) -> None:
        self._sources = sources
        self._lock = threading.Lock()

    def read(self, awaited: Collection[str] = ()) -> CheckSnapshot:
        with turn(self._lock, _PATIENCE, late_read):
            return self._sources.read(awaited)
