"""Buckets: packed nodes with the check instances, or their results, whose identifiers begin alike.

With 100,000 instances there are 4,096 nodes with some 25 instances each: few enough to read all of them, and small
enough to rewrite one of them when an instance changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client.packed import pack, unpack
from zkdeployment.checks.instance_json import instance_from_json, instance_to_json
from zkdeployment.errors import TreeError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.checks.instance import CheckInstance
    from zkdeployment.model.tree import Value

#: Characters of an identifier that name its bucket.
_DIGITS = 3

#: How many buckets there can be.
BUCKETS = 16**_DIGITS


def bucket_of(instance: str) -> str:
    """Return the name of the bucket of an instance."""
    return instance[:_DIGITS]


def bucket_name(number: int) -> str:
    """Return the name of the bucket with a number, counted around the end."""
    return f"{number % BUCKETS:0{_DIGITS}x}"


def by_bucket(instances: Iterable[str]) -> dict[str, list[str]]:
    """Return the identifiers in lists, by bucket."""
    grouped: dict[str, list[str]] = {}
    for instance in instances:
        grouped.setdefault(bucket_of(instance), []).append(instance)
    return grouped


def encode_instances(instances: Mapping[str, CheckInstance]) -> bytes:
    """Return the data of a bucket with these instances."""
    return pack([instance_to_json(instance) for _, instance in sorted(instances.items())])


def decode_instances(path: str, node: Node | None) -> dict[str, CheckInstance]:
    """Return the instances of a bucket by identifier; raises ``TreeError`` if the bucket is damaged."""
    if node is None:
        return {}
    try:
        listed = unpack(node.data)
        instances = [instance_from_json(value) for value in listed] if isinstance(listed, list) else None
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if instances is None:
        raise _damaged(path, "expected a list")
    return {instance.id: instance for instance in instances}


def decode_values(path: str, node: Node | None) -> dict[str, Value]:
    """Return the values of a bucket by identifier; a damaged bucket is logged and reads as empty."""
    try:
        values = {} if node is None else unpack(node.data)
    except ValueError as error:
        get_logger().warning("check-results-damaged", path=path, reason=str(error))
        return {}
    return values if isinstance(values, dict) else {}


def _damaged(path: str, reason: str) -> TreeError:
    return TreeError(f"{path} does not hold check instances: {reason}; delete the node, and they are made anew")
