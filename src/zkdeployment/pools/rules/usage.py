"""The use of pools: the leases of nodes by tenants, and the waiting times of requests."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median
from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.records import Key, Record, shown
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.base.json_values import Value
    from zkdeployment.pools.rules.snapshot import LeasedNode, TenantSession


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLease:
    """A node that a tenant had, from the beginning of a session until its end (``None``: not yet).

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
            **{name: getattr(self.node, name) for name in ("pool", "hostname", "ipaddr")},
            **{name: getattr(self.session, name) for name in ("expires_at", "requested_by", "retired_by")},
            "node": self.node.id,
            "session": self.session.id,
            "tenant": self.tenant,
            "begin": self.begin,
            "end": self.end,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFilter:
    """The leases that a request selects: all that match each given value.

    ``node`` is the id, the name or the address of a node, ``tenant`` the name of a user. ``since`` is in seconds
    since the epoch: leases that ended before are omitted.
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


_HOUR = 3600.0
_DAY = 24 * _HOUR

#: The lengths of periods, and the most periods in a window.
_STEPS = (_HOUR, 6 * _HOUR, _DAY, 3 * _DAY, 7 * _DAY)
_MOST_PERIODS = 60

#: The longest window: the records of sessions are kept for a year after their end.
LONGEST_WINDOW = 366 * _DAY


@dataclass(frozen=True, slots=True)
class SessionUse:
    """The use of pools by one session, from the record of the session.

    ``pools`` are the numbers of nodes by pool, ``requested`` is the time of the request, ``reserved`` when the
    session got its nodes, ``begun`` when the tenant had access to them, and ``ended`` when the session lost them
    (``None``: not recorded, or not yet). Times are in seconds since the epoch.
    """

    session: int
    tenant: int
    pools: tuple[tuple[str, int], ...]
    reserved: float
    ended: float | None = None
    requested: float | None = None
    begun: float | None = None

    @property
    def wait(self) -> float | None:
        """The seconds from the request until the tenant had access to all nodes; ``None``: unknown."""
        return None if self.requested is None or self.begun is None else max(0.0, self.begun - self.requested)


@dataclass(frozen=True, slots=True)
class UsageWindow(Record):
    """The time from ``begin`` to ``end``, in periods of ``step`` seconds; the last one ends early, at ``end``."""

    begin: Annotated[float, Key("since")]
    end: Annotated[float, Key("until")]
    step: Annotated[float, Key(about="The length of a period in seconds.")]

    @property
    def periods(self) -> tuple[tuple[float, float], ...]:
        """The beginning and the end of each period."""
        count = max(1, -int(-(self.end - self.begin) // self.step))
        begins = [self.begin + number * self.step for number in range(count)]
        return tuple((begin, min(begin + self.step, self.end)) for begin in begins)


_ABOUT_WAIT = Key(about="Seconds from the request until the tenant could log in to all nodes; null: unknown.")


def _rounded(number: float) -> float:
    return round(number, 4)


def _all_rounded(numbers: Iterable[float]) -> list[float]:
    return [*map(_rounded, numbers)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUsage(Record):
    """The use of a pool by a tenant in a window.

    ``sessions`` is the number of sessions with nodes of the pool, ``node_hours`` the sum of hours for which they
    held nodes, ``most`` the most nodes at the same time, and ``held`` the average number of nodes in each period.
    ``waits`` are the waiting times in seconds of sessions that began in the window, the shortest first.
    """

    tenant: str
    pool: str
    sessions: Annotated[int, Key(about="The sessions that held nodes of the pool.")]
    node_hours: Annotated[float, Key(write=_rounded)]
    most: Annotated[int, Key("most_nodes", about="The most nodes at the same time.")]
    held: Annotated[
        tuple[float, ...], Key(write=_all_rounded, about="The average number of nodes in each period.")
    ]
    waits: Annotated[
        tuple[float, ...],
        Key("begun", write=len, form=int, about="The sessions that began, and whose waiting times are known."),
    ]

    @property
    @shown("median_wait")
    def median_wait(self) -> Annotated[float | None, _ABOUT_WAIT]:
        """The median of the waiting times, in seconds; ``None`` if no session began."""
        return median(self.waits) if self.waits else None

    @property
    @shown("longest_wait")
    def longest_wait(self) -> float | None:
        """The longest waiting time, in seconds; ``None`` if no session began."""
        return self.waits[-1] if self.waits else None


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """The use that a request selects; ``None`` selects all tenants, or all pools."""

    tenant: str | None = None
    pool: str | None = None

    def selects(self, tenant: str, pool: str) -> bool:
        """Whether the filter selects the use of a pool by a tenant."""
        return self.tenant in {None, tenant} and self.pool in {None, pool}


@dataclass(frozen=True, slots=True)
class PoolUsage(Record):
    """The use of pools in a window, by tenant and pool, the largest first."""

    window: Annotated[UsageWindow, Key(flat=True)]
    tenants: Annotated[tuple[TenantUsage, ...], Key("usage")]


def session_use(session: TenantSession) -> SessionUse:
    """Return the use of pools that the record of a session shows."""
    pools = Counter(node.pool for node in session.leased)
    return SessionUse(
        session=session.id,
        tenant=session.tenant,
        pools=tuple(sorted(pools.items())),
        reserved=session.created_at,
        ended=session.retired_at,
        requested=session.requested_at,
        begun=session.begun_at,
    )


def usage_window(since: float, now: float) -> UsageWindow:
    """Return the window from ``since``, rounded down to a whole period, until now; a year at most.

    The periods are the shortest ones that give at most 60: hours, six hours, days, three days or weeks.
    """
    begin = min(max(since, now - LONGEST_WINDOW), now)
    step = next((step for step in _STEPS if now - begin <= (_MOST_PERIODS - 1) * step), _STEPS[-1])
    return UsageWindow(begin // step * step, now, step)


def pool_usage(
    uses: Iterable[SessionUse], names: Mapping[int, str], window: UsageWindow, wanted: UsageFilter
) -> PoolUsage:
    """Return the use of pools in a window; ``names`` are the names of users by id."""
    found: dict[tuple[str, str], list[tuple[int, SessionUse]]] = defaultdict(list)
    for use in uses:
        tenant = names.get(use.tenant, f"tenant {use.tenant}")
        if use.reserved >= window.end or (use.ended is not None and use.ended <= window.begin):
            continue
        for pool, nodes in use.pools:
            if wanted.selects(tenant, pool):
                found[tenant, pool].append((nodes, use))
    rows = (_tenant_usage(tenant, pool, held, window) for (tenant, pool), held in found.items())
    return PoolUsage(window, tuple(sorted(rows, key=lambda row: (-row.node_hours, row.tenant, row.pool))))


def _tenant_usage(tenant: str, pool: str, held: list[tuple[int, SessionUse]], window: UsageWindow) -> TenantUsage:
    spans = [
        (nodes, max(use.reserved, window.begin), window.end if use.ended is None else min(use.ended, window.end))
        for nodes, use in held
    ]
    waits = (use.wait for _, use in held if use.begun is not None and window.begin <= use.begun <= window.end)
    return TenantUsage(
        tenant=tenant,
        pool=pool,
        sessions=len(held),
        node_hours=sum(nodes * max(0.0, end - begin) for nodes, begin, end in spans) / _HOUR,
        most=_most_at_once(spans),
        held=tuple(_average(spans, begin, end) for begin, end in window.periods),
        waits=tuple(sorted(wait for wait in waits if wait is not None)),
    )


def _average(spans: Iterable[tuple[int, float, float]], begin: float, end: float) -> float:
    """Return the average number of nodes from ``begin`` to ``end``."""
    seconds = sum(nodes * max(0.0, min(last, end) - max(first, begin)) for nodes, first, last in spans)
    return seconds / (end - begin) if end > begin else 0.0


def _most_at_once(spans: Iterable[tuple[int, float, float]]) -> int:
    """Return the most nodes at the same time; at equal times, returned nodes count before taken ones."""
    changes = sorted(change for nodes, begin, end in spans for change in ((begin, nodes), (end, -nodes)))
    most = present = 0
    for _, change in changes:
        present += change
        most = max(most, present)
    return most
