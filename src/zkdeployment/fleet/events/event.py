"""An event: its kind, its subject, and a few facts for displays; clients read the details themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.tree import Value

#: The subject of an event that stands for changes of many check instances: load them again.
MANY_CHECKS = "many"


class EventKind(Enum):
    """The subject of an event."""

    HOST = "host"  # a host registered, left, or wrote to its node
    PUBLICATION = "publication"  # the cluster version or the published revision changed, or a tip was refused
    ROLLOUT = "rollout"  # the rollout of the published revision changed
    STOP = "stop"  # the fleet was stopped, held or resumed, or a stop was recorded
    INTENT = "intent"  # the state, the document or the newest instance of an intent changed
    CHECK = "check"  # a check instance came into another state
    SESSION = "session"  # a tenant's session was requested, began, changed, is about to expire, or ended
    POOL = "pool"  # the level of a pool or the numbers of its nodes changed
    NODE = "node"  # a node of a pool came into another state
    FEED = "feed"  # the service lost or regained its connection to ZooKeeper
    RESET = "reset"  # events were lost, or were too many: load everything again


#: The kinds of events that concern the stream of one client. All other kinds are about the fleet and its pools.
STREAM_KINDS = frozenset({EventKind.FEED, EventKind.RESET})


@dataclass(frozen=True, slots=True)
class FleetEvent:
    """One event: its kind, the id of its subject, and a small body.

    Subjects are host ids, sequences, ids of rollouts, subjects of intents, ids of check instances, sessions and
    nodes, and names of pools. An event of a session has the id of the tenant as ``tenant`` in its body.
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
