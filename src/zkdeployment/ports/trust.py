"""Ports of an agent that deploys only signed publications: reads of them, the publishers' keys, verified files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.model.host import Identity
    from zkdeployment.model.tree import Properties
    from zkdeployment.pools.signed_lease import SignedLease, VerifiedLease
    from zkdeployment.signing.snapshot import SignedSnapshot
    from zkdeployment.signing.statement import SignedStatement


class PublisherKeys(Protocol):
    """The keys whose publications this host deploys."""

    def verify(self, signed: SignedStatement) -> None:
        """Return if a publisher signed the statement.

        Raises ``UntrustedError`` if none did, ``HostFilesError`` if the keys cannot be read.
        """


class SignedLeases(Protocol):
    """The leases in ZooKeeper with their signatures."""

    def read(self, host_id: str) -> SignedLease | None:
        """Read the lease of a host; ``None`` if it has none. Raises ``TreeError`` for a malformed one."""


class LeaseMemory(Protocol):
    """The last verified lease, recorded durably. The methods raise ``HostFilesError``."""

    def read_lease(self) -> VerifiedLease:
        """Return the last verified lease."""

    def write_lease(self, lease: VerifiedLease) -> None:
        """Record a verified lease."""


class SignedPublications(Protocol):
    """The signed publication in ZooKeeper, as far as it concerns one host."""

    def snapshot(self, identity: Identity) -> SignedSnapshot:
        """Read the statement with the targets of this host, in one request.

        Raises ``ConflictError`` if a publication interfered (then call again), ``UntrustedError`` for nodes that
        no syncer can have written.
        """

    def properties(self, paths: Collection[str], snapshot: SignedSnapshot) -> Mapping[str, Properties]:
        """Read the properties of these nodes, with the values of all property links.

        Raises ``ConflictError`` if the cluster version changed since the snapshot, ``UntrustedError`` if a node or
        the target of a link does not exist.
        """


class VerifiedFiles(Protocol):
    """Files with the verified properties of services, which the scripts of this host read."""

    def replace(self, properties: Mapping[str, Properties]) -> None:
        """Write the properties of these services, by path, and remove those of others.

        Raises ``HostFilesError``.
        """

    def file(self, path: str) -> str:
        """Return the file for the properties of a service; it exists only if they were written."""
