"""Removes records that nothing uses any more: of hosts that are gone, and of pools that no document describes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.transactions import Delete, TransactionError
from zkdeployment.adapters.zookeeper.pools.registered_hosts import registered_hosts

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.pools.snapshot import PoolSnapshot


def remove_ownerless(session: Session, read: PoolSnapshot, pools: Collection[str], before: float) -> int:
    """Remove the unused records that were last written ``before`` a time; return their number.

    These are the leases of hosts that are neither registered nor pool nodes, and the records about the filling of
    pools that are not among ``pools`` and have no nodes. A record that came into use after ``read`` was written
    again, so it stays.
    """
    used = {node.host for node in read.nodes.values()} | registered_hosts(session)
    described = {node.pool for node in read.nodes.values()} | set(pools)
    leases, fillings = session.look((), (paths.POOL_LEASES, paths.POOL_FILLING))[1]
    ownerless = [f"{paths.POOL_LEASES}/{name}" for name in leases or () if unquote(name) not in used]
    ownerless += [f"{paths.POOL_FILLING}/{name}" for name in fillings or () if name not in described]
    removed = 0
    for path, node in zip(ownerless, session.get_many(ownerless), strict=True):
        if node is not None and node.modified < before:
            with contextlib.suppress(TransactionError):  # another process has written or removed it
                session.commit(Delete(path, node.version))
                removed += 1
    return removed
