"""Leases of hosts: one node for each host, and the keys that sign them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.agent.rules.lease import Lease, lease_from_properties
from zkdeployment.base.errors import HostFilesError, ProgramError, TreeError, UnreachableError, UntrustedError
from zkdeployment.base.host import Host
from zkdeployment.base.log import get_logger
from zkdeployment.base.records import unknown_keys
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.rules.host_lease import (
    LeaseSnapshot,
    RecordedLease,
    SignedLease,
    lease_text,
    next_signed_number,
)
from zkdeployment.publishing.signing.statement import SignedStatement
from zkdeployment.publishing.store.cluster import cluster_of
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.transactions import ANY_VERSION, Check, Create, Operation, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.publishing.ports import PublicationSigner, PublisherKeys
    from zkdeployment.zookeeper.session import Session


class LeaseKeys:
    """Signs leases with ``own``, and verifies signatures by ``own`` and by ``others``.

    ``others`` are the publishers in the configuration of the worker: an old key, and the keys of other workers.
    ``now`` returns the time in seconds since the epoch.
    """

    def __init__(
        self, own: PublicationSigner, now: Callable[[], float], others: PublisherKeys | None = None
    ) -> None:
        self._own = own
        self._now = now
        self._others = others

    def sign(self, host_id: str, lease: Lease) -> str:
        """Return the signature of the lease of a host."""
        return self._own.start(lease_text(host_id, lease))()

    def made(self, host_id: str, signed: SignedLease) -> bool:
        """Whether a lease is signed with the key of this worker."""
        return bool(signed.signature) and self._own.made(_statement(host_id, signed))

    def accepts(self, host_id: str, signed: SignedLease) -> bool:
        """Whether a lease is signed with one of the keys; raises ``HostFilesError`` if they cannot be read."""
        if not signed.signature:
            return False
        if self._own.made(_statement(host_id, signed)):
            return True
        if self._others is None:
            return False
        try:
            self._others.verify(_statement(host_id, signed))
        except UntrustedError:
            return False
        return True

    def next_number(self, verified: Lease | None) -> int:
        """Return the number of a new lease; raises ``TreeError`` if the verified lease has an implausible one."""
        return next_signed_number(0 if verified is None else verified.number, self._now())


def _statement(host_id: str, signed: SignedLease) -> SignedStatement:
    return SignedStatement(lease_text(host_id, signed.lease), signed.signature)


_PROPERTIES = frozenset({"role", "number", "keys", "signature"})

#: Attempts to write a lease that other programs write concurrently.
_ATTEMPTS = 20


def decode_lease(path: str, node: Node | None) -> Lease | None:
    """Return the lease in a node; raises ``TreeError`` if the node is not a lease."""
    if node is None:
        return None
    try:
        return lease_from_properties(node.properties)
    except ValueError as error:
        raise TreeError(
            f"{path} is not a lease: {error}; correct the node, or delete it if the host has no publishers"
        ) from error


class ZooKeeperSignedLeases:
    """The leases with their signatures, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, host_id: str) -> SignedLease | None:
        """Read the lease of a host; ``None`` if it has none. Raises ``TreeError`` for a malformed one."""
        path = pool_paths.lease_path(host_id)
        return _decode_signed(path, self._session.get(path))


class ZooKeeperLeases:
    """The leases through one session, signed if there are ``keys``.

    With keys, the content of a lease that none of them signed is never used. The number of a signed lease follows
    the time, so that numbers grow even if ZooKeeper loses nodes. All methods may be called from any thread; they
    raise ``UnreachableError``.
    """

    def __init__(self, session: Session, keys: LeaseKeys | None = None) -> None:
        self._session = session
        self._keys = keys
        self._has_renewed = keys is None

    def renew(self, recorded: Callable[[], Mapping[str, RecordedLease]]) -> None:
        """Sign all leases that are not signed with the key of this worker, once, because the key may be new.

        A lease with another accepted signature stays unchanged. Any other lease is replaced by one with the role
        and the keys that ``recorded`` returns for the host; a host that is not recorded keeps its lease, which is
        logged.
        """
        if self._has_renewed or self._keys is None:
            return
        records = recorded()
        for name in self._session.children(pool_paths.LEASES) or ():
            try:
                if not self._renew(self._keys, unquote(name), records.get(unquote(name))):
                    return  # another worker changed the lease: the next call continues
            except TreeError as error:
                get_logger().warning("lease-not-signed", host=unquote(name), reason=str(error))
        self._has_renewed = True

    def _renew(self, keys: LeaseKeys, host_id: str, record: RecordedLease | None) -> bool:
        """Sign one lease if necessary; return false after a concurrent change."""
        path = pool_paths.lease_path(host_id)
        node = self._session.get(path)
        if node is None:
            return True
        signed = _decode_unverified(path, node)
        if signed is not None and keys.made(host_id, signed):
            return True
        lease = kept = session = None
        if signed is not None and keys.accepts(host_id, signed):
            keys.next_number(signed.lease)  # raises an error for an implausible number
            lease, kept = signed.lease, node
        elif record is not None:
            lease, session = Lease(record.role, keys.next_number(None), record.keys), record.session
        if lease is None:
            get_logger().warning("lease-not-signed", host=host_id, reason="no worker signed it, no pool has it")
            return True
        try:
            self._session.commit(*_guard(session), Set(path, self._encode(host_id, lease, kept), node.version))
        except TransactionError:
            return False
        event = "lease-signed" if signed is not None and lease == signed.lease else "lease-replaced"
        get_logger().info(event, lease=path, number=lease.number)
        return True

    def restore(self, idle: Mapping[str, Lease]) -> None:
        """Write a lease with the next number for each host in ``idle`` that has none; does nothing without keys.

        A host with publishers that was leased once refuses the absence of a lease.
        """
        if self._keys is None or not idle:
            return
        existing = {unquote(name) for name in self._session.children(pool_paths.LEASES) or ()}
        for host_id in sorted(idle.keys() - existing):
            try:
                number = self._keys.next_number(idle[host_id])
            except TreeError:  # another program wrote the number
                number = self._keys.next_number(None)
            lease, path = Lease(idle[host_id].role, number), pool_paths.lease_path(host_id)
            try:
                self._session.ensure(pool_paths.LEASES)
                self._session.commit(Create(path, self._encode(host_id, lease, None)))
                get_logger().info("lease-restored", lease=path, number=number)
            except TransactionError:  # another worker has given the host a lease
                continue
            except (HostFilesError, ProgramError) as error:
                get_logger().warning("lease-not-restored", lease=path, reason=str(error))

    def give(self, host_id: str, role: str | None, keys: Sequence[str], session: int | None = None) -> Lease:
        """Give a host a role (``None``: no change) and keys, with the next number, and return the lease.

        ``session`` is the session whose keys these are. The lease is written only while that session is active, so
        a worker that was frozen cannot give keys of a session that has ended. A lease that already has both stays
        unchanged, unless the host failed to follow it: the next number makes the host try again. With ``keys``, a
        lease without a valid signature is ignored. Raises ``ProgramError`` if a host without a lease would keep
        its role, or if the session has ended, and ``TreeError`` if the present lease is malformed.
        """
        self._session.ensure(pool_paths.LEASES)
        path = pool_paths.lease_path(host_id)
        for _ in range(_ATTEMPTS):
            node, host, active = self._session.get_many([path, f"{paths.HOSTS}/{host_id}", _active(session)])
            if session is not None and active is None:
                raise ProgramError(f"the host {host_id} gets no keys: session {session} has ended")
            present = self._present(host_id, path, node)
            wanted = role or (None if present is None else present.role)
            if wanted is None:
                self._has_renewed = self._keys is None
                expected = path if self._keys is None else f"{path} with the signature of a worker"
                raise ProgramError(f"the host {host_id} has no lease: expected {expected}; deprovision the node")
            is_equal = present is not None and (present.role, present.keys) == (wanted, tuple(keys))
            if present is not None and is_equal and not _has_failed(present, node, host):
                return present
            number = _next_number(present, host) if self._keys is None else self._keys.next_number(present)
            lease = Lease(wanted, number, tuple(keys))
            data = self._encode(host_id, lease, None if present is None else node)
            try:
                write = Create(path, data) if node is None else Set(path, data, node.version)
                self._session.commit(*_guard(session), write)
            except TransactionError:
                continue
            return lease
        raise UnreachableError(f"{path} is changed all the time by other programs")

    def _present(self, host_id: str, path: str, node: Node | None) -> Lease | None:
        """Return the present lease of a host; with keys, ``None`` for a lease that none of them signed."""
        if self._keys is None:
            return decode_lease(path, node)
        signed = _decode_unverified(path, node)
        return signed.lease if signed is not None and self._keys.accepts(host_id, signed) else None

    def _encode(self, host_id: str, lease: Lease, before: Node | None) -> bytes:
        """Return the data of a lease, with properties of the node ``before`` that only other versions know."""
        signature = {} if self._keys is None else {"signature": self._keys.sign(host_id, lease)}
        unknown = {} if before is None else unknown_keys(before.properties, _PROPERTIES)
        return encode({**unknown, **lease.to_json(), **signature})

    def observe(self, host_id: str) -> LeaseSnapshot:
        """Return the present state of a host and its lease; raises ``TreeError`` if the lease is malformed."""
        path = pool_paths.lease_path(host_id)
        lease, host, cluster = self._session.get_many([path, f"{paths.HOSTS}/{host_id}", paths.HOSTS])
        return LeaseSnapshot(
            lease=decode_lease(path, lease),
            host=None if host is None else Host.from_properties(host_id, host.properties),
            cluster=None if cluster is None else cluster_of(cluster),
            has_acted=lease is not None and host is not None and host.changed > lease.changed,
        )

    def wait(self, host_ids: Sequence[str], timeout: float) -> None:
        """Wait up to ``timeout`` seconds for a change of one of these hosts."""
        changed = threading.Event()
        for host_id in host_ids:
            self._session.exists(f"{paths.HOSTS}/{host_id}", lambda _: changed.set())
        changed.wait(timeout)


def _active(session: int | None) -> str:
    """Return the path of the record that a session has while it is active."""
    return f"{pool_paths.SESSIONS}/{session}"


def _guard(session: int | None) -> tuple[Operation, ...]:
    """Return the operation that fails a transaction if the session whose keys it writes has ended."""
    return () if session is None else (Check(_active(session), ANY_VERSION),)


def _decode_signed(path: str, node: Node | None) -> SignedLease | None:
    lease = decode_lease(path, node)
    if node is None or lease is None:
        return None
    signature = node.properties.get("signature")
    return SignedLease(lease, signature if isinstance(signature, str) else "")


def _decode_unverified(path: str, node: Node | None) -> SignedLease | None:
    """Return a lease whose signature is not verified; ``None`` for a malformed one, which no worker signed."""
    try:
        return _decode_signed(path, node)
    except TreeError:
        return None


def _has_failed(present: Lease, node: Node | None, host: Node | None) -> bool:
    """Whether a host has shown an error since its present lease; a host does not try the same lease again."""
    if node is None or host is None:
        return False
    shown = Host.from_properties("", host.properties)
    has_acted = host.changed > node.changed or shown.lease_failed == present.number
    return shown.error is not None and has_acted and shown.leased != present.reached


def _next_number(present: Lease | None, host: Node | None) -> int:
    """Return a number larger than those of the present lease and of the lease that the host has reached."""
    leased = None if host is None else Host.from_properties("", host.properties).leased
    return max(0 if present is None else present.number, 0 if leased is None else leased.number) + 1
