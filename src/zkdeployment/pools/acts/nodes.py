"""Acts of operators on pools and their nodes; verbs and the service share them.

``pools.rules.node`` decides how an act changes a node. Each act is recorded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import NotFoundError, RefusedError, WaitTimeoutError
from zkdeployment.pools.rules.listing import PoolView, ShortageCause, find_pool, pool_views
from zkdeployment.pools.rules.node import NewPoolNode, PoolNode, added, check_new_node
from zkdeployment.pools.rules.snapshot import FillingRecord, PoolChange, PoolSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.pools.opening import PoolAdapters
    from zkdeployment.pools.rules.results import PlaybookRun


#: Seconds within which a running worker begins to fill a pool, if there are nodes for the pool.
BEGINNING = 10.0

#: The longest time in seconds between two reads of a pool.
_LOOK = 1.0


def read_pools(adapters: PoolAdapters) -> tuple[PoolSnapshot, tuple[PoolView, ...]]:
    """Return the present nodes and sessions, and the published pools by name."""
    configuration, read = adapters.store.configuration(), adapters.store.read()
    return read, pool_views(configuration, read)


def fill_pool(
    name: str,
    adapters: PoolAdapters,
    act: Act,
    *,
    timeout: float,
    progress: Callable[[PoolView], object] = lambda _: None,
) -> PoolView:
    """Let a worker fill a pool now, and return the pool when it has its level or cannot be filled.

    The failures of the pool are forgotten. If the returned pool lacks nodes, its shortage has the reason.
    ``progress`` is called with the present pool at least every second. Raises ``NotFoundError``, ``RefusedError``
    for a pool without a level, and ``WaitTimeoutError`` if nodes are still being made after ``timeout`` seconds.
    """
    if find_pool(name, read_pools(adapters)[1]).level is None:
        raise RefusedError(
            f"pool {name} has no fill-level, so that there is nothing to fill; set one in its document"
        )
    adapters.commit(
        f"pool {name}",
        lambda read: PoolChange(filling={name: read.filling.get(name, FillingRecord()).after_success()}),
    )
    adapters.acts.record(act)
    begin = idle_since = adapters.clock.monotonic()
    while True:
        _, pools = read_pools(adapters)
        pool, now = find_pool(name, pools), adapters.clock.monotonic()
        if _is_under_way(pool):
            idle_since = now
        if pool.shortage is None or pool.shortage.cause is ShortageCause.FAILURES or now >= idle_since + BEGINNING:
            return pool
        progress(pool)
        if now >= begin + timeout:
            raise WaitTimeoutError(f"pool {name} is not full after {timeout:g} s: {pool.shortage.reason}")
        adapters.wait(min(_LOOK, begin + timeout - now))


def _is_under_way(pool: PoolView) -> bool:
    """Whether a worker makes nodes for the pool, or cleans nodes that the pool can use afterwards."""
    has_worker = pool.shortage is not None and pool.shortage.cause is not ShortageCause.NO_WORKER
    return has_worker and bool(pool.provisioning or pool.deprovisioning)


def find_node(number: int, adapters: PoolAdapters) -> PoolNode:
    """Return a node, which may be done; raises ``NotFoundError`` if it does not exist."""
    node = adapters.store.node(number)
    if node is None:
        raise NotFoundError(f"there is no node {number}; 'zkdeployment node list' shows all nodes")
    return node


def node_runs(number: int, adapters: PoolAdapters) -> Sequence[PlaybookRun]:
    """Return the recorded runs of playbooks for a node; raises ``NotFoundError`` if there never was such a node.

    The runs stay even if the node could not be provisioned and is gone.
    """
    runs = adapters.runs(number)
    if not runs:
        find_node(number, adapters)
    return runs


def add_node(new: NewPoolNode, adapters: PoolAdapters, act: Act) -> PoolNode:
    """Add a machine as an unused node and return the node.

    Raises ``ConfigurationError`` for an invalid name or address, and ``RefusedError`` if the machine is already a
    node.
    """
    check_new_node(new)
    number = 0

    def decide(read: PoolSnapshot) -> PoolChange:
        nonlocal number
        node = added(new, number, read.nodes.values(), adapters.clock.now())
        if not number:  # ids are taken only for nodes that can be added
            (number,) = adapters.store.take_ids(1)
        return PoolChange(nodes=(replace(node, id=number),))

    adapters.commit(f"node {new.hostname}", decide)
    adapters.acts.record(act)
    return find_node(number, adapters)


def change_node(
    number: int, adapters: PoolAdapters, act: Act, change: Callable[[PoolNode, float], PoolNode]
) -> PoolNode:
    """Change a node, record the act if the node was changed, and return the node.

    ``change`` returns a node afterwards, for its time. Raises ``NotFoundError``, and what ``change`` raises.
    """

    def decide(_: PoolSnapshot) -> PoolChange | None:
        before = find_node(number, adapters)
        after = change(before, adapters.clock.now())
        return None if after == before else PoolChange(nodes=(after,))

    if adapters.commit(f"node {number}", decide):
        adapters.acts.record(act)
    return find_node(number, adapters)
