"""The node of the services that left the governance of their intents, which agents do not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.packed import encode_content, unpack
from zkdeployment.adapters.zookeeper.publication.withheld import writing
from zkdeployment.errors import TreeError
from zkdeployment.model.publishing.left_service import left_from_json, left_to_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.adapters.zookeeper.client.transactions import Operation
    from zkdeployment.model.publishing.left_service import LeftService


def read_left(session: Session) -> tuple[LeftService, ...]:
    """Return the services that left the governance of their intents; raises ``TreeError`` for a damaged node."""
    node = session.get(paths.LEFT)
    if node is None or not node.data:
        return ()
    try:
        value: Any = unpack(node.data)
        return left_from_json(value["services"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TreeError(f"{paths.LEFT} cannot be read: {error}; restore the node from a backup") from error


def left_operations(left: Collection[LeftService], node: Node | None) -> Iterator[Operation]:
    """Yield the operation that writes the services that left their intents, if they changed."""
    yield from writing(paths.LEFT, encode_content({"services": left_to_json(left)}) if left else b"", node)
