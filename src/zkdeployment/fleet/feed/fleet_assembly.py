"""Assembles the reading of the fleet from followed nodes, and the cached fleet that a service keeps in memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import unquote

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.features import installed
from zkdeployment.base.host import Host
from zkdeployment.base.log import get_logger
from zkdeployment.fleet.daemon_failures import failure_of
from zkdeployment.fleet.feed.services_assembly import ServicesAssembly
from zkdeployment.fleet.places import FleetPlaces
from zkdeployment.fleet.views.instances import NO_SERVICES, ServicesSnapshot
from zkdeployment.fleet.views.snapshot import FleetSnapshot, completed_revisions
from zkdeployment.fleet.views.status import FleetStatus, fleet_status
from zkdeployment.publishing.store.cluster import (
    cluster_of,
    decode_published,
    group_stop_of,
    published_revision,
    stop_of,
)
from zkdeployment.publishing.store.history import publication_of
from zkdeployment.publishing.store.hosts import decode as decode_inventory
from zkdeployment.publishing.store.maintenance import in_force, maintenance_of
from zkdeployment.publishing.store.requests import current_refusal, disappeared_of, report_of, request_of
from zkdeployment.strategies.store.agent_records import current_id
from zkdeployment.strategies.store.records import decode_state
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import contender, queued
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import DecodedNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.publication import Published, Targets
    from zkdeployment.fleet.events.event import FleetEvent
    from zkdeployment.publishing.records import PublicationRecord, SyncerReport
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.shared_nodes import FollowedNodes


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class PartAssembly(Protocol[T_co]):
    """The part of a feature, as followed nodes describe it."""

    def wanted(self) -> Iterator[Read]:
        """Yield everything that has to be followed, as far as the nodes read so far show it."""

    def reading(self) -> T_co:
        """Return the part: the same object if nothing of it has changed."""


@dataclass(frozen=True, slots=True)
class FeedPart(Generic[T]):
    """The contribution of a feature to the readings of the fleet.

    ``empty`` is its value while nothing is known. ``assemble`` returns the assembly of its value from followed
    nodes. ``events`` returns the events that lead from one value to the next.
    """

    name: str
    empty: T
    assemble: Callable[[FollowedNodes], PartAssembly[T]]
    events: Callable[[T, T], Iterable[FleetEvent]]


def feed_parts() -> Iterator[FeedPart[Any]]:
    """Yield the parts of the installed features."""
    for places in installed(FleetPlaces):
        yield from places.feed_parts()


@dataclass(frozen=True)
class FleetReading:
    """The fleet in one reading of ZooKeeper.

    ``started`` and ``finished`` are the last transactions of ZooKeeper (zxids) that the service knew of when the
    reading started and when it was finished: the reading contains every change up to ``started`` and none after
    ``finished``. ``sequence`` is that of the last publication, 0 before the first one. ``number`` counts the
    readings of this service in which something changed. ``parts`` are the parts of the features, by name.
    """

    fleet: FleetSnapshot = field(default_factory=FleetSnapshot)
    started: int = 0
    finished: int = 0
    number: int = 0
    sequence: int = 0
    syncer: SyncerReport | None = None
    services: ServicesSnapshot = NO_SERVICES
    parts: Mapping[str, Any] = field(default_factory=dict)

    def of(self, part: FeedPart[T]) -> T:
        """Return the part of a feature."""
        found: T = self.parts.get(part.name, part.empty)
        return found

    @property
    def governing_records(self) -> tuple[Any, ...]:
        """The records of the documents that govern services."""
        return tuple(record for places in installed(FleetPlaces) for record in places.governing_records(self))

    @cached_property
    def status(self) -> FleetStatus:
        """The status of the whole fleet, computed at the first use and then kept, because many clients use it."""
        return fleet_status(self.fleet, syncer=self.syncer, services=self.services)

    @property
    def present_sequence(self) -> int:
        """The sequence of the last publication if hosts have to deploy it; 0 if a version was set by hand."""
        return self.sequence if str(self.status.wanted) == str(self.fleet.published) else 0

    @property
    def last_over(self) -> int:
        """The sequence of the last publication that is over: hosts have it, or deploy a later one."""
        return (self.present_sequence if self.status.deployed else 0) or self.fleet.since - 1


@dataclass(frozen=True, slots=True)
class CachedFleet:
    """The last reading, and whether it is current.

    ``read_at`` is when ZooKeeper last confirmed the reading, in seconds since the epoch: while the service is
    ``connected``, that time is at most a few seconds ago. Without ZooKeeper, the last reading stays and gets
    older. ``zxid`` is the last transaction of ZooKeeper that the reading certainly contains.
    """

    reading: FleetReading
    read_at: float
    zxid: int
    connected: bool

    @property
    def fleet(self) -> FleetSnapshot:
        """The snapshot that ``status``, ``why`` and the pages are based on."""
        return self.reading.fleet

    @property
    def status(self) -> FleetStatus:
        """The status of the whole fleet."""
        return self.reading.status


_NODES = (
    paths.HOSTS,
    paths.TARGETS,
    paths.REQUEST,
    paths.ROLLOUTS,
    paths.SYNCER,
    paths.REFUSALS,
)
_LISTS = (
    paths.HOSTS,
    paths.TARGETS,
    paths.STOPS,
    paths.INVENTORY,
    paths.OUT_OF_SERVICE,
    paths.COORDINATORS,
    paths.FAILURES,
    paths.GROUP_STOPS,
    paths.MAINTENANCE,
)

#: The nodes below these are followed, too.
_FOLLOWED = (
    paths.HOSTS,
    paths.STOPS,
    paths.OUT_OF_SERVICE,
    paths.FAILURES,
    paths.GROUP_STOPS,
    paths.MAINTENANCE,
)


class FleetAssembly:
    """The fleet in followed nodes: the same values as ``ZooKeeperFleetReader`` reads at one moment."""

    def __init__(self, nodes: FollowedNodes, targets: Callable[[Node | None], Targets]) -> None:
        """``targets`` returns the published targets below their parent node."""
        self._nodes = nodes
        self._decoded = DecodedNodes(nodes)
        self._services = ServicesAssembly(nodes, targets)
        self._parts = {part.name: part.assemble(nodes) for part in feed_parts()}
        self._names: tuple[object, frozenset[str]] = ((), frozenset())
        self._absent: tuple[KnownHost, ...] = ()

    def wanted(self) -> Iterator[Read]:
        """Yield everything that has to be followed, as far as the nodes read so far show it."""
        yield from (Read(path) for path in _NODES)
        yield from (Read(path, children=True) for path in _LISTS)
        for directory in _FOLLOWED:
            yield from (Read(f"{directory}/{name}") for name in self._nodes.children(directory))
        yield from (Read(f"{paths.INVENTORY}/{name}") for name in self._absent_ids())
        completed = {host.completed for host in self._absent_hosts() if host.completed is not None}
        last = decode_published(self._nodes.node(paths.TARGETS)).sequence
        yield from (Read(paths.history_path(sequence)) for sequence in sorted({last, *completed}))
        current = current_id(self._nodes.node(paths.ROLLOUTS))
        if current is not None and "/" not in current:
            yield Read(paths.rollout_path(current))
        yield from (Read(f"{paths.COORDINATORS}/{name}") for name in self._leaders())
        yield from self._services.wanted(self._judged())
        for part in self._parts.values():
            yield from part.wanted()

    def reading(self, *, started: int, finished: int, number: int) -> FleetReading:
        """Return the reading; ``started``, ``finished`` and ``number`` as in ``FleetReading``."""
        hosts, targets = self._nodes.node(paths.HOSTS), self._nodes.node(paths.TARGETS)
        cluster = None if hosts is None else cluster_of(hosts)
        last = decode_published(targets)
        syncer = self._nodes.node(paths.SYNCER)
        request = self._nodes.node(paths.REQUEST)
        governed = last.strategy is not None
        absent = self._absent_hosts()
        reading = FleetReading(
            FleetSnapshot(
                cluster=cluster,
                published=published_revision(targets),
                publication=self._publication(last.sequence),
                disappeared=disappeared_of(syncer),
                completed=completed_revisions(absent, self._publication),
                since=last.effective_since,
                refusal=current_refusal(self._nodes.node(paths.REFUSALS)),
                changed=None if hosts is None else hosts.modified,
                hosts=self._all(paths.HOSTS, _host),
                stops=self._all(paths.STOPS, stop_of),
                request=None if request is None else request_of(request),
                absent=absent,
                targets=self._target_names(),
                out_of_service=dict(self._all(paths.OUT_OF_SERVICE, _out_of_service)),
                strategy=last.strategy,
                governed=last.governs(cluster),
                rollout=self._rollout(last) if governed else None,
                coordinator=self._leader() if governed else None,
                failures=self._all(paths.FAILURES, failure_of),
                group_stops=self._all(paths.GROUP_STOPS, group_stop_of),
                maintenance=in_force(self._all(paths.MAINTENANCE, maintenance_of), time.time()),
            ),
            started=started,
            finished=finished,
            number=number,
            sequence=last.sequence,
            syncer=None if syncer is None else report_of(syncer),
            services=self._services.reading(),
            parts={name: part.reading() for name, part in self._parts.items()},
        )
        self._decoded.forget()
        return reading

    def _judged(self) -> FleetSnapshot:
        """Return the part of the fleet that decides which inventories ``ServicesAssembly`` needs."""
        hosts, targets = self._nodes.node(paths.HOSTS), self._nodes.node(paths.TARGETS)
        return FleetSnapshot(
            cluster=None if hosts is None else cluster_of(hosts),
            published=published_revision(targets),
            hosts=self._all(paths.HOSTS, _host),
        )

    def _all(self, directory: str, decode: Callable[[str, Node], T]) -> tuple[T, ...]:
        """Return the values of all existing nodes in a directory, in the order of their names."""
        values = (
            self._decoded.value(f"{directory}/{name}", name, decode) for name in self._nodes.children(directory)
        )
        return tuple(value for value in values if value is not None)

    def _absent_ids(self) -> list[str]:
        registered = set(self._nodes.children(paths.HOSTS))
        return [name for name in self._nodes.children(paths.INVENTORY) if name not in registered]

    def _absent_hosts(self) -> tuple[KnownHost, ...]:
        """Return the absent hosts: the same tuple as long as no absent host has changed."""
        found = (
            self._decoded.value(f"{paths.INVENTORY}/{name}", name, _known_host) for name in self._absent_ids()
        )
        absent = tuple(host for host in found if host is not None)
        if len(absent) != len(self._absent) or any(map(_differ, absent, self._absent)):
            self._absent = absent
        return self._absent

    def _publication(self, sequence: int) -> PublicationRecord | None:
        return self._decoded.value(paths.history_path(sequence), "", _publication)

    def _target_names(self) -> frozenset[str]:
        names = self._nodes.children(paths.TARGETS)
        if self._names[0] is not names:
            self._names = names, frozenset(map(unquote, names))
        return self._names[1]

    def _rollout(self, last: Published) -> RolloutState | None:
        current = current_id(self._nodes.node(paths.ROLLOUTS))
        state = (
            None if current is None else self._decoded.value(paths.rollout_path(current), current, _rollout_state)
        )
        return state if state is not None and state.sequence == last.effective_since else None

    def _leaders(self) -> list[str]:
        return queued(self._nodes.children(paths.COORDINATORS))[:1]

    def _leader(self) -> str | None:
        for name in self._leaders():
            path = f"{paths.COORDINATORS}/{name}"
            node = self._nodes.node(path)
            if node is not None:
                return contender(path, node).identity
        return None


def _host(name: str, node: Node) -> Host:
    return Host.from_properties(name, node.properties, since=node.modified, registered=node.created)


def _out_of_service(name: str, node: Node) -> tuple[str, str]:
    return name, str(node.properties.get("role"))


def _known_host(name: str, node: Node) -> KnownHost:
    return decode_inventory(name, node.data)


def _publication(name: str, node: Node) -> PublicationRecord:
    del name
    return publication_of(node)


def _rollout_state(name: str, node: Node) -> RolloutState | None:
    try:
        return decode_state(node.data)
    except ZkdeploymentError as error:
        get_logger().warning("rollout-unreadable", rollout=name, reason=str(error))
        return None


def _differ(one: object, other: object) -> bool:
    return one is not other
