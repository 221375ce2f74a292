"""Leases of hosts: one node for each host, which the host's agent follows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Set, TransactionError
from zkdeployment.errors import ProgramError, TreeError, UnreachableError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import Cluster
from zkdeployment.model.host import Host
from zkdeployment.pools.lease import Lease, lease_from_properties
from zkdeployment.pools.lease_progress import LeaseObservation
from zkdeployment.pools.signed_lease import SignedLease, lease_text
from zkdeployment.signing.statement import SignedStatement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.ports.publication import PublicationSigner

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


class ZooKeeperSignedLeases:
    """The leases with their signatures, through one session (implements ``ports.trust.SignedLeases``)."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, host_id: str) -> SignedLease | None:
        path = paths.lease_path(host_id)
        return _decode_signed(path, self._session.get(path))


class ZooKeeperLeases:
    """The leases through one session (a ``LeaseStore``), signed with ``key`` if there is one.

    The number of a signed lease is at least ``now()`` in seconds, so that it grows even if ZooKeeper loses nodes.
    """

    def __init__(
        self, session: Session, key: PublicationSigner | None = None, now: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._session = session
        self._key = key
        self._now = now
        self._has_signed = key is None

    def sign_standing(self) -> None:
        """Sign all leases that are not signed with this key, once: the key is new, or there was none before."""
        if self._has_signed or self._key is None:
            return
        for name in self._session.children(paths.POOL_LEASES) or ():
            path = f"{paths.POOL_LEASES}/{name}"
            node = self._session.get(path)
            try:
                signed = _decode_signed(path, node)
            except TreeError as error:
                get_logger().warning("lease-not-signed", lease=path, reason=str(error))
                continue
            if node is not None and signed is not None and not self._is_signed(unquote(name), signed):
                data = self._encode(unquote(name), signed.lease)
                try:
                    self._session.commit(Set(path, data, node.version))
                except TransactionError:
                    return  # another worker changed it: the next call continues
                get_logger().info("lease-signed", lease=path, number=signed.lease.number)
        self._has_signed = True

    def give(self, host_id: str, role: str | None, keys: Sequence[str]) -> Lease:
        self._session.ensure(paths.POOL_LEASES)
        path = paths.lease_path(host_id)
        for _ in range(_ATTEMPTS):
            node, host = self._session.get_many([path, f"{paths.HOSTS}/{host_id}"])
            signed = _decode_signed(path, node)
            present = None if signed is None else signed.lease
            wanted = role or (None if present is None else present.role)
            if wanted is None:
                raise ProgramError(f"the host {host_id} has no lease: expected {path}; deprovision the node")
            is_same = present is not None and (present.role, present.keys) == (wanted, tuple(keys))
            if present is not None and signed is not None and is_same and self._is_signed(host_id, signed):
                return present
            number = _next_number(present, host)
            lease = Lease(wanted, max(number, int(self._now())) if self._key else number, tuple(keys))
            data = self._encode(host_id, lease)
            try:
                self._session.commit(Create(path, data) if node is None else Set(path, data, node.version))
            except TransactionError:
                continue
            return lease
        raise UnreachableError(f"{path} is changed all the time by other programs")

    def _is_signed(self, host_id: str, signed: SignedLease) -> bool:
        """Whether a lease is signed with the key of this worker; every lease is if there is no key."""
        statement = SignedStatement(lease_text(host_id, signed.lease), signed.signature)
        return self._key is None or (bool(signed.signature) and self._key.made(statement))

    def _encode(self, host_id: str, lease: Lease) -> bytes:
        signature = {} if self._key is None else {"signature": self._key.start(lease_text(host_id, lease))()}
        return encode(lease.properties() | signature)

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


def _decode_signed(path: str, node: Node | None) -> SignedLease | None:
    lease = decode_lease(path, node)
    if node is None or lease is None:
        return None
    signature = node.properties.get("signature")
    return SignedLease(lease, signature if isinstance(signature, str) else "")


def _next_number(present: Lease | None, host: Node | None) -> int:
    """Return a number that is larger than that of the lease, and than the one that the host has reached."""
    leased = None if host is None else Host.from_properties("", host.properties).leased
    return max(0 if present is None else present.number, 0 if leased is None else leased.number) + 1
