"""A snapshot of all pools, and the changes of one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from zkdeployment.base.records import APART, Record, no_keys
from zkdeployment.pools.documents import PoolConfiguration
from zkdeployment.pools.rules.node import OptionalTime, Time, shortened
from zkdeployment.pools.rules.tenant_session import wanted_nodes

if TYPE_CHECKING:
    from zkdeployment.pools.rules.node import PoolNode
    from zkdeployment.pools.rules.tenant_session import TenantSession, WaitingRequest


@dataclass(frozen=True, slots=True)
class FillingRecord(Record):
    """The filling of a pool.

    ``failures`` is the number of failures of provisioning in a row, ``last_failure`` the time of the last one in
    seconds since the epoch, and ``reason`` the reason of that failure. ``values`` are the values of the pool when
    it was last filled. They are needed to deprovision nodes when the pool has left the document, or has another
    mechanism there. ``below_since`` is when a worker first found the pool below its level; ``None`` for a pool at
    its level. ``level`` is the level in force of a pool whose level depends on the time. ``stamp`` is the version
    of the record when it was read, ``None`` for a new one; ``unknown`` are the keys of the record that this
    version does not know.
    """

    omits_unset: ClassVar[bool] = True
    failures: int = 0
    last_failure: Time = 0.0
    reason: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    below_since: OptionalTime = None
    level: int | None = None
    stamp: Annotated[int | None, APART] = field(default=None, compare=False)
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    def after_failure(self, reason: str, begun: float, now: float) -> FillingRecord:
        """Return the record after a failure of nodes that were chosen at ``begun``.

        Failures of nodes that were chosen before the last failure belong to the same attempt and are not counted.
        """
        failures = self.failures + (begun >= self.last_failure or not self.failures)
        return replace(self, failures=failures, last_failure=now, reason=shortened(reason))

    def seen_at(self, now: float) -> FillingRecord:
        """Return the record without a failure in the future of this process.

        Such a failure was recorded by a worker whose clock is ahead, and would delay the filling by the
        difference.
        """
        below = None if self.below_since is None else min(self.below_since, now)
        return replace(self, last_failure=min(self.last_failure, now), below_since=below)

    def after_success(self) -> FillingRecord:
        """Return the record after nodes were provisioned, or after an operator requested another attempt."""
        return replace(self, failures=0, last_failure=0.0, reason="")


#: The most nodes of a session, a step or a task, because one transaction writes the records of all its nodes.
MOST_NODES = 200


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """The nodes that are not done, and the active sessions, by id.

    ``claimed`` are the ids of the nodes on which any process works, ``own_claims`` those on which this process
    works. ``tenants`` are the versions of the guards of tenants, by id: a guard changes with each session of the
    tenant that begins or ends. ``filling`` has the records about the filling of pools, by name. ``hosts`` are the
    ids of the nodes that are hosts of this fleet, by the ids of the hosts, also of nodes that are done.
    ``workers`` are the names of the workers that run. ``waiting`` are the requests that wait for nodes, and those
    whose wait ended recently, by id.
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

    ``nodes`` and ``sessions`` are written unchanged; new ones have no stamp. ``deleted`` nodes, which could not be
    made, and ``dropped`` sessions, which did not begin, are removed without a record. ``claimed`` are the ids of
    nodes on which this process begins work, ``released`` those that it has finished. ``filling`` are the new
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


@dataclass(frozen=True, slots=True)
class PoolReading:
    """The published pools and their content.

    ``ended`` are the sessions that were active in the reading before this one and have ended since, by id.
    ``tenants`` are the names of all users, by id.
    """

    configuration: PoolConfiguration = PoolConfiguration()  # noqa: RUF009  it cannot be changed
    snapshot: PoolSnapshot = PoolSnapshot()
    ended: Mapping[int, TenantSession] = field(default_factory=dict)
    tenants: Mapping[int, str] = field(default_factory=dict)
