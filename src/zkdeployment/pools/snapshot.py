"""One reading of all pools, and the changes that are written together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.pools.tenant_session import wanted_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.pools.filling_record import FillingRecord
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.requests.waiting_request import WaitingRequest
    from zkdeployment.pools.tenant_session import TenantSession


#: The most nodes that a session, a step or a task has: one transaction writes the records of all its nodes.
MOST_NODES = 200


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """The nodes that are not done, and the active sessions, by id.

    ``claimed`` are the ids of the nodes that a process is working on, ``own_claims`` those that this process is
    working on. ``tenants`` are the versions of the guards of tenants, by id: a guard changes with each session of
    the tenant that begins or ends. ``filling`` is what is recorded about the filling of pools, by name. ``hosts``
    are the ids of the nodes that are hosts of this fleet, by the ids of the hosts, also of nodes that are done.
    ``workers`` are the names of the workers that run. ``waiting`` are the requests that wait for nodes, and those
    whose wait ended lately, by id.
    """

    nodes: Mapping[int, PoolNode] = field(default_factory=dict)
    sessions: Mapping[int, TenantSession] = field(default_factory=dict)
    claimed: frozenset[int] = frozenset()
    tenants: Mapping[int, int] = field(default_factory=dict)
    own_claims: frozenset[int] = frozenset()
    filling: Mapping[str, FillingRecord] = field(default_factory=dict)
    hosts: Mapping[str, int] = field(default_factory=dict)
    workers: tuple[str, ...] = ()
    waiting: Mapping[int, WaitingRequest] = field(default_factory=dict)

    def held(self, tenant: int) -> int:
        """Return the number of nodes in a tenant's active sessions."""
        return sum(len(session.nodes) for session in self.sessions.values() if session.tenant == tenant)

    def held_by_pool(self, tenant: int) -> Counter[str]:
        """Return the numbers of nodes in a tenant's active sessions, by pool."""
        own = (session for session in self.sessions.values() if session.tenant == tenant)
        return sum((wanted_nodes(session.specs) for session in own), Counter())


@dataclass(frozen=True, slots=True)
class PoolChange:
    """Changes that are written in one transaction.

    ``nodes`` and ``sessions`` are written unchanged; new ones have no stamp. ``deleted`` and ``dropped`` are
    removed without a trace: nodes that could not be made, and sessions that did not begin. ``claimed`` are the ids
    of nodes that this process begins to work on, ``released`` those that it has finished. ``filling`` are the new
    records of pools, by name: two processes never fill a pool at the same time, because both write its record.
    ``waiting`` are requests that are written, ``answered`` those whose record is removed.
    """

    nodes: tuple[PoolNode, ...] = ()
    sessions: tuple[TenantSession, ...] = ()
    deleted: tuple[PoolNode, ...] = ()
    dropped: tuple[TenantSession, ...] = ()
    claimed: frozenset[int] = frozenset()
    released: frozenset[int] = frozenset()
    filling: Mapping[str, FillingRecord] = field(default_factory=dict)
    waiting: tuple[WaitingRequest, ...] = ()
    answered: tuple[WaitingRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolHistory:
    """Sessions that ended and nodes that are done, in the order of their ids."""

    sessions: tuple[TenantSession, ...] = ()
    nodes: tuple[PoolNode, ...] = ()
