"""Decides the next changes and tasks of a worker from one facts, how pools are filled, and recorded leases.

The states of nodes are the queue of tasks, so the unfinished work of a dead worker is found like new work. Claims,
which end with their worker, prevent two workers from doing the same task.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.lease import Lease
from zkdeployment.base.values import dataclass
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism, described_pool
from zkdeployment.pools.rules.host_lease import RecordedLease
from zkdeployment.pools.rules.node import (
    IN_SESSION,
    NodeEvent,
    NodeState,
    PoolNode,
    end_of_provisioning,
    fail,
    probed,
    unprobed,
)
from zkdeployment.pools.rules.queue import LendingFacts, ended_waits, grants, next_due_wait, outdated_waits
from zkdeployment.pools.rules.snapshot import (
    MOST_NODES,
    FillingRecord,
    PoolChange,
    PoolSnapshot,
    SessionRequest,
    TenantSession,
    admitted_keys,
    retire,
)
from zkdeployment.strategies.strategy import is_open

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.base.host import Host
    from zkdeployment.service.users.user import User


#: The delays in seconds after failures of provisioning in a row; further failures have the last delay.
_DELAYS = (60.0, 120.0, 300.0, 900.0, 1800.0, 3600.0)


@dataclass(frozen=True, slots=True)
class FillPlan:
    """The change that fills a pool: unused nodes that it takes, as provisioning, and the number of new ones."""

    taken: tuple[PoolNode, ...] = ()
    new: int = 0


def plan_filling(
    pool: NodePool,
    nodes: Collection[PoolNode],
    now: float,
    *,
    reuse: Mapping[str, int | str] | None = None,
    roles: Mapping[str, str] | None = None,
) -> FillPlan:
    """Return the changes that bring a pool to its level, or closer to it if one transaction is too small.

    ``reuse`` has the values that unused nodes must have, with templates filled in; ``None``: nodes are made anew.
    ``roles`` has the present hosts of the fleet and their configured roles: a pool of hosts takes hosts with its
    idle role.
    """
    lacking = min(pool.kept - sum(1 for node in nodes if _counts(node, pool)), MOST_NODES)
    if lacking <= 0:
        return FillPlan()
    if isinstance(pool.mechanism, RoleMechanism):
        idle = pool.mechanism.idle
        usable = [
            node for node in _unused(nodes) if node.host is not None and (roles or {}).get(node.host) == idle
        ]
    elif reuse is not None:
        usable = [node for node in _unused(nodes) if node.host is None and _matches(node, reuse)]
    else:
        return FillPlan(new=lacking)
    return FillPlan(tuple(node.after(NodeEvent.CHOSEN, now, pool=pool.name) for node in usable[:lacking]))


def at_time(configuration: PoolConfiguration, now: float) -> PoolConfiguration:
    """Return a configuration in which each pool has the level of its schedule at ``now``."""
    pools = {
        name: replace(
            pool,
            fill_level=next(
                (entry.level for entry in pool.schedule if is_open([entry.window], now)), pool.fill_level
            ),
        )
        for name, pool in configuration.pools.items()
    }
    return replace(configuration, pools=pools)


def surplus(pool: NodePool, nodes: Iterable[PoolNode], claimed: Collection[int]) -> tuple[PoolNode, ...]:
    """Return the surplus nodes of a pool: nodes that no worker has begun to make, then ready nodes.

    Of the ready nodes, nodes that a session had come first, then the nodes that became ready last. ``claimed`` are
    the ids of nodes on which a process works. A pool without a level keeps its nodes.
    """
    if not pool.lends:
        return ()
    own = [node for node in nodes if _counts(node, pool)]
    idle = [node for node in own if node.id not in claimed]
    waiting = [node for node in idle if node.state is NodeState.PROVISIONING and not node.begun]
    ready = [node for node in idle if node.is_ready]
    ready.sort(key=lambda node: (node.was_lent, node.changed, node.id), reverse=True)
    has_ready = sum(node.is_ready for node in own)
    dropped = waiting[: max(0, len(own) - pool.kept)]
    return (*dropped, *ready[: max(0, has_ready - pool.kept)])


def next_filling(failures: int, last: float) -> float:
    """Return when a pool is filled again after failures in a row, the last of which was at ``last``."""
    return last + _DELAYS[min(failures, len(_DELAYS)) - 1] if failures else last


def new_node(node_id: int, pool: NodePool, now: float) -> PoolNode:
    """Return a node that is made anew for a pool."""
    return PoolNode(
        id=node_id, state=NodeState.PROVISIONING, created_at=now, changed=now, pool=pool.name, reusable=False
    )


def _counts(node: PoolNode, pool: NodePool) -> bool:
    is_available = node.state is NodeState.PROVISIONING or node.is_ready
    return node.is_active and node.pool == pool.name and is_available


def _unused(nodes: Iterable[PoolNode]) -> list[PoolNode]:
    """Return the unused nodes; the node that was used longest ago comes first."""
    unused = (node for node in nodes if node.is_unused)
    return sorted(unused, key=lambda node: (node.changed, node.id))


def _matches(node: PoolNode, reuse: Mapping[str, int | str]) -> bool:
    """Whether the data of a node has the values that a pool demands; ``2`` is not ``"2"``, as in Duffy."""
    return all(type(node.data.get(key)) is type(value) and node.data[key] == value for key, value in reuse.items())


@dataclass(frozen=True, slots=True)
class PoolSources:
    """The sources of pools: their configuration, the tenants by id, and the hosts that are registered, by id.

    ``hosts`` and ``maintenance``, the ids of the hosts in maintenance, are empty unless a pool has the mechanism
    ``role``.
    """

    configuration: PoolConfiguration = field(default_factory=PoolConfiguration)
    tenants: Mapping[int, User] = field(default_factory=dict)
    hosts: Mapping[str, Host] = field(default_factory=dict)
    maintenance: frozenset[str] = frozenset()

    @property
    def available(self) -> Mapping[str, Host]:
        """The registered hosts that are not in maintenance, by id."""
        return {host_id: host for host_id, host in self.hosts.items() if host_id not in self.maintenance}


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """The facts on which a worker decides, at one moment; ``now`` is in seconds since the epoch.

    ``reuse`` has, for pools that reuse nodes, the values that unused nodes must have, with templates filled in.
    ``probes`` has the results of probes of ready nodes by id: the reason of a failure, or an empty text.
    """

    sources: PoolSources
    snapshot: PoolSnapshot
    now: float
    reuse: Mapping[str, Mapping[str, int | str]] = field(default_factory=dict)
    probes: Mapping[int, str] = field(default_factory=dict)

    def pool_of(self, node: PoolNode) -> NodePool | None:
        """Return the pool of a node, described with the mechanism that made the node; ``None``: unknown.

        The description comes from the document, else from the record.
        """
        name = node.pool or ""
        known = self.sources.configuration.pools.get(name)
        if known is not None and _makes(known, node):
            return known
        record = self.snapshot.filling.get(name)
        recorded = described_pool(name, record.values) if record is not None and record.values else None
        return recorded if recorded is not None and _makes(recorded, node) else None


class TaskKind(Enum):
    """The work on nodes outside ZooKeeper.

    Revoking removes the keys of a tenant. Revoking needs no pool, and is the first work after the end of a
    session, so that no key stays until there is room for another playbook.
    """

    PROVISION = "provision"
    CONTEXTUALIZE = "contextualize"
    REVOKE = "revoke"
    DEPROVISION = "deprovision"

    @property
    def state(self) -> NodeState:
        """The state of the nodes during the work."""
        return _STATES[self]


_STATES = {
    TaskKind.PROVISION: NodeState.PROVISIONING,
    TaskKind.CONTEXTUALIZE: NodeState.CONTEXTUALIZING,
    TaskKind.REVOKE: NodeState.DEPROVISIONING,
    TaskKind.DEPROVISION: NodeState.DEPROVISIONING,
}


@dataclass(frozen=True, slots=True)
class NodeTask:
    """A task: nodes of one pool, or the nodes of a session that has to begin, and the public keys that they get.

    ``pools`` are the known pools of the nodes, by the ids of the nodes.
    """

    kind: TaskKind
    nodes: tuple[PoolNode, ...]
    pools: Mapping[int, NodePool]
    session: int | None = None
    keys: tuple[str, ...] = ()

    @property
    def ids(self) -> frozenset[int]:
        """The ids of the nodes."""
        return frozenset(node.id for node in self.nodes)

    @property
    def pool(self) -> NodePool:
        """The pool of a task that concerns a single pool."""
        return next(iter(self.pools.values()))


@dataclass(frozen=True, slots=True)
class WorkStep:
    """A change that is written at once, with the event and the values for the log.

    ``new`` has nodes without ids, which get the pool or the host of the step.
    """

    event: str
    values: Mapping[str, object]
    change: PoolChange
    new: tuple[PoolNode, ...] = ()


def next_steps(facts: PoolFacts) -> Iterator[WorkStep]:
    """Yield the changes that are due, each independent of the others."""
    yield from _times_corrected(facts)
    yield from _ended_sessions(facts)
    yield from _nodes_out_of_place(facts)
    yield from _probed_nodes(facts)
    yield from _surplus(facts)
    yield from _new_hosts(facts)
    yield from _filled_pools(facts)
    yield from _waiting_requests(facts)


def next_tasks(facts: PoolFacts, busy: Collection[int]) -> Iterator[NodeTask]:
    """Yield the tasks on nodes without a claim; ``busy`` are nodes on which this worker still works.

    Hosts in maintenance do not change their roles, so their nodes wait.
    """
    read = facts.snapshot
    free = [
        node
        for node in sorted(read.nodes.values(), key=lambda node: node.id)
        if node.id not in read.claimed and node.id not in busy
    ]
    yield from _contextualizing(facts, free)
    away = facts.sources.maintenance
    for kind in (TaskKind.REVOKE, TaskKind.DEPROVISION, TaskKind.PROVISION):
        may_begin = (node for node in free if kind is TaskKind.REVOKE or node.host not in away)
        waiting = sorted((node for node in may_begin if _waits_for(node, kind)), key=_making)
        for _, group in groupby(waiting, key=_making):
            nodes = tuple(group)
            pool = facts.pool_of(nodes[0])
            if pool is not None or kind is TaskKind.REVOKE:
                size = 1 if pool is not None and pool.run_parallel and kind is not TaskKind.REVOKE else MOST_NODES
                for first in range(0, len(nodes), size):
                    part = nodes[first : first + size]
                    yield NodeTask(kind, part, {} if pool is None else {node.id: pool for node in part})


def _waits_for(node: PoolNode, kind: TaskKind) -> bool:
    """Whether a node waits for a kind of task; keys of tenants are removed before all other tasks."""
    has_key = node.state is NodeState.DEPROVISIONING and node.has_key
    return node.state is kind.state and has_key == (kind is TaskKind.REVOKE)


def next_due(facts: PoolFacts) -> float | None:
    """Return when the next session or request ends, or a pool may be filled again; ``None``: nothing is due."""
    ends = [session.expires_at for session in facts.snapshot.sessions.values()]
    retries = [
        next_filling(record.failures, record.last_failure)
        for record in facts.snapshot.filling.values()
        if record.failures
    ]
    waits = next_due_wait(facts.snapshot)
    return min((time for time in (*ends, *retries, *waits) if time > facts.now), default=None)


def _times_corrected(facts: PoolFacts) -> Iterator[WorkStep]:
    """Yield the correction of each session and each request that a clock ahead of this one has dated."""
    read, now = facts.snapshot, facts.now
    for session in read.sessions.values():
        if (seen := session.seen_at(now)) != session:
            values = {"session": session.id, "created": session.created_at}
            yield WorkStep("session-time-corrected", values, PoolChange(sessions=(seen,)))
    for request in read.waiting.values():
        if request.is_waiting and (waiting := request.seen_at(now)) != request:
            values = {"request": request.id, "created": request.created_at}
            yield WorkStep("request-time-corrected", values, PoolChange(waiting=(waiting,)))


def _ended_sessions(facts: PoolFacts) -> Iterator[WorkStep]:
    """Yield the end of each session that has expired, or whose tenant is retired."""
    for session in facts.snapshot.sessions.values():
        tenant = facts.sources.tenants.get(session.tenant)
        is_retired = tenant is not None and tenant.is_retired
        if session.is_expired(facts.now) or is_retired:
            ended, released = retire(session, facts.snapshot.nodes.values(), facts.now)
            cause = "its tenant is retired" if is_retired else "it expired"
            values = {"session": session.id, "tenant": tenant.name if tenant else session.tenant, "cause": cause}
            yield WorkStep("session-expired", values, PoolChange(nodes=released, sessions=(ended,)))


def _waiting_requests(facts: PoolFacts) -> Iterator[WorkStep]:
    """Yield the ends of requests that waited too long, removals of old ones, and the nodes of the next request.

    Only one request gets nodes, because the decision about the next one depends on the nodes that tenants have
    then.
    """
    read, sources, now = facts.snapshot, facts.sources, facts.now
    for request in outdated_waits(read, now):
        yield WorkStep("request-removed", {"request": request.id}, PoolChange(answered=(request,)))
    ended = list(ended_waits(read, sources.configuration, sources.tenants, now))
    for request in ended:
        yield _ended_wait(request)
    left = {number: request for number, request in read.waiting.items() if number not in {end.id for end in ended}}
    away = {node.host for node in read.nodes.values() if node.host is not None}.difference(sources.available)
    queued = replace(read, waiting=left)
    lending = LendingFacts(queued, sources.configuration, sources.tenants, now, away)
    granted = next(grants(lending), None)
    if granted is None:
        return
    request, given = granted
    change = PoolChange(nodes=given.nodes, sessions=(given.session,), answered=(request,))
    values = {"request": request.id, "nodes": len(given.nodes), "waited": round(now - request.created_at, 1)}
    yield WorkStep("request-granted", values, change)


def _ended_wait(request: SessionRequest) -> WorkStep:
    values = {"request": request.id, "reason": request.outcome}
    return WorkStep("request-ended", values, PoolChange(waiting=(request,)))


def _nodes_out_of_place(facts: PoolFacts) -> Iterator[WorkStep]:
    """Yield the next state of each node that no session and no pool needs."""
    now = facts.now
    for node in facts.snapshot.nodes.values():
        if node.state in IN_SESSION and node.session not in facts.snapshot.sessions:
            yield _moved(node, node.after(NodeEvent.RELEASED, now), "its session has ended")
        elif node.state is NodeState.UNUSED and not node.reusable:
            yield _moved(node, node.after(NodeEvent.RETIRED, now), "it is not used again")
        elif node.id in facts.snapshot.claimed:
            continue
        elif node.state is NodeState.READY:
            pool = facts.sources.configuration.pools.get(node.pool or "")
            if pool is None or not _makes(pool, node):
                reason = "is not in the document any more" if pool is None else "has another mechanism now"
                yield _moved(node, node.after(NodeEvent.RELEASED, now), f"the pool {node.pool} {reason}")
        elif facts.pool_of(node) is None:
            yield from _without_pool(node, now)


def _probed_nodes(facts: PoolFacts) -> Iterator[WorkStep]:
    """Yield the next state of each ready node that a probe found unreachable, or reachable again.

    If no node at all answered, the worker may be at fault, so no node fails. Hosts in maintenance are not probed.
    """
    may_fail = not all(facts.probes.values())
    for number, node in facts.snapshot.nodes.items():
        after, reason = node, facts.probes.get(number)
        if node.state is not NodeState.READY or number in facts.snapshot.claimed:
            continue
        if node.host in facts.sources.maintenance:
            after, reason = unprobed(node), "it is in maintenance"
        elif reason is not None:
            after = probed(node, reason, facts.now, may_fail=may_fail)
        if after is not node:
            yield WorkStep("node-probed", {"node": number, "reason": reason or "it answers"}, PoolChange((after,)))


def _without_pool(node: PoolNode, now: float) -> Iterator[WorkStep]:
    """Yield the next state of a node that waits for a task but has no known pool."""
    if node.state is NodeState.PROVISIONING:
        rest = end_of_provisioning(node, now)
        yield _moved(node, rest, f"the pool {node.pool} is unknown")
    elif node.state is NodeState.DEPROVISIONING and not node.has_key:
        reason = (
            f"deprovisioning is impossible: the pool {node.pool} is not in the document with the mechanism that"
            " made the node, and nothing is recorded about it; add the pool again and forgive the node, or remove"
            " the machine and retire the node"
        )
        yield _moved(node, fail(node, reason, now), reason)


def _surplus(facts: PoolFacts) -> Iterator[WorkStep]:
    """Yield the next state of each surplus node."""
    read, now = facts.snapshot, facts.now
    for pool in facts.sources.configuration.pools.values():
        made = (node for node in read.nodes.values() if _makes(pool, node))
        for node in surplus(pool, made, read.claimed):
            is_ready = node.state is NodeState.READY
            after = node.after(NodeEvent.RELEASED, now) if is_ready else end_of_provisioning(node, now)
            yield _moved(node, after, f"the pool {pool.name} has more nodes than its level")


def _makes(pool: NodePool, node: PoolNode) -> bool:
    """Whether nodes like this one are made by the mechanism of a pool: hosts of the fleet, or other machines."""
    return isinstance(pool.mechanism, RoleMechanism) == (node.host is not None)


def _making(node: PoolNode) -> tuple[str, bool]:
    """Return the key of nodes that are made in the same way: the pool, and whether they are hosts."""
    return node.pool or "", node.host is not None


def _moved(node: PoolNode, after: PoolNode | None, reason: str) -> WorkStep:
    change = PoolChange(deleted=(node,)) if after is None else PoolChange(nodes=(after,))
    values = {"node": node.id, "state": "deleted" if after is None else after.state.value, "reason": reason}
    return WorkStep("node-moved", values, change)


def _new_hosts(facts: PoolFacts) -> Iterator[WorkStep]:
    """Yield a node for each registered host that a pool may lease, and that never was a node."""
    idle = _idle_roles(facts.sources.configuration.pools.values())
    read = facts.snapshot
    known = read.hosts.keys() | {node.host for node in read.nodes.values()}  # a record may be damaged
    for host in facts.sources.hosts.values():
        if host.idle_role in idle and host.identity.id not in known:
            yield WorkStep("host-added", {"host": host.identity.id}, PoolChange(), (host_node(host, facts.now),))


def host_node(host: Host, now: float) -> PoolNode:
    """Return a host of the fleet as a node, without an id."""
    return PoolNode(
        id=0,
        state=NodeState.UNUSED,
        created_at=now,
        changed=now,
        hostname=host.identity.name,
        ipaddr=host.address,
        reusable=True,
        host=host.identity.id,
    )


def _idle_roles(pools: Iterable[NodePool]) -> frozenset[str]:
    return frozenset(pool.mechanism.idle for pool in pools if isinstance(pool.mechanism, RoleMechanism))


def _filled_pools(facts: PoolFacts) -> Iterator[WorkStep]:
    """Yield the changes that bring each pool to its level, and corrections of records.

    Pools share unused nodes: the first pool that a node fits takes it. If a pool got another mechanism, its record
    keeps the former description as long as the pool has nodes that the former mechanism made.
    """
    left = dict(facts.snapshot.nodes)
    roles = {
        host.identity.id: host.idle_role
        for host in facts.sources.available.values()
        if host.idle_role is not None and host.identity.role == host.idle_role
    }
    for pool in facts.sources.configuration.pools.values():
        record = facts.snapshot.filling.get(pool.name, FillingRecord())
        others = (node for node in facts.snapshot.nodes.values() if node.pool == pool.name)
        is_former = bool(record.values) and not all(_makes(pool, node) for node in others)
        values = record.values if is_former else pool.values
        seen = record.seen_at(facts.now)
        described = replace(
            seen,
            values=values,
            below_since=_below_since(pool, seen, facts),
            level=pool.fill_level if pool.schedule else None,
        )
        plan = plan_filling(pool, left.values(), facts.now, reuse=facts.reuse.get(pool.name), roles=roles)
        is_due = next_filling(described.failures, described.last_failure) <= facts.now
        is_known = pool.reuse is None or pool.name in facts.reuse
        filling = {pool.name: described}
        if (plan.taken or plan.new) and is_due and is_known:
            for node in plan.taken:
                left.pop(node.id, None)
            new = tuple(new_node(0, pool, facts.now) for _ in range(plan.new))
            values = {"pool": pool.name, "reused": len(plan.taken), "new": plan.new}
            yield WorkStep("pool-filling", values, PoolChange(nodes=plan.taken, filling=filling), new)
        elif described != record and (pool.lends or record.stamp is not None):
            yield WorkStep("pool-described", {"pool": pool.name}, PoolChange(filling=filling))


def _below_since(pool: NodePool, record: FillingRecord, facts: PoolFacts) -> float | None:
    """Return when a pool fell below its level; ``None`` for a pool at its level."""
    nodes = facts.snapshot.nodes.values()
    ready = sum(node.pool == pool.name and node.is_ready for node in nodes)
    if ready >= pool.kept:
        return None
    return facts.now if record.below_since is None else record.below_since


def _contextualizing(facts: PoolFacts, free: Iterable[PoolNode]) -> Iterator[NodeTask]:
    """Yield a task for each session whose nodes wait for the keys of the session or its tenant."""
    waiting: dict[int, list[PoolNode]] = {}
    for node in free:
        if node.state is NodeState.CONTEXTUALIZING and node.session is not None:
            waiting.setdefault(node.session, []).append(node)
    for number, nodes in waiting.items():
        session = facts.snapshot.sessions.get(number)
        if session is not None and not _is_claimed(session, facts.snapshot):
            tenant = facts.sources.tenants.get(session.tenant)
            pools = {node.id: pool for node in nodes if (pool := facts.pool_of(node)) is not None}
            keys = admitted_keys(session, tenant)
            yield NodeTask(TaskKind.CONTEXTUALIZE, tuple(nodes), pools, number, keys)


def _is_claimed(session: TenantSession, read: PoolSnapshot) -> bool:
    """Whether a process works on some of the session's nodes."""
    return any(
        number in read.claimed and number in read.nodes and read.nodes[number].session == session.id
        for number in session.nodes
    )


def recorded_leases(facts: PoolFacts) -> dict[str, RecordedLease]:
    """Return the role and the keys of each host that is a node, by the host's id.

    Roles are those of the pools' document. Only nodes whose session has begun get keys: those of the session or of
    its registered tenant. Hosts whose role is not known are omitted.
    """
    return {
        node.host: RecordedLease(role, *_keys(node, facts))
        for node in facts.snapshot.nodes.values()
        if node.host is not None and (role := _role(node, node.host, facts)) is not None
    }


def idle_leases(facts: PoolFacts) -> dict[str, Lease]:
    """Return the idle role and the reached number, as a lease, of each registered unused host that was leased."""
    found = {}
    for node in facts.snapshot.nodes.values():
        host = facts.sources.hosts.get(node.host or "")
        if not node.is_unused or host is None or host.leased is None or not host.leased.number:
            continue
        if (role := _role(node, host.identity.id, facts)) is not None:
            found[host.identity.id] = Lease(role, host.leased.number)
    return found


def _role(node: PoolNode, host_id: str, facts: PoolFacts) -> str | None:
    if node.state is not NodeState.UNUSED:
        pool = facts.pool_of(node)
        return pool.mechanism.leased if pool is not None and isinstance(pool.mechanism, RoleMechanism) else None
    mechanisms = (pool.mechanism for pool in facts.sources.configuration.pools.values())
    idle_roles = {mechanism.idle for mechanism in mechanisms if isinstance(mechanism, RoleMechanism)}
    host = facts.sources.hosts.get(host_id)
    return host.idle_role if host is not None and host.idle_role in idle_roles else None


def _keys(node: PoolNode, facts: PoolFacts) -> tuple[tuple[str, ...], int | None]:
    """Return the keys that a node admits, and their session."""
    session = None if node.session is None else facts.snapshot.sessions.get(node.session)
    if node.state is not NodeState.DEPLOYED or session is None:
        return (), None
    return admitted_keys(session, facts.sources.tenants.get(session.tenant)), session.id
