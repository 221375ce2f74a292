"""The properties with which a filter records its state in the node of its list."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.adapters.zookeeper.client.nodes import encode

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node

_SOURCE = "filtered-from"
_VERSION = "version"


class FilterRecord(NamedTuple):
    """The path of the instances that are filtered, and the version in service; ``None`` if not recorded."""

    source: str | None
    version: str | None


def read_record(node: Node | None) -> FilterRecord:
    """Return the record in a node, which is empty if no filter keeps a list there."""
    properties = {} if node is None else node.properties
    source, version = properties.get(_SOURCE), properties.get(_VERSION)
    if not isinstance(source, str):
        return FilterRecord(None, None)
    return FilterRecord(source, version if isinstance(version, str) else None)


def encode_record(record: FilterRecord) -> bytes:
    """Return the data of a list's node."""
    return encode({_SOURCE: record.source, _VERSION: record.version})
