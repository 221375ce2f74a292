"""The leases that hosts have according to the records of nodes and sessions, whatever their leases' nodes hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.documents.pools.values import RoleMechanism
from zkdeployment.pools.node import NodeState
from zkdeployment.pools.tenant_session import admitted_keys

if TYPE_CHECKING:
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.work import PoolObservation


def recorded_leases(observation: PoolObservation) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the role and the keys of each host that is a node, by the host's id.

    Roles are those of the pools' document. Only the keys of a registered tenant or of its session are given,
    and only to a node whose session has begun. Hosts whose role is not known are left out.
    """
    return {
        node.host: (role, _keys(node, observation))
        for node in observation.snapshot.nodes.values()
        if node.host is not None and (role := _role(node, node.host, observation)) is not None
    }


def _role(node: PoolNode, host_id: str, observation: PoolObservation) -> str | None:
    if node.state is not NodeState.UNUSED:
        pool = observation.pool_of(node)
        return pool.mechanism.leased if pool is not None and isinstance(pool.mechanism, RoleMechanism) else None
    mechanisms = (pool.mechanism for pool in observation.sources.configuration.pools.values())
    idle_roles = {mechanism.idle for mechanism in mechanisms if isinstance(mechanism, RoleMechanism)}
    host = observation.sources.hosts.get(host_id)
    return host.idle_role if host is not None and host.idle_role in idle_roles else None


def _keys(node: PoolNode, observation: PoolObservation) -> tuple[str, ...]:
    session = None if node.session is None else observation.snapshot.sessions.get(node.session)
    if node.state is not NodeState.DEPLOYED or session is None:
        return ()
    return admitted_keys(session, observation.sources.tenants.get(session.tenant))
