"""Encoding and decoding the nodes of compiled targets: one for each host id, host name and role.

A role's node also contains its controller, the assignment of the node ``/roles/ROLE``, so that an agent reads at
most three nodes.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.planning.targets.encoding import decode_target

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.publication import Targets

#: Above the nodes of controllers: the prefix of the names of their targets.
ROLES = "/roles/"
_encode_canonically = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def node_paths(names: Collection[str]) -> list[str]:
    """Return the paths of the nodes of these targets, sorted; ``/roles/ROLE`` shares the node of ROLE."""
    return sorted({paths.target_path(name.removeprefix(ROLES)) for name in names})


def encode_targets(
    targets: Targets, names: Collection[str], known: Mapping[str, bytes] = MappingProxyType({})
) -> dict[str, bytes]:
    """Return the data of the nodes of these targets, by path; names without a target have no node.

    ``known`` are the data of targets that were encoded already, by path.
    """
    written: dict[int, str] = {}  # each assignment's text by its identity: all targets of a service share one
    encoded = {}
    for name in sorted({name.removeprefix(ROLES) for name in names}):
        path = paths.target_path(name)
        if path in known:
            encoded[path] = known[path]
            continue
        assignments = (*targets.get(ROLES + name, ()), *targets.get(name, ()))
        if assignments or name in targets:
            for assignment in assignments:
                if id(assignment) not in written:
                    written[id(assignment)] = _encode_canonically(assignment.to_json())
            data = f"[{','.join(written[id(assignment)] for assignment in assignments)}]"
            encoded[path] = data.encode("ascii")
    return encoded


def decode_targets(nodes: Mapping[str, Node | None]) -> Targets:
    """Return the targets in these nodes, which are given by name; raises ``TreeError`` if one is invalid."""
    targets: dict[str, tuple[Assignment, ...]] = {}
    for name, node in nodes.items():
        if node is not None:
            targets |= decode_target(name, node.data)
    return targets


def is_same_work(before: bytes, after: bytes) -> bool:
    """Whether two versions of a target's node have the same assignments, apart from digests of properties."""
    try:
        listed = [json.loads(data) for data in (before, after)]
        bare = [
            [{key: each[key] for key in each if key != "properties"} for each in assignments]
            for assignments in listed
        ]
    except (ValueError, TypeError, RecursionError):
        return False
    return bare[0] == bare[1]


def read_targets(session: Session, names: Iterable[str]) -> Targets:
    """Return the published targets with these node names."""
    listed = list(names)
    nodes = session.get_many(f"{paths.TARGETS}/{name}" for name in listed)
    return decode_targets({unquote(name): node for name, node in zip(listed, nodes, strict=True)})
