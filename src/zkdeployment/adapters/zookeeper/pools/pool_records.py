"""Decodes the records of pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from zkdeployment.adapters.zookeeper.client.packed import unpack
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.adapters.zookeeper.client.nodes import Node

T = TypeVar("T")


def decode_record(path: str, node: Node, decode: Callable[[Mapping[str, Any], int], T]) -> T | None:
    """Return the record in a node; ``None`` for a damaged one, which is logged, so that all others can be used."""
    try:
        value = unpack(node.data)
        return decode(value if isinstance(value, dict) else {}, node.version)
    except (KeyError, TypeError, ValueError) as error:
        get_logger().warning("pool-record-damaged", path=path, reason=repr(error))
        return None
