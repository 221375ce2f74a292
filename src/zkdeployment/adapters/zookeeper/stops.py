"""What stopped the fleet, as hosts and operators wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper import paths
from zkdeployment.model.stop import Stop

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.session import Session


def read_stops(session: Session) -> tuple[Stop, ...]:
    """Return the stops on record, in one pipelined round."""
    names = session.children(paths.STOPS) or ()
    nodes = session.get_many(f"{paths.STOPS}/{name}" for name in names)
    return tuple(Stop.from_properties(node.properties) for node in nodes if node is not None)
