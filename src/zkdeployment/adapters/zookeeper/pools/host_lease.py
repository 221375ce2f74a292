"""The node of a host's lease, as the host's agent reads it; ``leases`` is for the workers of host pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.errors import TreeError
from zkdeployment.pools.lease import lease_from_properties

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.pools.lease import Lease


def read_lease(session: Session, host_id: str) -> Lease | None:
    """Return the lease of a host; ``None`` if it has none. Raises ``TreeError`` for a malformed one."""
    path = paths.lease_path(host_id)
    return decode_lease(path, session.get(path))


def decode_lease(path: str, node: Node | None) -> Lease | None:
    """Return the lease in a node; raises ``TreeError`` if the node holds none."""
    if node is None:
        return None
    try:
        return lease_from_properties(node.properties)
    except ValueError as error:
        raise TreeError(f"{path} is not a lease: {error}; correct the node or delete it") from error
