"""Assembles the reading of the fleet from followed nodes, and the cached fleet that a service keeps in memory."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from zkdeployment.base.features import installed
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.places import FleetPlaces
from zkdeployment.fleet.store.assembly import ServicesAssembly, SnapshotAssembly
from zkdeployment.fleet.views.instances import NO_SERVICES, ServicesSnapshot
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import FleetStatus, fleet_status
from zkdeployment.publishing.store.cluster import (
    decode_published,
)
from zkdeployment.publishing.store.requests import report_of
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zkdeployment.base.publication import Targets
    from zkdeployment.fleet.events.event import FleetEvent
    from zkdeployment.publishing.records import SyncerReport
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.reads import Read
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

    def has(self, part: FeedPart[Any]) -> bool:
        """Return whether anything is known for the part of a feature: the fleet uses the feature."""
        return bool(self.of(part) != part.empty)

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


class FleetAssembly:
    """The fleet in followed nodes, with the parts of the features."""

    def __init__(self, nodes: FollowedNodes, targets: Callable[[Node], Targets]) -> None:
        """``targets`` returns the published targets below their parent node."""
        self._nodes = nodes
        self._fleet = SnapshotAssembly(nodes)
        self._services = ServicesAssembly(nodes, targets)
        self._parts = {part.name: part.assemble(nodes) for part in feed_parts()}

    def wanted(self) -> Iterator[Read]:
        """Yield everything that has to be followed, as far as the nodes read so far show it."""
        yield from self._fleet.wanted()
        yield from self._services.wanted(self._fleet.outline())
        for part in self._parts.values():
            yield from part.wanted()

    def reading(self, *, started: int, finished: int, number: int) -> FleetReading:
        """Return the reading; ``started``, ``finished`` and ``number`` as in ``FleetReading``."""
        syncer = self._nodes.node(paths.SYNCER)
        return FleetReading(
            self._fleet.snapshot(),
            started=started,
            finished=finished,
            number=number,
            sequence=decode_published(self._nodes.node(paths.TARGETS)).sequence,
            syncer=None if syncer is None else report_of(syncer),
            services=self._services.reading(),
            parts={name: part.reading() for name, part in self._parts.items()},
        )
