"""Events: their kinds and facts, and the recent events from which a client resumes."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.base.json_values import Value


#: The subject of an event that stands for changes of many check instances: load them again.
MANY_CHECKS = "many"


class EventKind(Enum):
    """The subject of an event."""

    HOST = "host"  # a host registered, left, wrote to its node, or entered or left maintenance
    PUBLICATION = "publication"  # the cluster version, or the published, refused or waiting commits changed
    ROLLOUT = "rollout"  # the rollout of the published revision changed
    ANALYSIS = "analysis"  # a metric of a group had its first failed measurement, or got its verdict
    STOP = "stop"  # the fleet was stopped, held or resumed, or a stop was recorded
    INSTANCES = "instances"  # other instances are down than before
    INTENT = "intent"  # the state, the document or the newest instance of an intent changed
    CHECK = "check"  # a check instance changed its state
    SESSION = "session"  # a tenant's session was requested, began, changed, is about to expire, or ended
    POOL = "pool"  # the level of a pool or the numbers of its nodes changed
    NODE = "node"  # a node of a pool changed its state
    FLEET = "fleet"  # a fleet under promotion changed its standing
    PROMOTION = "promotion"  # the promotion, or what keeps it from its work, changed
    FEED = "feed"  # the service lost or regained its connection to ZooKeeper
    RESET = "reset"  # events were lost, or were too many: load everything again


#: The kinds of events that concern the stream of one client. All other kinds are about the fleet and its pools.
STREAM_KINDS = frozenset({EventKind.FEED, EventKind.RESET})


@dataclass(frozen=True, slots=True)
class FleetEvent:
    """One event: its kind, the id of its subject, and a small body.

    Subjects are host ids, sequences, ids of rollouts and promotions, subjects of intents, ids of check instances,
    sessions and nodes, and names of pools and fleets. An event of a session has the id of the tenant as ``tenant``
    in its body.
    """

    kind: EventKind
    subject: str
    body: Mapping[str, Value] = field(default_factory=dict)

    def to_json(self) -> dict[str, Value]:
        """Return the data of the event as ``GET /api/v1/events`` sends them."""
        return {"id": self.subject, **self.body}


RESET_EVENT = FleetEvent(EventKind.RESET, "all")


def connection_event(*, connected: bool, read_at: float) -> FleetEvent:
    """Return the event for a lost or regained connection to ZooKeeper; ``read_at`` as in ``CachedFleet``."""
    return FleetEvent(EventKind.FEED, "zookeeper", {"connected": connected, "read_at": read_at})


#: The most events of one reading. After more changes at once, clients load everything again.
MOST_AT_ONCE = 500

#: The number of kept events for clients that resume.
KEPT = 5000


@dataclass(frozen=True, slots=True)
class EventBatch:
    """The events of one reading, in order.

    ``id`` is the last transaction that the reading certainly contains; clients resume from it. ``upto`` is the
    last transaction that the reading can contain. ``number`` counts the batches of this service. ``time`` is that
    of the reading, in seconds since the epoch.
    """

    number: int
    id: int
    upto: int
    events: tuple[FleetEvent, ...]
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class EventLog:
    """The recent batches of events, oldest first: at most ``KEPT`` events, however fast the fleet changes.

    Changes up to transaction ``base`` can be missing in ``batches``, later ones cannot. ``last`` is the number of
    the newest batch.
    """

    base: int = 0
    batches: tuple[EventBatch, ...] = ()
    last: int = 0

    def appended(self, id_: int, upto: int, events: Sequence[FleetEvent], time: float = 0.0) -> EventLog:
        """Return the log with a batch of these events; the oldest batches are dropped when there are too many."""
        shown = tuple(events) if len(events) <= MOST_AT_ONCE else (RESET_EVENT,)
        batches = (*self.batches, EventBatch(self.last + 1, id_, upto, shown, time))
        base, kept = self.base, sum(len(batch.events) for batch in batches)
        start = 0
        while kept > KEPT and start < len(batches) - 1:
            base, kept = max(base, batches[start].upto), kept - len(batches[start].events)
            start += 1
        return EventLog(base, batches[start:], self.last + 1)

    def after(self, number: int) -> tuple[EventBatch, ...] | None:
        """Return the batches after the one with this number; ``None`` if some of them were dropped."""
        if number >= self.last:
            return ()
        if not self.batches or self.batches[0].number > number + 1:
            return None
        return self.batches[number + 1 - self.batches[0].number :]

    def since(self, id_: int) -> tuple[EventBatch, ...] | None:
        """Return the batches that can contain a change after transaction ``id_``, wherever a client received it.

        ``None`` means that older changes are no longer known. A batch may repeat events that the client already
        knows.
        """
        if id_ < self.base:
            return None
        return tuple(batch for batch in self.batches if batch.upto > id_)
