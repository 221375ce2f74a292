"""Reads the lease of a host with publishers: only a lease that is signed and not older than the last one.

A host without publishers believes ZooKeeper and does not use this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import UntrustedError
from zkdeployment.pools.signed_lease import accepted_lease, lease_text, require_no_lease, require_signature
from zkdeployment.signing.statement import SignedStatement

if TYPE_CHECKING:
    from zkdeployment.adapters.host_files.verified_lease_file import VerifiedLeaseFile
    from zkdeployment.adapters.zookeeper.pools.leases import ZooKeeperSignedLeases
    from zkdeployment.model.host import Identity
    from zkdeployment.pools.lease import Lease
    from zkdeployment.ports.trust import PublisherKeys


class TrustedLeases:
    """Reads and verifies the lease of one host; ``memory`` keeps the last one that was verified."""

    def __init__(self, leases: ZooKeeperSignedLeases, keys: PublisherKeys, memory: VerifiedLeaseFile) -> None:
        self._leases = leases
        self._keys = keys
        self._memory = memory

    def lease(self, identity: Identity, *, remembers: bool = True) -> Lease | None:
        """Return the lease of this host, ``None`` if it never had one; remember it before the host follows it.

        Raises ``UntrustedError`` if the lease is not signed, not signed by a publisher, older than one that was
        verified before, or gone; ``TreeError`` if it is malformed; ``HostFilesError`` if the keys or the memory
        cannot be used.
        """
        found, known = self._leases.read(identity.id), self._memory.read_lease()
        try:
            if found is None:
                require_no_lease(known)
                return None
            require_signature(found)
            text = lease_text(identity.id, found.lease)
            self._keys.verify(SignedStatement(text, found.signature))
            accepted = accepted_lease(text, found.lease, known)
        except UntrustedError as error:
            raise UntrustedError(
                f"{error}; find out who changed the lease, check lease-key in [pools] of the workers, and give the"
                " host a new lease with 'zkdeployment session retire' or 'zkdeployment node drain'"
            ) from error
        if remembers and accepted != known:
            self._memory.write_lease(accepted)
        return found.lease
