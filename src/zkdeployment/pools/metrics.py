"""The metrics of host pools, as each service writes them: levels, nodes by state, sessions, and workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.daemon.metrics import Metric, gauge, labelled
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.overview import pool_overviews

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.pools.rules.snapshot import PoolReading


def pool_metrics(reading: PoolReading) -> Iterator[Metric]:
    """Yield the metrics of pools, ``zkdeployment_pool_…``."""
    pools, snapshot = pool_overviews(reading.configuration, reading.snapshot), reading.snapshot
    states = [state for state in NodeState if state not in {NodeState.UNUSED, NodeState.DONE}]
    levels = {pool.name: float(pool.level) for pool in pools if pool.level is not None}
    missing = {pool.name: 0.0 if pool.shortage is None else float(pool.shortage.missing) for pool in pools}
    nodes: dict[tuple[str, ...], float] = {
        (pool.name, state.value): pool.states.get(state, 0) for pool in pools for state in states
    }
    unused = sum(node.state is NodeState.UNUSED for node in snapshot.nodes.values())
    failures = {pool.name: float(pool.failures) for pool in pools}
    yield labelled("pool_level", "The number of nodes that a pool keeps ready.", "pool", levels)
    yield labelled("pool_missing_nodes", "The ready nodes that a pool lacks at its level.", "pool", missing)
    yield Metric("zkdeployment_pool_nodes", "The nodes of a pool, by state.", nodes, ("pool", "state"))
    yield labelled("pool_filling_failures", "Failures to fill a pool, in a row.", "pool", failures)
    yield gauge("pool_unused_nodes", "The nodes that are in no pool.", unused)
    yield gauge("pool_sessions", "The active sessions of tenants.", len(snapshot.sessions))
    yield gauge("pool_workers", "The workers of pools that run.", len(snapshot.workers))
