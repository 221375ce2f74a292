"""The nodes of compiled targets: one for each host id, host name and role.

A role's node also holds its controller, the assignment of the node ``/roles/ROLE``, so that an agent finds all
that concerns it under three names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.errors import TreeError
from zkdeployment.planning.targets import assignments_from_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.publication import Targets

_ROLES = "/roles/"


def node_paths(names: Collection[str]) -> list[str]:
    """Return the nodes of these targets (``/roles/ROLE`` is in that of ROLE), sorted."""
    return sorted({paths.target_path(name.removeprefix(_ROLES)) for name in names})


def encode_targets(targets: Targets, names: Collection[str]) -> dict[str, bytes]:
    """Return the data of each node that holds some of these targets, by path; no node for what is no target."""
    written: dict[int, str] = {}  # each assignment's text by its identity: all targets of a service share one
    found = {}
    for name in sorted({name.removeprefix(_ROLES) for name in names}):
        assignments = (*targets.get(_ROLES + name, ()), *targets.get(name, ()))
        if assignments or name in targets:
            for one in assignments:
                if id(one) not in written:
                    written[id(one)] = json.dumps(one.to_json(), separators=(",", ":"), sort_keys=True)
            data = f"[{','.join(written[id(one)] for one in assignments)}]"
            found[paths.target_path(name)] = data.encode("ascii")
    return found


def decode_targets(nodes: Mapping[str, Node | None]) -> Targets:
    """Return the targets in nodes, which are given by name; raises ``TreeError`` for what is none."""
    found: dict[str, tuple[Assignment, ...]] = {}
    for name, node in nodes.items():
        if node is None:
            continue
        assignments = assignments_from_json(_json(name, node.data))
        found[name] = tuple(one for one in assignments if not one.path.startswith(_ROLES))
        found |= {one.path: (one,) for one in assignments if one.path == _ROLES + name}
    return found


def _json(name: str, data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TreeError(f"{paths.target_path(name)} does not hold a list of assignments: {error}") from error
