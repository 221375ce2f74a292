"""Reads the facts that the Nagios checks judge. A host's own check runs every two minutes: it imports little."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.operator.one_host import read_host

if TYPE_CHECKING:
    from zkdeployment.fleet.fleet_health import MonitoredFleet
    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.model.servers import Servers
    from zkdeployment.model.tree import Properties


def read_own_host(servers: Servers, host_id: str, *, timeout: float) -> tuple[FleetSnapshot, Properties | None]:
    """Return the cluster, what stops it, and the host's node (``None`` if it is not registered).

    Raises ``UnreachableError`` before ``timeout`` seconds have passed.
    """
    with _open(servers, timeout) as session:
        return read_host(session, host_id)


def read_fleet(servers: Servers, *, timeout: float) -> MonitoredFleet:
    """Return the fleet with its locks, syncer, checks and host pools; raises as ``read_own_host`` does."""
    from zkdeployment.adapters.zookeeper.locks.contention import read_locks  # noqa: PLC0415  see above
    from zkdeployment.adapters.zookeeper.operator.fleet_reader import ZooKeeperFleetReader  # noqa: PLC0415
    from zkdeployment.adapters.zookeeper.pools.store import ZooKeeperPools  # noqa: PLC0415
    from zkdeployment.fleet.fleet_health import MonitoredFleet  # noqa: PLC0415
    from zkdeployment.pools.overview import pools_status  # noqa: PLC0415
    from zkdeployment.wiring.checks import check_adapters  # noqa: PLC0415

    with _open(servers, timeout) as session:
        reader = ZooKeeperFleetReader(session)
        locks, syncer, store = read_locks(session), reader.syncer_report(), ZooKeeperPools(session)
        pools = pools_status(store.configuration(), store.read())
        checks = check_adapters(session).summary(time.time())
        return MonitoredFleet(reader.snapshot(), locks, syncer, checks, pools)


def _open(servers: Servers, timeout: float) -> Session:
    """Return a session that reports ZooKeeper's silence before the time of the whole check is up."""
    return Session(servers, session_timeout=10, call_timeout=0.6 * timeout, close_timeout=0.2 * timeout)
