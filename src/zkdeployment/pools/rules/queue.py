"""Requests for sessions: quotas, the choice of nodes, and the queue of the requests that wait for nodes.

A request in the queue is *admissible* if it fits into the quotas of its tenant, together with the tenant's
sessions and the tenant's earlier requests, and if its pools have enough nodes with the properties that it demands.
Admissible requests that have waited for ``OVERDUE`` seconds come first, the oldest one first, and later requests
get no nodes of their pools. Among the others, the request of the tenant with the smallest share of its quota comes
first, then the older one. A request never gets nodes of a pool for which an earlier request of the same tenant
waits. The next request is the first one in this order for which nodes are ready. Therefore an admissible request
whose pools get enough nodes is served: after ``OVERDUE`` seconds, only the limited number of older requests get
nodes of its pools before it. A request that may not wait is ranked in the same way, and is refused unless it gets
nodes at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.base.records import Record
from zkdeployment.base.values import dataclass
from zkdeployment.pools.rules.node import NodeEvent, PoolNode
from zkdeployment.pools.rules.snapshot import (
    KEPT,
    MOST_NODES,
    LeasedNode,
    NodeProperty,
    NodesSpec,
    PoolSnapshot,
    SessionRequest,
    TenantSession,
    meets,
    unknown_property,
    unmet_demand,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from zkdeployment.base.json_values import Value
    from zkdeployment.pools.documents import PoolConfiguration
    from zkdeployment.service.users.user import User


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of one tenant; ``total`` is ``None`` for admins, who have no quota.

    A tenant may use its whole quota.
    """

    total: int | None = None
    pools: Mapping[str, int] = field(default_factory=dict)

    def problem(self, held: Counter[str], wanted: Counter[str]) -> str | None:
        """Return the quota that a request for ``wanted`` nodes exceeds, or ``None``; nodes are counted by pool.

        ``held`` are the nodes in the tenant's sessions.
        """
        more = wanted.total()
        if self.total is not None and held.total() + more > self.total:
            return _excess("", more, held.total(), self.total)
        for pool, quantity in wanted.items():
            most = self.pools.get(pool)
            if most is not None and held[pool] + quantity > most:
                return _excess(f"the pool {pool}: ", quantity, held[pool], most)
        return None


def quotas_of(tenant: User, configuration: PoolConfiguration) -> Quotas:
    """Return the quotas of a tenant: its own or the default total, and the quotas of the pools."""
    if tenant.is_admin:
        return Quotas()
    pools = {name: pool.node_quota for name, pool in configuration.pools.items() if pool.node_quota is not None}
    return Quotas(configuration.defaults.of(tenant).node_quota, pools)


def _excess(place: str, wanted: int, held: int, most: int) -> str:
    return (
        f"quota exceeded: {place}requested nodes ({wanted}) + current allocation ({held}) = {held + wanted} >"
        f" {most}; retire a session, or request fewer nodes"
    )


#: The most characters of keys in the nodes of a session: one transaction, of about 1 MB, writes all of them.
_MOST_KEY_TEXT = 600_000


class RequestProblem(Enum):
    """The reasons why a request gets no session."""

    QUOTA = "quota exceeded"
    NO_POOL = "no such pool"
    NO_PROPERTY = "no such property"
    NO_MATCH = "no node has the property"
    TOO_FEW = "too few nodes"
    TOO_MANY = "too many nodes"
    NO_KEY = "no SSH key"
    RETIRED = "retired"
    NOT_SERVED = "the wait for nodes ended"
    QUEUE_FULL = "too many requests wait"
    NOT_PREPARED = "the nodes could not be prepared"


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """A refused request, with a sentence for the tenant.

    ``others_may_do`` is whether nodes of the request have failed, so that it may succeed with other nodes.
    """

    problem: RequestProblem
    message: str
    others_may_do: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    """A session and its nodes, which have to get the tenant's key."""

    session: TenantSession
    nodes: tuple[PoolNode, ...]


@dataclass(frozen=True, slots=True)
class LendingFacts:
    """The facts on which requests are decided at the time ``now``.

    ``tenants`` are the users by id. ``away`` are the ids of hosts that are not registered or in maintenance.
    """

    pools: PoolSnapshot
    configuration: PoolConfiguration
    tenants: Mapping[int, User]
    now: float
    away: Collection[str] = ()


def reserve(request: SessionRequest, facts: LendingFacts, *, offset: int = 0) -> Reservation | RequestRefusal:
    """Return the session that a request gets, with the nodes that it reserves, or the refusal.

    The nodes that have been ready longest come first, after a skip of ``offset`` nodes: concurrent requests with
    different offsets rarely choose the same nodes. Admins have no quota.
    """
    tenant, configuration, now = facts.tenants[request.tenant], facts.configuration, facts.now
    limits, nodes = configuration.defaults.of(tenant), facts.pools.nodes.values()
    wanted = request.wanted
    problem = quotas_of(tenant, configuration).problem(facts.pools.held_by_pool(tenant.id), wanted)
    if problem is not None:
        return RequestRefusal(RequestProblem.QUOTA, problem)
    if (problem := size_problem(request, tenant)) is not None:
        return RequestRefusal(RequestProblem.TOO_MANY, f"can't reserve nodes: {problem}")
    chosen: list[PoolNode] = []
    for spec in _combined(request.specs):
        if spec.pool not in configuration.pools:
            known = ", ".join(sorted(configuration.pools)) or "none"
            message = f"there is no pool {spec.pool!a}; the pools are: {known}"
            return RequestRefusal(RequestProblem.NO_POOL, message)
        taken = {node.id for node in chosen}
        ready = [node for node in _ready(nodes, spec, facts.away) if node.id not in taken]
        if len(ready) < spec.quantity:
            return _shortage(spec, nodes, len(ready))
        start = offset % len(ready)
        chosen += (ready[start:] + ready[:start])[: spec.quantity]
    session = TenantSession(
        id=request.id,
        tenant=tenant.id,
        specs=request.specs,
        nodes=tuple(node.id for node in chosen),
        created_at=now,
        expires_at=now + limits.session_lifetime,
        leased=tuple(LeasedNode(node.id, node.pool or "", node.hostname, node.ipaddr) for node in chosen),
        requested_by=request.requested_by,
        ssh_key=request.ssh_key,
        requested_at=request.created_at,
        waiting_until=request.expires_at if request.may_wait else None,
        failures=request.failures,
    )
    return Reservation(session, tuple(_reserved(node, session.id, wanted, now) for node in chosen))


def size_problem(request: SessionRequest, tenant: User) -> str | None:
    """Return why a session would have too many nodes, given that each node's record has all its keys."""
    total = request.wanted.total()
    if total > MOST_NODES:
        return f"{total} requested, but a session has {MOST_NODES} at most; request several sessions"
    length = len(request.ssh_key or tenant.ssh_key or "")
    if length and total > (most := _MOST_KEY_TEXT // length):
        return (
            f"{total} requested, but a session with SSH keys of {length} characters has {most} at most; request"
            " several sessions"
        )
    return None


def _combined(specs: Iterable[NodesSpec]) -> list[NodesSpec]:
    """Return the parts of a request, merged by pool and demand; parts with more properties choose first."""
    wanted: Counter[tuple[str, tuple[NodeProperty, ...]]] = Counter()
    for spec in specs:
        wanted[spec.pool, spec.properties] += spec.quantity
    combined = [NodesSpec(pool, quantity, properties) for (pool, properties), quantity in wanted.items()]
    return sorted(combined, key=lambda spec: -len(spec.properties))


def _shortage(spec: NodesSpec, nodes: Collection[PoolNode], ready: int) -> RequestRefusal:
    """Return why a part of a request gets no nodes: an unmet demand, or too few nodes."""
    unknown = unknown_property(spec.pool, spec.properties, nodes)
    if unknown is not None:
        return RequestRefusal(RequestProblem.NO_PROPERTY, unknown)
    unmet = unmet_demand(spec, nodes)
    if unmet is not None:
        return RequestRefusal(RequestProblem.NO_MATCH, unmet)
    message = f"can't reserve nodes: {spec} requested, {ready} ready; try again later"
    return RequestRefusal(RequestProblem.TOO_FEW, message)


def _ready(nodes: Iterable[PoolNode], spec: NodesSpec, away: Collection[str]) -> list[PoolNode]:
    ready = (node for node in nodes if node.is_ready and node.pool == spec.pool and node.host not in away)
    matching = (node for node in ready if meets(node, spec.properties))
    return sorted(matching, key=lambda node: (node.changed, node.id))


def _reserved(node: PoolNode, session: int, wanted: Mapping[str, int], now: float) -> PoolNode:
    """Return a node as reserved, with its request in its data, as Duffy records it."""
    spec = {"pool": node.pool, "quantity": wanted[node.pool or ""]}
    return node.after(NodeEvent.RESERVED, now, session=session, data={**node.data, "nodes_spec": spec})


#: Seconds of waiting after which later requests get no nodes of a request's pools.
OVERDUE = 600.0


@dataclass(frozen=True, slots=True)
class TenantStanding:
    """The nodes that a tenant has by pool, its quotas, and the number of nodes that counts as a whole share."""

    held: Counter[str]
    quotas: Quotas
    measure: int

    @property
    def share(self) -> float:
        """The share of its quota that the tenant uses."""
        return self.held.total() / max(1, self.measure)


@dataclass(frozen=True, slots=True)
class PoolPlace(Record):
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

    request: SessionRequest
    pools: tuple[PoolPlace, ...]
    excess: str | None

    def __str__(self) -> str:
        places = "; ".join(map(str, self.pools))
        return f"waiting: {places}" + (f"; {self.excess}" if self.excess else "")


class RequestQueue:
    """The requests that wait, in the order in which they get nodes; ``standings`` is keyed by tenant.

    Requests of tenants without a standing get no nodes. ``unmet`` has demands that too few nodes meet, by request.
    """

    def __init__(
        self,
        requests: Iterable[SessionRequest],
        standings: Mapping[int, TenantStanding],
        now: float,
        unmet: Mapping[int, str],
    ) -> None:
        self._standings, self._now, self._unmet = standings, now, unmet
        by_age = sorted((request for request in requests if request.is_waiting), key=_age)
        self._excess = dict(self._excesses(by_age))
        self.requests = tuple(sorted(by_age, key=self._rank))

    def grants(self, is_ready: Callable[[SessionRequest], bool]) -> Iterator[SessionRequest]:
        """Yield the requests that get nodes now, no two of the same pool.

        ``is_ready`` is whether nodes are ready for a request.
        """
        blocked: set[str] = set()
        own: set[tuple[int, str]] = set()
        for request in self._admissible():
            wanted = request.wanted
            is_first = blocked.isdisjoint(wanted) and own.isdisjoint((request.tenant, pool) for pool in wanted)
            is_granted = is_first and is_ready(request)
            if is_granted:
                yield request
            own.update((request.tenant, pool) for pool in wanted)
            if is_granted or self._is_overdue(request):
                blocked |= wanted.keys()

    def places(self, ready: Mapping[str, int]) -> dict[int, RequestPlace]:
        """Return the place or the obstacle of each request, by id, in the order of the queue."""
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

    def _admissible(self) -> Iterator[SessionRequest]:
        return (request for request in self.requests if self._excess.get(request.id) is None)

    def _excesses(self, by_age: Iterable[SessionRequest]) -> Iterator[tuple[int, str | None]]:
        """Yield the quota that each request exceeds, counted with the earlier requests of its tenant."""
        held = {tenant: standing.held.copy() for tenant, standing in self._standings.items()}
        for request in by_age:
            standing = self._standings.get(request.tenant)
            if standing is None:
                yield request.id, "the tenant is unknown"
                continue
            own = held[request.tenant]
            excess = standing.quotas.problem(own, request.wanted)
            yield request.id, excess or self._unmet.get(request.id)
            own.update(request.wanted)

    def _is_overdue(self, request: SessionRequest) -> bool:
        return self._now - request.created_at >= OVERDUE

    def _rank(self, request: SessionRequest) -> tuple[bool, float, tuple[float, bool, int]]:
        is_overdue = self._is_overdue(request) and self._excess[request.id] is None
        standing = self._standings.get(request.tenant)
        share = 0.0 if is_overdue or standing is None else standing.share
        return not is_overdue, share, _age(request)


def _age(request: SessionRequest) -> tuple[float, bool, int]:
    """Return the rank of a request by age; of the same moment, a request without an id is the youngest."""
    return request.created_at, not request.id, request.id


def request_queue(facts: LendingFacts) -> RequestQueue:
    """Return the queue at a moment."""
    read, standings = facts.pools, {}
    for number in {request.tenant for request in read.waiting.values()} & facts.tenants.keys():
        quotas = quotas_of(facts.tenants[number], facts.configuration)
        measure = facts.configuration.defaults.node_quota if quotas.total is None else quotas.total
        standings[number] = TenantStanding(read.held_by_pool(number), quotas, measure)
    unmet = {
        request.id: problem for request in read.waiting.values() if (problem := _unmet(request, read)) is not None
    }
    return RequestQueue(read.waiting.values(), standings, facts.now, unmet)


def _unmet(request: SessionRequest, read: PoolSnapshot) -> str | None:
    """Return the demand of a request that too few nodes of its pool meet, in any state of the nodes."""
    nodes = read.nodes.values()
    problems = (
        unknown_property(spec.pool, spec.properties, nodes) or unmet_demand(spec, nodes)
        for spec in _combined(request.specs)
        if spec.properties
    )
    return next(filter(None, problems), None)


def ready_by_pool(nodes: Iterable[PoolNode], away: Collection[str]) -> Counter[str]:
    """Return the numbers of nodes that can be lent, by pool; ``away`` are the ids of hosts that are away."""
    return Counter(node.pool or "" for node in nodes if node.is_ready and node.host not in away)


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


#: The most requests in the queue, in all and per tenant; concurrent requests may exceed these limits.
MOST_WAITING = 1000
MOST_OF_TENANT = 50


def queueing_problem(
    request: SessionRequest, tenant: User, configuration: PoolConfiguration, present: Collection[SessionRequest]
) -> RequestRefusal | None:
    """Return why a request cannot wait; ``None`` if it can. ``present`` are the records of the queue."""
    wanted = request.wanted
    unknown = sorted(wanted.keys() - configuration.pools.keys())
    if unknown:
        known = ", ".join(sorted(configuration.pools)) or "none"
        return RequestRefusal(RequestProblem.NO_POOL, f"there is no pool {unknown[0]!a}; the pools are: {known}")
    excess = quotas_of(tenant, configuration).problem(Counter(), wanted)
    if excess is not None:
        return RequestRefusal(RequestProblem.QUOTA, excess)
    too_many = size_problem(request, tenant)
    if too_many is not None:
        return RequestRefusal(RequestProblem.TOO_MANY, f"can't reserve nodes: {too_many}")
    too_many = _level_problem(request, configuration)
    if too_many is not None:
        return RequestRefusal(RequestProblem.TOO_MANY, f"can't wait for nodes: {too_many}")
    return _full(tenant, [found for found in present if found.is_waiting])


def _level_problem(request: SessionRequest, configuration: PoolConfiguration) -> str | None:
    """Return why a request for nodes of known pools waits in vain: a pool never keeps that many ready."""
    for pool, quantity in request.wanted.items():
        most = configuration.pools[pool].most_kept
        if quantity > most:
            return f"{quantity} of {pool} requested, but the pool keeps at most {most} ready"
    return None


def _full(tenant: User, waiting: Collection[SessionRequest]) -> RequestRefusal | None:
    own = sum(found.tenant == tenant.id for found in waiting)
    if own >= MOST_OF_TENANT:
        message = f"{own} requests of the tenant {tenant} wait already, at most {MOST_OF_TENANT} may; cancel one"
    elif len(waiting) >= MOST_WAITING:
        message = f"{len(waiting)} requests wait already, at most {MOST_WAITING} may; try again later"
    else:
        return None
    return RequestRefusal(RequestProblem.QUEUE_FULL, message)


def ended_waits(
    read: PoolSnapshot, configuration: PoolConfiguration, tenants: Mapping[int, User], now: float
) -> Iterator[SessionRequest]:
    """Yield the requests whose wait ends now without nodes, with their outcomes."""
    for request in read.waiting.values():
        tenant = tenants.get(request.tenant)
        if request.is_waiting and (outcome := _end(request, read, configuration, tenant, now)):
            yield request.ended(outcome, now)


def outdated_waits(read: PoolSnapshot, now: float) -> Iterator[SessionRequest]:
    """Yield the requests that ended so long ago that their records are removed."""
    for request in read.waiting.values():
        if request.ended_at is not None and request.ended_at + KEPT <= now:
            yield request


def next_due_wait(read: PoolSnapshot) -> Iterator[float]:
    """Yield when requests expire, and when the records of ended requests are removed."""
    for request in read.waiting.values():
        yield request.expires_at if request.ended_at is None else request.ended_at + KEPT


def grants(facts: LendingFacts, *, offset: int = 0) -> Iterator[tuple[SessionRequest, Reservation]]:
    """Yield the requests of the queue that get nodes now, the first one first, with their reservations.

    ``offset`` is as for ``reserve``.
    """
    ready = ready_by_pool(facts.pools.nodes.values(), facts.away)
    given: dict[int, Reservation] = {}

    def is_ready(request: SessionRequest) -> bool:
        found = reserve(request, facts, offset=offset) if request.wanted <= ready else None
        if isinstance(found, Reservation):
            given[request.id] = found
        return request.id in given

    return ((request, given[request.id]) for request in request_queue(facts).grants(is_ready))


def grant_at_once(
    request: SessionRequest, facts: LendingFacts, *, offset: int = 0
) -> Reservation | RequestRefusal:
    """Return the reservation of a request that joins the queue only for this moment, or its refusal."""
    waiting = facts.pools.waiting
    joined = replace(facts, pools=replace(facts.pools, waiting={**waiting, request.id: request}))
    for granted, reservation in grants(joined, offset=offset):
        if granted is request:
            return reservation
    given = reserve(request, facts)
    if isinstance(given, RequestRefusal):
        return given
    excess = request_queue(joined).places({})[request.id].excess
    if excess is not None:
        return RequestRefusal(RequestProblem.QUOTA, excess)
    awaited = {pool for other in waiting.values() if other.is_waiting for pool in other.wanted}
    pools = ", ".join(sorted(awaited & request.wanted.keys()))
    message = f"can't reserve nodes: other requests wait for nodes of {pools}; wait, too"
    return RequestRefusal(RequestProblem.TOO_FEW, message)


def _end(
    request: SessionRequest,
    read: PoolSnapshot,
    configuration: PoolConfiguration,
    tenant: User | None,
    now: float,
) -> str:
    """Return why the wait of a request ends now; empty if the wait continues."""
    if tenant is not None and tenant.is_retired:
        return f"the tenant {tenant} is retired"
    if tenant is not None and tenant.ssh_key is None and request.ssh_key is None:
        return f"the tenant {tenant} has no SSH key"
    problem = None if tenant is None else size_problem(request, tenant)
    if problem is not None:
        return problem
    missing = sorted(request.wanted.keys() - configuration.pools.keys())
    if missing:
        return f"there is no pool {missing[0]!a} any more"
    if request.expires_at <= now:
        unmet = _unmet(request, read)
        why = f": {unmet}" if unmet else ""
        return f"the nodes did not become ready within {request.expires_at - request.created_at:g} s{why}"
    return _level_problem(request, configuration) or ""


def request_place_to_json(request: SessionRequest, place: RequestPlace | None, tenant: str) -> dict[str, Value]:
    """Return a request with its places, but without places after its end; times are in seconds since the epoch."""
    return {
        **{name: getattr(request, name) for name in ("id", "created_at", "expires_at", "ended_at", "outcome")},
        "tenant": tenant,
        "waiting": request.is_waiting,
        "excess": None if place is None else place.excess,
        "pools": [] if place is None else [found.to_json() for found in place.pools],
    }
