"""Leases of hosts: one node for each host, which the host's agent follows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Set, TransactionError
from zkdeployment.errors import ProgramError, TreeError, UnreachableError
from zkdeployment.model.cluster import Cluster
from zkdeployment.model.host import Host
from zkdeployment.pools.lease import Lease, lease_from_properties
from zkdeployment.pools.lease_progress import LeaseObservation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session

#: Attempts at a lease while other programs write it.
_ATTEMPTS = 20


def read_lease(session: Session, host_id: str) -> Lease | None:
    """Return the lease of a host; ``None`` if it has none. Raises ``TreeError`` for a malformed one."""
    path = paths.lease_path(host_id)
    return decode_lease(path, session.get(path))


def decode_lease(path: str, node: Node | None) -> Lease | None:
    """Return the lease that a node describes; raises ``TreeError`` if it is none."""
    if node is None:
        return None
    try:
        return lease_from_properties(node.properties)
    except ValueError as error:
        raise TreeError(f"{path} is not a lease: {error}; correct the node or delete it") from error


class ZooKeeperLeases:
    """The leases through one session (a ``LeaseStore``)."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def give(self, host_id: str, role: str | None, keys: Sequence[str]) -> Lease:
        self._session.ensure(paths.POOL_LEASES)
        path = paths.lease_path(host_id)
        for _ in range(_ATTEMPTS):
            node, host = self._session.get_many([path, f"{paths.HOSTS}/{host_id}"])
            present = decode_lease(path, node)
            wanted = role or (None if present is None else present.role)
            if wanted is None:
                raise ProgramError(f"the host {host_id} has no lease: expected {path}; deprovision the node")
            if present is not None and (present.role, present.keys) == (wanted, tuple(keys)):
                return present
            lease = Lease(wanted, _next_number(present, host), tuple(keys))
            data = encode(lease.properties())
            try:
                self._session.commit(Create(path, data) if node is None else Set(path, data, node.version))
            except TransactionError:
                continue
            return lease
        raise UnreachableError(f"{path} is changed all the time by other programs")

    def observe(self, host_id: str) -> LeaseObservation:
        path = paths.lease_path(host_id)
        lease, host, cluster = self._session.get_many([path, f"{paths.HOSTS}/{host_id}", paths.HOSTS])
        return LeaseObservation(
            lease=decode_lease(path, lease),
            host=None if host is None else Host.from_properties(host_id, host.properties),
            cluster=None if cluster is None else Cluster.from_properties(cluster.properties),
            has_acted=lease is not None and host is not None and host.changed > lease.changed,
        )

    def wait(self, host_ids: Sequence[str], timeout: float) -> None:
        changed = threading.Event()
        for host_id in host_ids:
            self._session.exists(f"{paths.HOSTS}/{host_id}", lambda _: changed.set())
        changed.wait(timeout)


def _next_number(present: Lease | None, host: Node | None) -> int:
    """Return a number that is larger than that of the lease, and than the one that the host has reached."""
    leased = None if host is None else Host.from_properties("", host.properties).leased
    return max(0 if present is None else present.number, 0 if leased is None else leased.number) + 1
