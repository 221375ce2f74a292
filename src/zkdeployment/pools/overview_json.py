"""Pools, nodes and sessions as programs read them: the JSON of the verbs. The HTTP API has Duffy's form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.pools.overview import failure_of, ssh_command

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from zkdeployment.model.tree import Value
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.overview import PoolOverview, SessionOverview
    from zkdeployment.pools.tenant_session import LeasedNode


def pools_to_json(pools: Iterable[PoolOverview], workers: Collection[str]) -> dict[str, Value]:
    """Return pools as the schema ``pools`` describes them; ``workers`` are the names of the present workers."""
    return {"workers": [*workers], "pools": [pool_to_json(pool) for pool in pools]}


def pool_to_json(pool: PoolOverview) -> dict[str, Value]:
    """Return a pool as one of the schema ``pools``; times are in seconds since the epoch."""
    shortage = pool.shortage
    return {
        "name": pool.name,
        "mechanism": pool.mechanism,
        "level": pool.level,
        "node_quota": pool.pool.node_quota,
        "ready": pool.ready,
        "provisioning": pool.provisioning,
        "leased": pool.leased,
        "deprovisioning": pool.deprovisioning,
        "failed": pool.failed,
        "failures": pool.failures,
        "next_filling": pool.next_filling,
        "shortage": None
        if shortage is None
        else {
            "missing": shortage.missing,
            "cause": shortage.cause.value,
            "reason": shortage.reason,
            "since": shortage.since,
        },
    }


def pool_with_nodes_to_json(pool: PoolOverview, nodes: Iterable[PoolNode]) -> dict[str, Value]:
    """Return a pool as the schema ``pool`` describes it, with its nodes."""
    return {**pool_to_json(pool), "nodes": [pool_node_to_json(node) for node in nodes]}


def nodes_to_json(nodes: Iterable[PoolNode]) -> dict[str, Value]:
    """Return nodes as the schema ``pool-nodes`` describes them."""
    return {"nodes": [pool_node_to_json(node) for node in nodes]}


def pool_node_to_json(node: PoolNode) -> dict[str, Value]:
    """Return a node as one of the schema ``pool-nodes``."""
    return {
        "id": node.id,
        "state": node.state.value,
        "pool": node.pool,
        "session": node.session,
        "hostname": node.hostname,
        "ipaddr": node.ipaddr,
        "host": node.host,
        "comment": node.comment,
        "reusable": node.reusable,
        "created_at": node.created_at,
        "changed": node.changed,
        "retired_at": node.retired_at,
        "error": failure_of(node),
    }


def sessions_to_json(sessions: Iterable[SessionOverview]) -> dict[str, Value]:
    """Return sessions as the schema ``sessions`` describes them."""
    return {"sessions": [session_view_to_json(session) for session in sessions]}


def session_view_to_json(view: SessionOverview) -> dict[str, Value]:
    """Return a session as one of the schema ``sessions``; times are in seconds since the epoch."""
    session = view.session
    return {
        "id": session.id,
        "tenant": view.tenant,
        "active": session.is_active,
        "created_at": session.created_at,
        "expires_at": session.expires_at,
        "retired_at": session.retired_at,
        "requested": [
            {"pool": spec.pool, "quantity": spec.quantity, "properties": [*map(str, spec.properties)]}
            for spec in session.specs
        ],
        "nodes": [_leased_to_json(node, view) for node in session.leased],
    }


def _leased_to_json(node: LeasedNode, view: SessionOverview) -> dict[str, Value]:
    """Return a node of a session; ``state`` and ``ssh`` are ``None`` if the session no longer has it."""
    state = view.states.get(node.id)
    return {
        "id": node.id,
        "pool": node.pool,
        "hostname": node.hostname,
        "ipaddr": node.ipaddr,
        "state": None if state is None else state.value,
        "ssh": None if state is None else ssh_command(node),
    }
