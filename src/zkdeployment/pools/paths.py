"""The paths of the nodes of host pools."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from zkdeployment.zookeeper.paths import OURS

if TYPE_CHECKING:
    from collections.abc import Sequence

POOLS = f"{OURS}/pools"
NODES = f"{POOLS}/nodes"
NODES_DONE = f"{POOLS}/done"
SESSIONS = f"{POOLS}/sessions"
SESSIONS_ENDED = f"{POOLS}/ended"
TENANTS = f"{POOLS}/tenants"
CLAIMS = f"{POOLS}/claims"
CHANGES = f"{POOLS}/changes"
FILLING = f"{POOLS}/filling"
WAITING = f"{POOLS}/waiting"
HOSTS = f"{POOLS}/hosts"
WORKERS = f"{POOLS}/workers"
RUNS = f"{POOLS}/runs"
LEASES = f"{POOLS}/leases"


def lease_path(host_id: str) -> str:
    """Return the path of a host's lease."""
    return f"{LEASES}/{quote(host_id, safe='')}"


def host_nodes(host_id: str) -> Sequence[str]:
    """Return the paths of the nodes of pools for a host."""
    return [lease_path(host_id)]
