"""Leases of hosts: their signatures, the baseline of a host before one, and the stage that a host has reached."""

from __future__ import annotations

import hashlib
import json
from enum import Enum
from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.cluster import Cluster, ClusterState
from zkdeployment.base.errors import TreeError, UntrustedError
from zkdeployment.base.json_values import with_schema
from zkdeployment.base.records import Key, Record
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.agent.rules.lease import Lease
    from zkdeployment.base.host import Host
    from zkdeployment.base.json_values import Value


_SCHEMA = "signed-lease"

#: Seconds by which the number of a lease may be ahead of the time, because each lease raises it.
_AHEAD = 86_400


@dataclass(frozen=True, slots=True)
class SignedLease:
    """A lease as its node holds it, not verified; ``signature`` is empty for an unsigned lease."""

    lease: Lease
    signature: str = ""


@dataclass(frozen=True, slots=True)
class RecordedLease:
    """The role and the keys that the records of pools give a host; ``session`` is the session of the keys."""

    role: str
    keys: tuple[str, ...] = ()
    session: int | None = None


@dataclass(frozen=True, slots=True)
class VerifiedLease:
    """The last lease that a host verified: its number (0: none), and the digest of its text."""

    number: int = 0
    digest: str = ""


def lease_text(host_id: str, lease: Lease) -> str:
    """Return the text to sign for the lease of a host: canonical JSON in one line, without a line end."""
    body: dict[str, Value] = {"host": host_id, **lease.to_json()}
    return json.dumps(with_schema(_SCHEMA, body), separators=(",", ":"), sort_keys=True)


def accepted_lease(text: str, lease: Lease, known: VerifiedLease) -> VerifiedLease:
    """Return the record of a lease whose signature is valid for ``text``.

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

    ``verified`` is the number of the present lease if its signature is valid, else 0. Raises ``TreeError`` if that
    number is far ahead of ``now``, because hosts that follow such a lease would refuse all later ones.
    """
    if verified > now + _AHEAD:
        raise TreeError(
            f"the lease is not signed: expected a number near the time {now:.0f}, found {verified}; correct the"
            " clock of the worker, or change lease-key if another person has it"
        )
    return max(verified + 1, int(now))


def require_signature(signed: SignedLease) -> None:
    """Raise ``UntrustedError`` unless a lease has a signature, valid or not."""
    if not signed.signature:
        raise UntrustedError(
            "the lease of this host is not signed: expected a signature, because this host has publishers in its"
            " configuration, found none"
        )


def require_no_lease(known: VerifiedLease) -> None:
    """Raise ``UntrustedError`` if a host without a lease has verified a lease before."""
    if known.number:
        raise UntrustedError(
            f"the lease of this host is gone: expected lease {known.number}, which was verified before, or a later"
            " one, found none"
        )


#: The most differences in a message.
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class HostBaseline(Record):
    """The facts about a host before it took the role of a lease, and before a tenant was admitted.

    Each fact is a line of text. ``leased`` is ``None`` until the host ran the role of the lease. ``is_lent`` is
    whether a tenant was admitted after that.
    """

    idle: frozenset[str]
    leased: frozenset[str] | None = None
    is_lent: Annotated[bool, Key("lent")] = False

    def differences(self, now: frozenset[str]) -> Sequence[str]:
        """Return the differences of a host that has given its role back.

        Facts may come and go with the services of the role. Therefore a fact is new if neither recorded state had
        it, and missing if both had it.
        """
        leased = self.idle if self.leased is None else self.leased
        new = (f"new: {fact}" for fact in sorted(now - self.idle - leased))
        missing = (f"missing: {fact}" for fact in sorted((self.idle & leased) - now))
        return [*new, *missing]


def shown_differences(differences: Sequence[str]) -> str:
    """Return the first differences as text for people, and the number of the others."""
    more = len(differences) - _SHOWN
    return "; ".join(differences[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


class LeaseStage(Enum):
    """The stages of a lease; a worker waits for the last stage, up to a limit."""

    REACHED = "reached"
    ABSENT = "the host is not registered"
    WAITING = "waiting"
    HALTED = "the fleet is stopped or held"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LeaseProgress:
    """The stage of a lease, and a text for people with the obstacle or the reason of a failure."""

    stage: LeaseStage
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeaseSnapshot:
    """A host that is registered, its lease, and the cluster, at one moment.

    ``has_acted`` is whether the host's node was written after the lease; otherwise an error in it may be older.
    """

    lease: Lease | None
    host: Host | None
    cluster: Cluster | None
    has_acted: bool


def lease_progress(seen: LeaseSnapshot, lease: Lease, *, needs_version: bool) -> LeaseProgress:
    """Return the progress of a host with a ``lease``.

    With ``needs_version``, the lease is reached only if the host is also at the cluster version, without an error.
    """
    host = seen.host
    if seen.lease is None or seen.lease.number != lease.number:
        found = "no lease" if seen.lease is None else f"number {seen.lease.number}"
        reason = f"another program changed the lease of the host: expected number {lease.number}, found {found}"
        return LeaseProgress(LeaseStage.FAILED, reason)
    if host is None:
        return LeaseProgress(LeaseStage.ABSENT, "the host is not registered: its agent does not run")
    if not host.is_leasable:
        role = host.identity.role or "no role"
        reason = f"the host cannot be leased: expected role = lease:IDLE in its configuration, found {role}"
        return LeaseProgress(LeaseStage.FAILED, reason)
    is_reached = host.leased == lease.reached
    if is_reached and (not needs_version or (_is_current(seen, host) and host.error is None)):
        return LeaseProgress(LeaseStage.REACHED)
    if host.error is not None and (seen.has_acted or host.lease_failed == lease.number):
        return LeaseProgress(LeaseStage.FAILED, host.error)
    if seen.cluster is None or seen.cluster.state is not ClusterState.RUNNING:
        state = "stopped" if seen.cluster is None else seen.cluster.state.value
        return LeaseProgress(LeaseStage.HALTED, f"the cluster is {state}")
    return LeaseProgress(
        LeaseStage.WAITING, f"the host is at: {host.step}" if host.step else "the host has not begun"
    )


def _is_current(seen: LeaseSnapshot, host: Host) -> bool:
    return seen.cluster is not None and host.has(seen.cluster.revision)
