"""The node with the last changes of check instances, from which services make events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.checks.changes import CheckChange, LastCheckChanges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.adapters.zookeeper.client.nodes import Node

#: Changes that are listed; further ones are only counted.
_MOST = 20


def encode_changes(changes: Sequence[CheckChange]) -> bytes:
    """Return the data of the node after these changes."""
    listed = {change.instance: change.to_json() for change in changes[:_MOST]}
    return json.dumps({"total": len(changes), "changes": listed}, separators=(",", ":")).encode("ascii")


def decode_changes(node: Node) -> LastCheckChanges:
    """Return the changes in the node; a malformed node lists none."""
    properties = node.properties
    total, listed = properties.get("total"), properties.get("changes")
    found = [] if not isinstance(listed, dict) else [CheckChange.from_json(*item) for item in listed.items()]
    changes = tuple(change for change in found if change is not None)
    return LastCheckChanges(node.version, total if isinstance(total, int) else len(changes), changes)
