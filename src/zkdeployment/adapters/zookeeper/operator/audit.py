"""What operators did: one node with the last acts, written in the transaction of each act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Operation, Set
from zkdeployment.model.act import Act

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session

#: Acts, and bytes, that are kept.
ACTS_LIMIT = 500
BYTES_LIMIT = 256 * 1024


def read_acts(session: Session) -> tuple[Act, ...]:
    """Return the acts that are kept, the oldest first."""
    return _acts(session.get(paths.AUDIT))


def recording(session: Session, act: Act) -> Operation:
    """Return the operation that adds an act; the oldest go when there are too many."""
    node = session.get(paths.AUDIT)
    acts = [*_acts(node), act][-ACTS_LIMIT:]
    while len(data := _encode(acts)) > BYTES_LIMIT:
        acts = acts[len(acts) // 10 + 1 :]
    return Create(paths.AUDIT, data) if node is None else Set(paths.AUDIT, data, node.version)


def _acts(node: Node | None) -> tuple[Act, ...]:
    listed = None if node is None else node.properties.get("acts")
    return tuple(Act.from_json(one) for one in listed if isinstance(one, dict)) if isinstance(listed, list) else ()


def _encode(acts: list[Act]) -> bytes:
    return encode({"acts": [act.to_json() for act in acts]})
