"""Requests that wait for nodes: their record, and the end of their wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from zkdeployment.base.records import APART, OMITTED, Record, no_keys
from zkdeployment.pools.rules.node import OptionalTime, Time
from zkdeployment.pools.rules.tenant_session import NodesSpec, PublicKeys, wanted_nodes

if TYPE_CHECKING:
    from collections import Counter

    from zkdeployment.pools.rules.tenant_session import TenantSession

#: The shortest and the longest time in seconds that a request may wait.
SHORTEST_WAIT = 1.0
LONGEST_WAIT = 7 * 86400.0

#: Seconds for which the record of a request is kept after its wait has ended without a session.
KEPT = 3600.0

#: The number of failed sessions (whose nodes could not be prepared) after which a request ends.
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequest(Record):
    """A request of a tenant that waits for nodes until ``expires_at``; its session gets the same id.

    ``failures`` counts its sessions whose nodes could not be prepared. ``outcome`` is the reason why the wait
    ended without a session, at ``ended_at``; both are ``None`` while the request waits. ``ssh_key`` are the public
    keys for the session, one in each line; ``None``: those of the tenant. Times are in seconds since the epoch.
    ``stamp`` is the version of the record when it was read, ``None`` for a new one. ``unknown`` are the keys of
    the record that this version does not know.
    """

    omits_unset: ClassVar[bool] = True
    id: int
    tenant: int
    specs: tuple[NodesSpec, ...]
    created_at: Time
    expires_at: Time
    requested_by: str | None = None
    ssh_key: PublicKeys = None
    failures: Annotated[int, OMITTED] = 0
    ended_at: OptionalTime = None
    outcome: str | None = None
    stamp: Annotated[int | None, APART] = field(default=None, compare=False)
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    @property
    def is_waiting(self) -> bool:
        """Whether the request may still get nodes."""
        return self.ended_at is None

    @property
    def wanted(self) -> Counter[str]:
        """The number of nodes by pool."""
        return wanted_nodes(self.specs)

    def ended(self, outcome: str, now: float) -> WaitingRequest:
        """Return the request after its wait ended without a session; its keys are dropped."""
        return replace(self, outcome=outcome, ended_at=now, ssh_key=None)


def in_queue_again(session: TenantSession, reason: str, now: float) -> tuple[WaitingRequest, ...]:
    """Return the request of a session whose nodes could not be prepared; empty if the request did not wait.

    The request keeps its age. After three such sessions it ends, because a request must not use up a whole pool.
    """
    if session.waiting_until is None:
        return ()
    request = WaitingRequest(
        id=session.id,
        tenant=session.tenant,
        specs=session.specs,
        created_at=session.created_at if session.requested_at is None else session.requested_at,
        expires_at=session.waiting_until,
        requested_by=session.requested_by,
        ssh_key=session.ssh_key,
        failures=session.failures + 1,
    )
    return (request.ended(reason, now) if request.failures >= _TRIES else request,)
