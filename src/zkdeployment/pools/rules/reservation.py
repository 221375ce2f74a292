"""Requests for sessions: quotas, and the choice of nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.pools.rules.node import NodeEvent
from zkdeployment.pools.rules.snapshot import MOST_NODES
from zkdeployment.pools.rules.tenant_session import (
    LeasedNode,
    NodesSpec,
    TenantSession,
    effective_limits,
    meets,
    unknown_property,
    unmet_property,
    wanted_nodes,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.pools.documents import PoolConfiguration
    from zkdeployment.pools.rules.node import PoolNode
    from zkdeployment.pools.rules.tenant_session import NodeProperty, WaitingRequest
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
    absent: Collection[str] = (),
) -> Reservation | RequestRefusal:
    """Return the session that a request gets, with the nodes that it reserves, or the refusal.

    The nodes that have been ready longest come first, after a skip of ``offset`` nodes: concurrent requests with
    different offsets rarely choose the same nodes. ``absent`` are the ids of hosts that are not registered. Admins
    have no quota.
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
        ready = [node for node in _ready(nodes, spec, absent) if node.id not in taken]
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


def _ready(nodes: Iterable[PoolNode], spec: NodesSpec, absent: Collection[str]) -> list[PoolNode]:
    ready = (node for node in nodes if node.is_ready and node.pool == spec.pool and node.host not in absent)
    matching = (node for node in ready if meets(node, spec.properties))
    return sorted(matching, key=lambda node: (node.changed, node.id))


def _reserved(node: PoolNode, session: int, wanted: Mapping[str, int], now: float) -> PoolNode:
    """Return a node as reserved, with its request in its data, as Duffy records it."""
    spec = {"pool": node.pool, "quantity": wanted[node.pool or ""]}
    return node.after(NodeEvent.RESERVED, now, session=session, data={**node.data, "nodes_spec": spec})
