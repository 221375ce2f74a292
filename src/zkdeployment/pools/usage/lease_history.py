"""Who had which node, and when: one lease for each node of each session, for audits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.model.tree import Value
    from zkdeployment.pools.tenant_session import LeasedNode, TenantSession


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLease:
    """A node that a tenant had, from the beginning of a session until its end; ``None``: it has not ended.

    Times are in seconds since the epoch.
    """

    node: LeasedNode
    session: TenantSession
    tenant: str

    @property
    def begin(self) -> float:
        """When the session began."""
        return self.session.created_at

    @property
    def end(self) -> float | None:
        """When the session ended."""
        return self.session.retired_at

    def to_json(self) -> dict[str, Value]:
        """Return the lease as one of the schema ``session-history``."""
        return {
            "node": self.node.id,
            "pool": self.node.pool,
            "hostname": self.node.hostname,
            "ipaddr": self.node.ipaddr,
            "session": self.session.id,
            "tenant": self.tenant,
            "begin": self.begin,
            "end": self.end,
            "expires_at": self.session.expires_at,
            "requested_by": self.session.requested_by,
            "retired_by": self.session.retired_by,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFilter:
    """The leases that a request selects: all that match each of the values that are given.

    ``node`` is the id, the name or the address of a node, ``tenant`` the name of a user. ``since`` is in seconds
    since the epoch: leases that ended before are left out.
    """

    node: str | None = None
    tenant: str | None = None
    since: float = 0.0

    def selects(self, lease: NodeLease) -> bool:
        """Whether the filter selects a lease."""
        return (
            self.node in {None, str(lease.node.id), lease.node.hostname, lease.node.ipaddr}
            and self.tenant in {None, lease.tenant}
            and (lease.end is None or lease.end >= self.since)
        )


def lease_history(
    sessions: Iterable[TenantSession], tenants: Mapping[int, str], wanted: LeaseFilter
) -> tuple[NodeLease, ...]:
    """Return the leases that a filter selects, the newest first; ``tenants`` are the names of users by id."""
    leases = [
        NodeLease(node=node, session=session, tenant=tenant_name(session, tenants))
        for session in sessions
        for node in session.leased
    ]
    return tuple(sorted(filter(wanted.selects, leases), key=lambda lease: (-lease.begin, lease.node.id)))


def tenant_name(session: TenantSession, tenants: Mapping[int, str]) -> str:
    """Return the name of a session's tenant, or its id where the name is not known."""
    return tenants.get(session.tenant, f"tenant {session.tenant}")
