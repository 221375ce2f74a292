"""The nodes of the withheld services, and of the services that left the governance of their intents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import TreeError
from zkdeployment.publishing.left_service import LeftService
from zkdeployment.publishing.targets.compiler import withheld_from_json, withheld_to_json
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode_content, unpack
from zkdeployment.zookeeper.transactions import Create, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


def read_withheld(session: Session) -> frozenset[ServiceTarget]:
    """Return the services and targets that the last publication withheld; raises ``TreeError`` for damage."""
    return decode_withheld(session.get(paths.WITHHELD))


def decode_withheld(node: Node | None) -> frozenset[ServiceTarget]:
    """Return the withheld services in their node; raises ``TreeError`` if it is damaged."""
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


def read_left(session: Session) -> tuple[LeftService, ...]:
    """Return the services that left the governance of their intents; raises ``TreeError`` for a damaged node."""
    node = session.get(paths.LEFT)
    if node is None or not node.data:
        return ()
    try:
        value: Any = unpack(node.data)
        return tuple(map(LeftService.from_json, value["services"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TreeError(f"{paths.LEFT} cannot be read: {error}; restore the node from a backup") from error


def left_operations(left: Collection[LeftService], node: Node | None) -> Iterator[Operation]:
    """Yield the operation that writes the services that left their intents, if they changed."""
    yield from writing(
        paths.LEFT, encode_content({"services": [one.to_json() for one in left]}) if left else b"", node
    )
