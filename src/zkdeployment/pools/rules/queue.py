"""Requests for sessions: quotas, the choice of nodes, and the queue of the requests that wait for nodes.

A request in the queue is *admissible* if it fits into the quotas of its tenant, together with the tenant's
sessions and the tenant's earlier requests, and if its pools have nodes with the properties that it demands.
Admissible requests that have waited for ``OVERDUE`` seconds come first, the oldest one first, and later requests
get no nodes of their pools. Among the others, the request of the tenant with the smallest share of its quota comes
first, then the older one. A request never gets nodes of a pool for which an earlier request of the same tenant
waits. The next request is the first one in this order for which nodes are ready. Therefore an admissible request
whose pools get enough nodes is served: after ``OVERDUE`` seconds, only the limited number of older requests get
nodes of its pools before it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.base.records import Record
from zkdeployment.pools.rules.node import NodeEvent, PoolNode
from zkdeployment.pools.rules.snapshot import (
    KEPT,
    MOST_NODES,
    LeasedNode,
    NodeProperty,
    NodesSpec,
    PoolSnapshot,
    TenantSession,
    WaitingRequest,
    effective_limits,
    meets,
    unknown_property,
    unmet_property,
    wanted_nodes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from zkdeployment.base.json_values import Value
    from zkdeployment.pools.documents import NodePool, PoolConfiguration
    from zkdeployment.service.users.user import User


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of one tenant; ``total`` is ``None`` for admins, who have no quota.

    A tenant may use its whole quota.
    """

    total: int | None = None
    pools: Mapping[str, int] = field(default_factory=dict)

    def problem(self, held: int, held_by_pool: Mapping[str, int], wanted: Counter[str]) -> str | None:
        """Return the quota that a request for ``wanted`` nodes exceeds, or ``None``.

        ``held`` is the number of nodes in the tenant's sessions.
        """
        more = wanted.total()
        if self.total is not None and held + more > self.total:
            return _excess("", more, held, self.total)
        for pool, quantity in wanted.items():
            most, present = self.pools.get(pool), held_by_pool.get(pool, 0)
            if most is not None and present + quantity > most:
                return _excess(f"the pool {pool}: ", quantity, present, most)
        return None


def quotas_of(tenant: User, configuration: PoolConfiguration) -> Quotas:
    """Return the quotas of a tenant: its own or the default total, and the quotas of the pools."""
    if tenant.is_admin:
        return Quotas()
    pools = {name: pool.node_quota for name, pool in configuration.pools.items() if pool.node_quota is not None}
    return Quotas(effective_limits(tenant, configuration.defaults).node_quota, pools)


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
class SessionRequest:
    """A tenant's request.

    ``held`` is the number of nodes in the tenant's active sessions, in all and ``held_by_pool``. ``by`` names the
    requester: the tenant or an operator. ``ssh_key`` has the public keys for this session, one in each line;
    ``None``: the keys of the tenant. ``at`` is the time of the request, in seconds since the epoch; ``None``: now.
    ``waited`` is the request in the queue from which this one comes.
    """

    id: int
    tenant: User
    specs: tuple[NodesSpec, ...]
    held: int
    by: str | None = None
    ssh_key: str | None = None
    held_by_pool: Mapping[str, int] = field(default_factory=dict)
    at: float | None = None
    waited: WaitingRequest | None = None

    @property
    def wanted(self) -> Counter[str]:
        """The number of nodes by pool."""
        return wanted_nodes(self.specs)


def reserve(
    request: SessionRequest,
    configuration: PoolConfiguration,
    nodes: Collection[PoolNode],
    now: float,
    *,
    offset: int = 0,
    away: Collection[str] = (),
) -> Reservation | RequestRefusal:
    """Return the session that a request gets, with the nodes that it reserves, or the refusal.

    The nodes that have been ready longest come first, after a skip of ``offset`` nodes: concurrent requests with
    different offsets rarely choose the same nodes. ``away`` are the ids of hosts that are not registered or in
    maintenance. Admins have no quota.
    """
    limits = effective_limits(request.tenant, configuration.defaults)
    wanted = request.wanted
    total = wanted.total()
    problem = quotas_of(request.tenant, configuration).problem(request.held, request.held_by_pool, wanted)
    if problem is not None:
        return RequestRefusal(RequestProblem.QUOTA, problem)
    if (problem := size_problem(request, total)) is not None:
        return RequestRefusal(RequestProblem.TOO_MANY, f"can't reserve nodes: {problem}")
    chosen: list[PoolNode] = []
    for spec in _combined(request.specs):
        if spec.pool not in configuration.pools:
            known = ", ".join(sorted(configuration.pools)) or "none"
            message = f"there is no pool {spec.pool!a}; the pools are: {known}"
            return RequestRefusal(RequestProblem.NO_POOL, message)
        taken = {node.id for node in chosen}
        ready = [node for node in _ready(nodes, spec, away) if node.id not in taken]
        if len(ready) < spec.quantity:
            return _shortage(spec, nodes, len(ready))
        start = offset % len(ready)
        chosen += (ready[start:] + ready[:start])[: spec.quantity]
    waited = request.waited
    session = TenantSession(
        id=request.id,
        tenant=request.tenant.id,
        specs=request.specs,
        nodes=tuple(node.id for node in chosen),
        created_at=now,
        expires_at=now + limits.session_lifetime,
        leased=tuple(LeasedNode(node.id, node.pool or "", node.hostname, node.ipaddr) for node in chosen),
        requested_by=request.by,
        ssh_key=request.ssh_key,
        requested_at=now if request.at is None else request.at,
        waiting_until=None if waited is None else waited.expires_at,
        failures=0 if waited is None else waited.failures,
    )
    return Reservation(session, tuple(_reserved(node, session.id, wanted, now) for node in chosen))


def size_problem(request: SessionRequest, total: int) -> str | None:
    """Return why a session would have too many nodes, given that each node's record has all its keys."""
    if total > MOST_NODES:
        return f"{total} requested, but a session has {MOST_NODES} at most; request several sessions"
    length = len(request.ssh_key or request.tenant.ssh_key or "")
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
    unmet = unmet_property(spec.pool, spec.properties, nodes)
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

    request: WaitingRequest
    pools: tuple[PoolPlace, ...]
    excess: str | None

    def __str__(self) -> str:
        places = "; ".join(map(str, self.pools))
        return f"waiting: {places}" + (f"; {self.excess}" if self.excess else "")


class RequestQueue:
    """The requests that wait, in the order in which they get nodes; ``standings`` is keyed by tenant.

    Requests of tenants without a standing get no nodes. ``unmet`` has demands that no node meets, by request.
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
        """Return the pools for which admissible requests wait; other requests get no nodes of these pools."""
        return frozenset(pool for request in self._admissible() for pool in request.wanted)

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

    def _admissible(self) -> Iterator[WaitingRequest]:
        return (request for request in self.requests if self._excess.get(request.id) is None)

    def _excesses(self, by_age: Iterable[WaitingRequest]) -> Iterator[tuple[int, str | None]]:
        """Yield the quota that each request exceeds, counted with the earlier requests of its tenant."""
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
    """Return the demand of a request that no node of its pool meets, in any state of the nodes."""
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
    request: SessionRequest, configuration: PoolConfiguration, present: Collection[WaitingRequest]
) -> RequestRefusal | None:
    """Return why a request cannot wait; ``None`` if it can. ``present`` are the records of the queue."""
    wanted = request.wanted
    unknown = sorted(wanted.keys() - configuration.pools.keys())
    if unknown:
        known = ", ".join(sorted(configuration.pools)) or "none"
        return RequestRefusal(RequestProblem.NO_POOL, f"there is no pool {unknown[0]!a}; the pools are: {known}")
    excess = quotas_of(request.tenant, configuration).problem(0, {}, wanted)
    if excess is not None:
        return RequestRefusal(RequestProblem.QUOTA, excess)
    too_many = size_problem(request, wanted.total())
    if too_many is not None:
        return RequestRefusal(RequestProblem.TOO_MANY, f"can't reserve nodes: {too_many}")
    for pool, quantity in wanted.items():
        most = _largest_level(configuration.pools[pool])
        if quantity > most:
            message = (
                f"can't wait for nodes: {quantity} of {pool} requested, but the pool keeps at most {most} ready"
            )
            return RequestRefusal(RequestProblem.TOO_MANY, message)
    return _full(request, [found for found in present if found.is_waiting])


def _full(request: SessionRequest, waiting: Collection[WaitingRequest]) -> RequestRefusal | None:
    own = sum(found.tenant == request.tenant.id for found in waiting)
    if own >= MOST_OF_TENANT:
        message = (
            f"{own} requests of the tenant {request.tenant} wait already, at most {MOST_OF_TENANT} may; cancel one"
        )
    elif len(waiting) >= MOST_WAITING:
        message = f"{len(waiting)} requests wait already, at most {MOST_WAITING} may; try again later"
    else:
        return None
    return RequestRefusal(RequestProblem.QUEUE_FULL, message)


def _largest_level(pool: NodePool) -> int:
    return max((pool.fill_level or 0, *(entry.level for entry in pool.schedule)))


def ended_waits(
    read: PoolSnapshot, configuration: PoolConfiguration, tenants: Mapping[int, User], now: float
) -> Iterator[WaitingRequest]:
    """Yield the requests whose wait ends now without nodes, with their outcomes."""
    for request in read.waiting.values():
        outcome = _end(request, configuration, tenants.get(request.tenant), now) if request.is_waiting else ""
        if outcome:
            yield request.ended(outcome, now)


def outdated_waits(read: PoolSnapshot, now: float) -> Iterator[WaitingRequest]:
    """Yield the requests that ended so long ago that their records are removed."""
    for request in read.waiting.values():
        if request.ended_at is not None and request.ended_at + KEPT <= now:
            yield request


def next_due_wait(read: PoolSnapshot) -> Iterator[float]:
    """Yield when requests expire, and when the records of ended requests are removed."""
    for request in read.waiting.values():
        yield request.expires_at if request.ended_at is None else request.ended_at + KEPT


def grant_next(
    read: PoolSnapshot,
    configuration: PoolConfiguration,
    tenants: Mapping[int, User],
    available_hosts: Collection[str],
    now: float,
) -> tuple[WaitingRequest, Reservation] | None:
    """Return the next request of the queue that gets nodes, with its reservation; ``None`` if no request does.

    ``available_hosts`` are the ids of the registered hosts that are not in maintenance.
    """
    away = {node.host for node in read.nodes.values() if node.host is not None}.difference(available_hosts)
    ready = ready_by_pool(read.nodes.values(), away)

    def answer(request: WaitingRequest) -> Reservation | RequestRefusal:
        asked = _asked(request, tenants[request.tenant], read)
        return reserve(asked, configuration, read.nodes.values(), now, away=away)

    def is_ready(request: WaitingRequest) -> bool:
        return request.wanted <= ready and isinstance(answer(request), Reservation)

    request = request_queue(read, configuration, tenants, now).next_grant(is_ready)
    given = None if request is None else answer(request)
    return (request, given) if request is not None and isinstance(given, Reservation) else None


def _asked(request: WaitingRequest, tenant: User, read: PoolSnapshot) -> SessionRequest:
    return SessionRequest(
        request.id,
        tenant,
        request.specs,
        read.held(tenant.id),
        request.requested_by,
        request.ssh_key,
        read.held_by_pool(tenant.id),
        at=request.created_at,
        waited=request,
    )


def _end(request: WaitingRequest, configuration: PoolConfiguration, tenant: User | None, now: float) -> str:
    """Return why the wait of a request ends now; empty if the wait continues."""
    if tenant is not None and tenant.is_retired:
        return f"the tenant {tenant} is retired"
    if tenant is not None and tenant.ssh_key is None and request.ssh_key is None:
        return f"the tenant {tenant} has no SSH key"
    asked = (
        None if tenant is None else SessionRequest(request.id, tenant, request.specs, 0, ssh_key=request.ssh_key)
    )
    problem = None if asked is None else size_problem(asked, asked.wanted.total())
    if problem is not None:
        return problem
    missing = sorted(request.wanted.keys() - configuration.pools.keys())
    if missing:
        return f"there is no pool {missing[0]!a} any more"
    if request.expires_at <= now:
        return f"the nodes did not become ready within {request.expires_at - request.created_at:g} s"
    return ""


def request_place_to_json(request: WaitingRequest, place: RequestPlace | None, tenant: str) -> dict[str, Value]:
    """Return a request with its places, but without places after its end; times are in seconds since the epoch."""
    return {
        **{name: getattr(request, name) for name in ("id", "created_at", "expires_at", "ended_at", "outcome")},
        "tenant": tenant,
        "waiting": request.is_waiting,
        "excess": None if place is None else place.excess,
        "pools": [] if place is None else [found.to_json() for found in place.pools],
    }
