"""The keys of the workers of host pools: one signs leases, and all are accepted on existing leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import UntrustedError
from zkdeployment.pools.signed_lease import lease_text, next_signed_number
from zkdeployment.signing.statement import SignedStatement

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.pools.lease import Lease
    from zkdeployment.pools.signed_lease import SignedLease
    from zkdeployment.ports.publication import PublicationSigner
    from zkdeployment.ports.trust import PublisherKeys


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
        """Return the number of a new lease; raises ``TreeError`` if that of the verified one is implausible."""
        return next_signed_number(0 if verified is None else verified.number, self._now())


def _statement(host_id: str, signed: SignedLease) -> SignedStatement:
    return SignedStatement(lease_text(host_id, signed.lease), signed.signature)
