"""The node of the withheld services: those that are not deployed because of the state of their intents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.packed import encode_content, unpack
from zkdeployment.adapters.zookeeper.client.transactions import Create, Operation, Set
from zkdeployment.errors import TreeError
from zkdeployment.planning.targets.withheld import withheld_from_json, withheld_to_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.planning.targets.withheld import ServiceTarget


def read_withheld(session: Session) -> frozenset[ServiceTarget]:
    """Return the services and targets that the last publication withheld; raises ``TreeError`` for damage."""
    return decode_withheld(session.get(paths.WITHHELD))


def decode_withheld(node: Node | None) -> frozenset[ServiceTarget]:
    """Return the withheld services of their node; raises ``TreeError`` if it is damaged."""
    if node is None or not node.data:
        return frozenset()
    try:
        value = unpack(node.data)
    except ValueError as error:
        raise TreeError(f"{paths.WITHHELD} cannot be read: {error}; publish again") from error
    if not isinstance(value, dict):
        raise TreeError(f"{paths.WITHHELD} holds no mapping of services to targets; publish again")
    return withheld_from_json(value)


def withheld_operations(withheld: Collection[ServiceTarget], node: Node | None) -> Iterator[Operation]:
    """Yield the operation that writes the withheld services, if they changed."""
    yield from writing(paths.WITHHELD, encode_content(withheld_to_json(withheld)) if withheld else b"", node)


def writing(path: str, data: bytes, node: Node | None) -> Iterator[Operation]:
    """Yield the operation that gives a node these data, if they changed; a node without data need not exist."""
    if node is None:
        if data:
            yield Create(path, data)
    elif node.data != data:
        yield Set(path, data, node.version)
