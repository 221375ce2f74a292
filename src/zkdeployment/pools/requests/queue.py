"""The queue of requests that wait for nodes: which request is next, and what a request waits for.

The rule. A request is *admissible* if it fits into the quotas of its tenant, together with the tenant's sessions
and the tenant's earlier requests, and if its pools have nodes with the properties that it demands. Admissible
requests that have waited for ``OVERDUE`` seconds come first, the oldest one first, and later requests get no nodes
of their pools. Among the others, the request of the tenant with the smallest share of its quota comes first, then
the older one. A request never gets nodes of a pool that an earlier request of the same tenant waits for. The next
request is the first one in this order for which nodes are ready.

So an admissible request whose pools get enough nodes is served: after ``OVERDUE`` seconds only requests that are
older than it, of which there is a limited number, get nodes of its pools before it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.pools.requests.properties import unknown_property, unmet_property
from zkdeployment.pools.requests.quotas import Quotas, quotas_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from zkdeployment.documents.pools.values import PoolConfiguration
    from zkdeployment.model.user import User
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.requests.waiting_request import WaitingRequest
    from zkdeployment.pools.snapshot import PoolSnapshot

#: Seconds of waiting after which later requests get no nodes of a request's pools.
OVERDUE = 600.0


@dataclass(frozen=True, slots=True)
class TenantStanding:
    """The nodes that a tenant has by pool, its quotas, and the number of nodes that its share is a part of."""

    held: Counter[str]
    quotas: Quotas
    measure: int

    @property
    def share(self) -> float:
        """The part of its quota that the tenant has."""
        return self.held.total() / max(1, self.measure)


@dataclass(frozen=True, slots=True)
class PoolPlace:
    """The place of a request among those that wait for nodes of a pool; the first place is 1."""

    pool: str
    place: int
    waiting: int
    ready: int
    wanted: int

    def __str__(self) -> str:
        return (
            f"{_ordinal(self.place)} of {self.waiting} for pool {self.pool}; {self.ready} nodes ready of"
            f" {self.wanted} wanted"
        )


@dataclass(frozen=True, slots=True)
class RequestPlace:
    """The state of a request that waits: its place for each pool, an exceeded quota, or an unmet demand."""

    request: WaitingRequest
    pools: tuple[PoolPlace, ...]
    excess: str | None

    def __str__(self) -> str:
        places = "; ".join(map(str, self.pools))
        return f"waiting: {places}" + (f"; {self.excess}" if self.excess else "")


class RequestQueue:
    """The requests that wait, in the order in which they get nodes; ``standings`` is keyed by tenant.

    Requests of tenants without a standing get nothing. ``unmet`` are demands that no node meets, by request.
    """

    def __init__(
        self,
        requests: Iterable[WaitingRequest],
        standings: Mapping[int, TenantStanding],
        now: float,
        unmet: Mapping[int, str],
    ) -> None:
        self._standings, self._now, self._unmet = standings, now, unmet
        by_age = sorted(
            (request for request in requests if request.is_waiting), key=lambda found: (found.created_at, found.id)
        )
        self._excess = dict(self._excesses(by_age))
        self.requests = tuple(sorted(by_age, key=self._rank))

    def next_grant(self, is_ready: Callable[[WaitingRequest], bool]) -> WaitingRequest | None:
        """Return the request that gets nodes now; ``is_ready`` is whether nodes are ready for a request."""
        blocked: set[str] = set()
        own: set[tuple[int, str]] = set()
        for request in self._admissible():
            wanted = request.wanted
            is_first = blocked.isdisjoint(wanted) and own.isdisjoint((request.tenant, pool) for pool in wanted)
            if is_first and is_ready(request):
                return request
            own.update((request.tenant, pool) for pool in wanted)
            if self._is_overdue(request):
                blocked |= wanted.keys()
        return None

    def awaited_pools(self) -> frozenset[str]:
        """Return the pools that admissible requests wait for: others get none of their nodes."""
        return frozenset(pool for request in self._admissible() for pool in request.wanted)

    def places(self, ready: Mapping[str, int]) -> dict[int, RequestPlace]:
        """Return what each request waits for, by id, in the order of the queue."""
        waiting = Counter(pool for request in self.requests for pool in request.wanted)
        before: Counter[str] = Counter()
        places = {}
        for request in self.requests:
            before.update(request.wanted.keys())
            pools = tuple(
                PoolPlace(pool, before[pool], waiting[pool], ready.get(pool, 0), quantity)
                for pool, quantity in request.wanted.items()
            )
            places[request.id] = RequestPlace(request, pools, self._excess.get(request.id))
        return places

    def _admissible(self) -> Iterator[WaitingRequest]:
        return (request for request in self.requests if self._excess.get(request.id) is None)

    def _excesses(self, by_age: Iterable[WaitingRequest]) -> Iterator[tuple[int, str | None]]:
        """Yield which quota each request exceeds, together with the earlier requests of its tenant."""
        held = {tenant: standing.held.copy() for tenant, standing in self._standings.items()}
        for request in by_age:
            standing = self._standings.get(request.tenant)
            if standing is None:
                yield request.id, "the tenant is unknown"
                continue
            own = held[request.tenant]
            excess = standing.quotas.problem(own.total(), own, request.wanted)
            yield request.id, excess or self._unmet.get(request.id)
            own.update(request.wanted)

    def _is_overdue(self, request: WaitingRequest) -> bool:
        return self._now - request.created_at >= OVERDUE

    def _rank(self, request: WaitingRequest) -> tuple[bool, float, float, int]:
        is_overdue = self._is_overdue(request) and self._excess[request.id] is None
        standing = self._standings.get(request.tenant)
        share = 0.0 if is_overdue or standing is None else standing.share
        return not is_overdue, share, request.created_at, request.id


def request_queue(
    read: PoolSnapshot, configuration: PoolConfiguration, tenants: Mapping[int, User], now: float
) -> RequestQueue:
    """Return the queue at a moment; ``tenants`` are the users by id."""
    standings = {}
    for number in {request.tenant for request in read.waiting.values()} & tenants.keys():
        quotas = quotas_of(tenants[number], configuration)
        measure = configuration.defaults.node_quota if quotas.total is None else quotas.total
        standings[number] = TenantStanding(read.held_by_pool(number), quotas, measure)
    unmet = {
        request.id: problem for request in read.waiting.values() if (problem := _unmet(request, read)) is not None
    }
    return RequestQueue(read.waiting.values(), standings, now, unmet)


def _unmet(request: WaitingRequest, read: PoolSnapshot) -> str | None:
    """Return which demand of a request no node of its pool meets, whatever the states of the nodes are."""
    nodes = [*read.nodes.values()] if any(spec.properties for spec in request.specs) else []
    problems = (
        problem
        for spec in request.specs
        if spec.properties
        for problem in (
            unknown_property(spec.pool, spec.properties, nodes)
            or unmet_property(spec.pool, spec.properties, nodes),
        )
    )
    return next(filter(None, problems), None)


def ready_by_pool(nodes: Iterable[PoolNode], absent: Collection[str] = ()) -> Counter[str]:
    """Return the numbers of nodes that can be lent, by pool; ``absent`` are the ids of absent hosts."""
    return Counter(node.pool or "" for node in nodes if node.is_ready and node.host not in absent)


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
