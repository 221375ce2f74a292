"""The fleet as a service keeps it in memory: one reading of ZooKeeper for all clients, with its age."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from zkdeployment.fleet.snapshot import FleetSnapshot
from zkdeployment.fleet.status import FleetStatus, fleet_status
from zkdeployment.pools.reading import PoolReading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.checks.changes import LastCheckChanges
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.model.publishing.request import SyncerReport


@dataclass(frozen=True)
class FleetReading:
    """The fleet as one reading of ZooKeeper found it.

    ``started`` and ``finished`` are the last transactions of ZooKeeper (zxids) that the service knew of when the
    reading started and when it was finished: the reading contains every change up to ``started`` and none after
    ``finished``. ``sequence`` is that of the last publication, 0 before the first one. ``number`` counts the
    readings of this service in which something changed. ``intents`` is what publications recorded of each intent.
    ``checks`` are the last changes of check instances. ``pools`` are the pools, with their nodes and sessions.
    """

    fleet: FleetSnapshot = field(default_factory=FleetSnapshot)
    started: int = 0
    finished: int = 0
    number: int = 0
    sequence: int = 0
    syncer: SyncerReport | None = None
    intents: Mapping[IntentSubject, IntentRecord] = field(default_factory=dict)
    checks: LastCheckChanges | None = None
    pools: PoolReading = PoolReading()  # noqa: RUF009  it cannot be changed

    @cached_property
    def status(self) -> FleetStatus:
        """The status of the whole fleet; it is computed at the first use and kept, as many clients ask for it."""
        return fleet_status(self.fleet)


@dataclass(frozen=True, slots=True)
class CachedFleet:
    """The last reading, and whether it is current.

    ``read_at`` is when ZooKeeper last confirmed the reading, in seconds since the epoch: while the service is
    ``connected``, that is a few seconds ago at most. Without ZooKeeper the last reading stays, and gets older.
    ``zxid`` is the last transaction of ZooKeeper that the reading certainly contains.
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
