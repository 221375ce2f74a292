"""What stopped the fleet, as hosts and operators wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from zkdeployment.adapters.zookeeper import paths
from zkdeployment.adapters.zookeeper.nodes import encode
from zkdeployment.adapters.zookeeper.transactions import Create, Set
from zkdeployment.model.stop import Stop

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.session import Session
    from zkdeployment.adapters.zookeeper.transactions import Operation


def read_stops(session: Session) -> tuple[Stop, ...]:
    """Return the stops on record, in one pipelined round."""
    names = session.children(paths.STOPS) or ()
    nodes = session.get_many(f"{paths.STOPS}/{name}" for name in names)
    return tuple(Stop.from_properties(node.properties) for node in nodes if node is not None)


def recording_stop(session: Session, stop: Stop) -> Operation:
    """Return the operation that puts a stop on record, in the place of an earlier one of the same."""
    session.ensure(paths.STOPS)
    path = f"{paths.STOPS}/{quote(stop.key, safe='~@')}"
    former, data = session.get(path), encode(stop.properties())
    return Create(path, data) if former is None else Set(path, data, former.version)
