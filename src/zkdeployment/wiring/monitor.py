"""Reads the facts that the Nagios checks judge. A host's own check runs every two minutes: it imports little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.operator.one_host import read_host

if TYPE_CHECKING:
    from zkdeployment.checks.overview import CheckSummary
    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.model.lock import Lock
    from zkdeployment.model.publication import SyncerReport
    from zkdeployment.model.servers import Servers
    from zkdeployment.model.tree import Properties


def read_own_host(servers: Servers, host_id: str, *, timeout: float) -> tuple[FleetSnapshot, Properties | None]:
    """Return the cluster, what stops it, and the host's node (``None`` if it is not registered).

    Raises ``UnreachableError`` before ``timeout`` seconds have passed.
    """
    with _open(servers, timeout) as session:
        return read_host(session, host_id)


def read_fleet(
    servers: Servers, *, timeout: float
) -> tuple[FleetSnapshot, tuple[Lock, ...], SyncerReport | None, CheckSummary]:
    """Return the fleet, its locks, the syncer's last report, and what waits for monitoring systems.

    Raises as ``read_own_host`` does.
    """
    from zkdeployment.adapters.zookeeper.locks.contention import read_locks  # noqa: PLC0415  see above
    from zkdeployment.adapters.zookeeper.operator.fleet_reader import ZooKeeperFleetReader  # noqa: PLC0415
    from zkdeployment.wiring.checks import check_adapters  # noqa: PLC0415

    with _open(servers, timeout) as session:
        reader = ZooKeeperFleetReader(session)
        locks, syncer = read_locks(session), reader.syncer_report()
        return reader.snapshot(), locks, syncer, check_adapters(session).summary()


def _open(servers: Servers, timeout: float) -> Session:
    """Return a session that reports ZooKeeper's silence before the time of the whole check is up."""
    return Session(servers, session_timeout=10, call_timeout=0.6 * timeout, close_timeout=0.2 * timeout)
