"""Decides how many nodes a pool lacks, which unused nodes it takes, and when it retries after failures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.pools.documents import RoleMechanism
from zkdeployment.pools.rules.node import NodeEvent, NodeState, PoolNode
from zkdeployment.pools.rules.snapshot import MOST_NODES
from zkdeployment.strategies.strategy import is_open

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.pools.documents import NodePool, PoolConfiguration

#: The delays in seconds after failures of provisioning in a row; further failures have the last delay.
_DELAYS = (60.0, 120.0, 300.0, 900.0, 1800.0, 3600.0)


@dataclass(frozen=True, slots=True)
class FillPlan:
    """The change that fills a pool: unused nodes that it takes, as provisioning, and the number of new ones."""

    taken: tuple[PoolNode, ...] = ()
    new: int = 0


def plan_filling(
    pool: NodePool,
    nodes: Collection[PoolNode],
    now: float,
    *,
    reuse: Mapping[str, int | str] | None = None,
    roles: Mapping[str, str] | None = None,
) -> FillPlan:
    """Return the changes that bring a pool to its level, or closer to it if one transaction is too small.

    ``reuse`` has the values that unused nodes must have, with templates filled in; ``None``: nodes are made anew.
    ``roles`` has the present hosts of the fleet and their configured roles: a pool of hosts takes hosts with its
    idle role.
    """
    lacking = min((pool.fill_level or 0) - sum(1 for node in nodes if _counts(node, pool)), MOST_NODES)
    if lacking <= 0:
        return FillPlan()
    if isinstance(pool.mechanism, RoleMechanism):
        idle = pool.mechanism.idle
        usable = [
            node for node in _unused(nodes) if node.host is not None and (roles or {}).get(node.host) == idle
        ]
    elif reuse is not None:
        usable = [node for node in _unused(nodes) if node.host is None and _matches(node, reuse)]
    else:
        return FillPlan(new=lacking)
    return FillPlan(tuple(node.after(NodeEvent.CHOSEN, now, pool=pool.name) for node in usable[:lacking]))


def at_time(configuration: PoolConfiguration, now: float) -> PoolConfiguration:
    """Return a configuration in which each pool has the level of its schedule at ``now``."""
    pools = {
        name: replace(
            pool,
            fill_level=next(
                (entry.level for entry in pool.schedule if is_open([entry.window], now)), pool.fill_level
            ),
        )
        for name, pool in configuration.pools.items()
    }
    return replace(configuration, pools=pools)


def surplus(pool: NodePool, nodes: Iterable[PoolNode], claimed: Collection[int]) -> tuple[PoolNode, ...]:
    """Return the surplus nodes of a pool: nodes that no worker has begun to make, then ready nodes.

    Of the ready nodes, nodes that a session had come first, then the nodes that became ready last. ``claimed`` are
    the ids of nodes on which a process works. A pool without a level keeps its nodes.
    """
    if pool.fill_level is None:
        return ()
    own = [node for node in nodes if _counts(node, pool)]
    idle = [node for node in own if node.id not in claimed]
    waiting = [node for node in idle if node.state is NodeState.PROVISIONING and not node.begun]
    ready = [node for node in idle if node.is_ready]
    ready.sort(key=lambda node: (node.was_lent, node.changed, node.id), reverse=True)
    has_ready = sum(node.is_ready for node in own)
    dropped = waiting[: max(0, len(own) - pool.fill_level)]
    return (*dropped, *ready[: max(0, has_ready - pool.fill_level)])


def next_filling(failures: int, last: float) -> float:
    """Return when a pool is filled again after failures in a row, the last of which was at ``last``."""
    return last + _DELAYS[min(failures, len(_DELAYS)) - 1] if failures else last


def new_node(node_id: int, pool: NodePool, now: float) -> PoolNode:
    """Return a node that is made anew for a pool."""
    return PoolNode(
        id=node_id, state=NodeState.PROVISIONING, created_at=now, changed=now, pool=pool.name, reusable=False
    )


def _counts(node: PoolNode, pool: NodePool) -> bool:
    is_available = node.state is NodeState.PROVISIONING or node.is_ready
    return node.is_active and node.pool == pool.name and is_available


def _unused(nodes: Iterable[PoolNode]) -> list[PoolNode]:
    """Return the unused nodes; the node that was used longest ago comes first."""
    unused = (node for node in nodes if node.state is NodeState.UNUSED and node.reusable)
    return sorted(unused, key=lambda node: (node.changed, node.id))


def _matches(node: PoolNode, reuse: Mapping[str, int | str]) -> bool:
    """Whether the data of a node has the values that a pool demands; ``2`` is not ``"2"``, as in Duffy."""
    return all(type(node.data.get(key)) is type(value) and node.data[key] == value for key, value in reuse.items())
