"""Signed leases: the text that the worker of host pools signs, and the checks before a host follows a lease."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import TreeError, UntrustedError
from zkdeployment.output_schema import with_schema

if TYPE_CHECKING:
    from zkdeployment.model.tree import Value
    from zkdeployment.pools.lease import Lease

#: The namespace of the signatures: a signature of a lease is not valid for a publication, nor the other way round.
NAMESPACE = "zkdeployment-lease"

_SCHEMA = "signed-lease"

#: Seconds that the number of a lease may be ahead of the time: several leases in one second raise it further.
_AHEAD = 86_400


@dataclass(frozen=True, slots=True)
class SignedLease:
    """A lease as its node holds it, not checked; ``signature`` is empty without one."""

    lease: Lease
    signature: str = ""


@dataclass(frozen=True, slots=True)
class VerifiedLease:
    """The last lease that a host verified: its number (0: none), and the digest of its text."""

    number: int = 0
    digest: str = ""


def lease_text(host_id: str, lease: Lease) -> str:
    """Return the text to sign for the lease of a host: canonical JSON in one line, without a line end."""
    body: dict[str, Value] = {"host": host_id, **lease.properties()}
    return json.dumps(with_schema(_SCHEMA, body), separators=(",", ":"), sort_keys=True)


def accepted_lease(text: str, lease: Lease, known: VerifiedLease) -> VerifiedLease:
    """Return what a host remembers of a lease whose signature is valid for ``text``.

    Raises ``UntrustedError`` if the host verified a later lease before, or another one with the same number.
    """
    accepted = VerifiedLease(lease.number, hashlib.sha256(text.encode("ascii")).hexdigest())
    if lease.number < known.number:
        raise UntrustedError(
            f"the lease of this host is an old one: expected number {known.number} or a larger one, found"
            f" {lease.number}, whose signature is valid"
        )
    if lease.number == known.number and accepted != known:
        raise UntrustedError(
            f"the lease of this host has the number of another one: expected the lease {known.number} that was"
            " verified before, or a larger number"
        )
    return accepted


def next_signed_number(verified: int, now: float) -> int:
    """Return the number of a new signed lease: the time in seconds, and larger than the number ``verified``.

    ``verified`` is that of the present lease if its signature is valid, else 0. Raises ``TreeError`` if it is far
    ahead of ``now``: each host that followed such a lease would refuse all later ones.
    """
    if verified > now + _AHEAD:
        raise TreeError(
            f"the lease is not signed: expected a number near the time {now:.0f}, found {verified}; correct the"
            " clock of the worker, or change lease-key if another person has it"
        )
    return max(verified + 1, int(now))


def require_signature(signed: SignedLease) -> None:
    """Return if a lease has a signature, valid or not; raises ``UntrustedError`` if it has none."""
    if not signed.signature:
        raise UntrustedError(
            "the lease of this host is not signed: expected a signature, because this host has publishers in its"
            " configuration, found none"
        )


def require_no_lease(known: VerifiedLease) -> None:
    """Return if a host may do without a lease; raises ``UntrustedError`` if it verified one before."""
    if known.number:
        raise UntrustedError(
            f"the lease of this host is gone: expected lease {known.number}, which was verified before, or a later"
            " one, found none"
        )
