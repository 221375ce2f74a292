"""Values of host pools that many tests need."""

from __future__ import annotations

from typing import Any

from zkdeployment.pools.rules.node import NodeState, PoolNode


def make_node(number: int = 1, state: NodeState = NodeState.READY, **fields: Any) -> PoolNode:
    """Return a node of a pool."""
    return PoolNode(**{"created_at": 1.0, "changed": 1.0, **fields}, id=number, state=state)
