"""Acts of operators on the nodes of pools, as verbs and the service carry them out alike.

``pools.node_changes`` decides how an act changes a node. Each act is recorded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.errors import ConflictError, NotFoundError
from zkdeployment.pools.node_changes import added, check_new_node, drained, forgiven, retired
from zkdeployment.pools.snapshot import PoolChange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.model.act import Act
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.node_changes import NewPoolNode
    from zkdeployment.pools.runs.playbook_run import PlaybookRun
    from zkdeployment.ports.pools import PoolAdapters

#: Attempts to change a node while others change it.
_ATTEMPTS = 20


def find_node(number: int, adapters: PoolAdapters) -> PoolNode:
    """Return a node, which may be done; raises ``NotFoundError`` if it does not exist."""
    node = adapters.store.node(number)
    if node is None:
        raise NotFoundError(f"there is no node {number}; 'zkdeployment node list' shows all nodes")
    return node


def node_runs(number: int, adapters: PoolAdapters) -> Sequence[PlaybookRun]:
    """Return the recorded runs of playbooks for a node; raises ``NotFoundError`` if there never was such a node.

    A node that could not be provisioned may be gone, but not its runs.
    """
    runs = adapters.runs(number)
    if not runs:
        find_node(number, adapters)
    return runs


def add_node(new: NewPoolNode, adapters: PoolAdapters, act: Act) -> PoolNode:
    """Add a machine as an unused node and return the node.

    Raises ``ConfigurationError`` for an invalid name or address, and ``RefusedError`` if a node is this machine.
    """
    check_new_node(new)
    number, now = 0, adapters.clock.now()
    for attempt in range(1, _ATTEMPTS + 1):
        read = adapters.store.read()
        node = added(new, number, read.nodes.values(), now)
        if not number:  # ids are taken only for nodes that can be added
            (number,) = adapters.store.take_ids(1)
            node = replace(node, id=number)
        try:
            adapters.store.commit(PoolChange(nodes=(node,)), read)
        except ConflictError:
            if attempt == _ATTEMPTS:
                raise
        else:
            break
    adapters.acts.record(act)
    return find_node(number, adapters)


def drain_node(number: int, adapters: PoolAdapters, act: Act) -> PoolNode:
    """Take a node out of the pools, after its session if it has one; return the node afterwards.

    Raises ``NotFoundError`` and ``RefusedError``.
    """
    return _change(number, adapters, act, drained)


def retire_node(number: int, adapters: PoolAdapters, act: Act) -> PoolNode:
    """Retire a node that is unused or failed, and return it; raises ``NotFoundError`` and ``RefusedError``."""
    return _change(number, adapters, act, retired)


def forgive_node(number: int, adapters: PoolAdapters, act: Act) -> PoolNode:
    """Let a failed node be deprovisioned again, and return it; raises ``NotFoundError`` and ``RefusedError``."""
    return _change(number, adapters, act, forgiven)


def _change(
    number: int, adapters: PoolAdapters, act: Act, change: Callable[[PoolNode, float], PoolNode]
) -> PoolNode:
    """Change a node and record the act; if others change the node meanwhile, decide again."""
    for attempt in range(1, _ATTEMPTS + 1):
        read, before = adapters.store.read(), find_node(number, adapters)
        after = change(before, adapters.clock.now())
        if after == before:
            return before
        try:
            adapters.store.commit(PoolChange(nodes=(after,)), read)
        except ConflictError:
            if attempt == _ATTEMPTS:
                raise
        else:
            adapters.acts.record(act)
            return find_node(number, adapters)
    raise ConflictError(f"node {number} is changed all the time; try again")
