"""Acts of admins on pools and their nodes, for the pages."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from zkdeployment.acts.pools.filling import fill_pool
from zkdeployment.acts.pools.nodes import add_node, drain_node, forgive_node, retire_node
from zkdeployment.errors import WaitTimeoutError
from zkdeployment.web.acts import new_act

if TYPE_CHECKING:
    from zkdeployment.model.user import User
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.node_changes import NewPoolNode
    from zkdeployment.ports.server import ServerAdapters

#: The acts on nodes by the names of their forms: what is recorded, and the function.
_NODE_ACTS = {
    "drain": ("drain", drain_node),
    "retire-node": ("retire", retire_node),
    "forgive": ("forgive", forgive_node),
}


def fill(adapters: ServerAdapters, user: User, pool: str, reason: str) -> None:
    """Let a worker fill a pool at once; does not wait for it."""
    with suppress(WaitTimeoutError):
        fill_pool(pool, adapters.pools, new_act(adapters, user, f"fill pool {pool}", reason), timeout=0.0)


def add(adapters: ServerAdapters, user: User, new: NewPoolNode, reason: str) -> PoolNode:
    """Add a node."""
    return add_node(new, adapters.pools, new_act(adapters, user, f"add node {new.hostname}", reason))


def act_on_node(adapters: ServerAdapters, user: User, name: str, number: int, reason: str) -> PoolNode:
    """Perform the act on a node that a form of this name asks for."""
    verb, act = _NODE_ACTS[name]
    return act(number, adapters.pools, new_act(adapters, user, f"{verb} node {number}", reason))
