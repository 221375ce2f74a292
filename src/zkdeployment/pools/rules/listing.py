"""Pools, nodes and sessions as operators see them: counts, reasons, JSON and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.durations import age
from zkdeployment.base.errors import NotFoundError
from zkdeployment.base.records import APART, Record, shown
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.health import Health, HealthLimits
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism
from zkdeployment.pools.rules.node import IN_SESSION, NodeState, PoolNode
from zkdeployment.pools.rules.usage import tenant_name
from zkdeployment.pools.rules.work import next_filling

if TYPE_CHECKING:
    from zkdeployment.base.json_values import Value
    from zkdeployment.fleet.views.fleet_health import AlarmTimes
    from zkdeployment.pools.rules.snapshot import (
        FillingRecord,
        LeasedNode,
        PoolReading,
        PoolSnapshot,
        TenantSession,
    )


class ShortageCause(Enum):
    """The causes for which a pool is below its level; the values are the names in the JSON."""

    FILLING = "filling"
    NO_WORKER = "no_worker"
    FAILURES = "failures"
    NO_NODES = "no_nodes"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class PoolShortage(Record):
    """The reason why a pool has fewer ready nodes than its level.

    ``since`` is when it fell below its level; ``None`` if that is unknown. ``reason`` is a clause for people.
    """

    missing: int
    cause: ShortageCause
    since: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView(Record):
    """A pool and the number of its nodes in each state.

    ``shortage`` is ``None`` for a pool at its level, or without a level. ``failures`` is the number of failures of
    provisioning in a row, ``next_filling`` the time of the next attempt after them.
    """

    pool: Annotated[NodePool, APART]
    states: Annotated[Mapping[NodeState, int], APART]
    shortage: PoolShortage | None = None
    unreachable: Annotated[int, APART] = 0
    failures: int = 0
    next_filling: float | None = None

    @property
    @shown("name")
    def name(self) -> str:
        """The name of the pool."""
        return self.pool.name

    @property
    @shown("mechanism")
    def mechanism(self) -> str:
        """The name of the mechanism in documents."""
        return "role" if isinstance(self.pool.mechanism, RoleMechanism) else "ansible"

    @property
    @shown("level")
    def level(self) -> int | None:
        """The number of nodes that the pool keeps ready; ``None``: the pool lends no nodes."""
        return self.pool.fill_level

    @property
    @shown("node_quota")
    def node_quota(self) -> int | None:
        """The number of nodes that a tenant may have; ``None``: only the quota for all pools counts."""
        return self.pool.node_quota

    @property
    @shown("ready")
    def ready(self) -> int:
        """The number of nodes that can be leased."""
        return self.states.get(NodeState.READY, 0) - self.unreachable

    @property
    @shown("provisioning")
    def provisioning(self) -> int:
        """The number of nodes that are made for the pool."""
        return self.states.get(NodeState.PROVISIONING, 0)

    @property
    @shown("leased")
    def leased(self) -> int:
        """The number of nodes in sessions."""
        return sum(self.states.get(state, 0) for state in IN_SESSION)

    @property
    @shown("deprovisioning")
    def deprovisioning(self) -> int:
        """The number of nodes that are cleaned after their sessions."""
        return self.states.get(NodeState.DEPROVISIONING, 0)

    @property
    @shown("failed")
    def failed(self) -> int:
        """The number of failed nodes, which an operator has to repair."""
        return self.states.get(NodeState.FAILED, 0)


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session with the name of its tenant, and the states of the nodes that it still has."""

    session: TenantSession
    tenant: str
    states: Mapping[int, NodeState]


@dataclass(frozen=True, slots=True)
class PoolsStatus:
    """All pools by name, the failed nodes by id, and the names of the workers that run."""

    pools: tuple[PoolView, ...] = ()
    failed: tuple[PoolNode, ...] = ()
    workers: tuple[str, ...] = ()

    @property
    def is_without_worker(self) -> bool:
        """Whether there are pools with a level, and no worker fills them."""
        return not self.workers and any(pool.level is not None for pool in self.pools)


def pools_status(configuration: PoolConfiguration, snapshot: PoolSnapshot) -> PoolsStatus:
    """Return the status of all pools."""
    failed = tuple(node for node in pool_nodes(snapshot) if node.state is NodeState.FAILED)
    return PoolsStatus(pool_views(configuration, snapshot), failed, snapshot.workers)


def pool_views(configuration: PoolConfiguration, snapshot: PoolSnapshot) -> tuple[PoolView, ...]:
    """Return all pools by name."""
    return tuple(_view(pool, snapshot) for _, pool in sorted(configuration.pools.items()))


def find_pool(name: str, pools: Iterable[PoolView]) -> PoolView:
    """Return the pool with a name; raises ``NotFoundError`` with the existing names."""
    known = {pool.name: pool for pool in pools}
    if name not in known:
        names = ", ".join(known) or "none: no pools are published"
        raise NotFoundError(f"there is no pool {name!a}; the pools are: {names}")
    return known[name]


def session_views(
    sessions: Iterable[TenantSession], snapshot: PoolSnapshot, tenants: Mapping[int, str]
) -> tuple[SessionView, ...]:
    """Return sessions by id, active or ended; ``tenants`` are the names of users by id."""
    return tuple(
        SessionView(
            session,
            tenant_name(session, tenants),
            {
                number: node.state
                for number in session.nodes
                if (node := snapshot.nodes.get(number)) is not None and node.session == session.id
            },
        )
        for session in sorted(sessions, key=lambda session: session.id)
    )


def pool_nodes(snapshot: PoolSnapshot, pool: str | None = None) -> tuple[PoolNode, ...]:
    """Return the nodes of a pool, or all nodes, by id."""
    return tuple(node for _, node in sorted(snapshot.nodes.items()) if pool in {None, node.pool})


def failure_of(node: PoolNode) -> str | None:
    """Return why a node failed; ``None`` for nodes that have not failed."""
    error = node.data.get("error")
    if node.state is not NodeState.FAILED:
        return None
    detail = error.get("detail") if isinstance(error, dict) else None
    return detail if isinstance(detail, str) else "the reason is unknown"


def ssh_command(node: LeasedNode) -> str:
    """Return the command with which a tenant reaches a leased node."""
    return f"ssh root@{node.ipaddr or node.hostname}"


def with_present_level(pool: NodePool, snapshot: PoolSnapshot) -> NodePool:
    """Return a pool with the level that its schedule gives it at present, if a worker has recorded one."""
    record = snapshot.filling.get(pool.name)
    if pool.schedule and record is not None and record.level is not None:
        return replace(pool, fill_level=record.level)
    return pool


def _view(pool: NodePool, snapshot: PoolSnapshot) -> PoolView:
    pool, nodes = with_present_level(pool, snapshot), pool_nodes(snapshot, pool.name)
    record = snapshot.filling.get(pool.name)
    found = PoolView(
        pool=pool,
        states=Counter(node.state for node in nodes),
        unreachable=sum(node.state is NodeState.READY and not node.is_ready for node in nodes),
        failures=0 if record is None else record.failures,
        next_filling=next_filling(record.failures, record.last_failure) if record and record.failures else None,
    )
    missing = pool.kept - found.ready
    if missing <= 0:
        return found
    cause, reason = _cause(found, missing, record, snapshot)
    since = _below_since(nodes, record, snapshot.sessions)
    return replace(found, shortage=PoolShortage(missing, cause, since, reason))


def _cause(
    found: PoolView, missing: int, record: FillingRecord | None, snapshot: PoolSnapshot
) -> tuple[ShortageCause, str]:
    """Return the first cause that applies, with a clause for people."""
    if not snapshot.workers:
        return ShortageCause.NO_WORKER, "no worker of the pools runs"
    if record is not None and record.failures:
        times = "once" if record.failures == 1 else f"{record.failures} times in a row"
        return ShortageCause.FAILURES, f"filling failed {times}: {record.reason}"
    if found.provisioning >= missing:
        return ShortageCause.FILLING, f"{_nodes(found.provisioning)} being provisioned"
    passed_over = 0
    if isinstance(found.pool.mechanism, RoleMechanism):
        wanted = f"no unused host with the role {found.pool.mechanism.idle} can be taken"
        passed_over = sum(node.is_unused and node.host is not None for node in snapshot.nodes.values())
    elif found.pool.reuse is not None:
        wanted = "no unused node has the values of reuse-nodes"
    else:
        return ShortageCause.WAITING, "a worker is about to fill the pool"
    return ShortageCause.NO_NODES, "; ".join((wanted, *_unavailable(found, passed_over)))


def _unavailable(found: PoolView, passed_over: int) -> Iterable[str]:
    """Yield why nodes are not ready for a pool that lacks nodes; ``passed_over`` are unused hosts of any pool."""
    for count, work in (
        (found.provisioning, "being provisioned"),
        (found.deprovisioning, "being deprovisioned"),
        (found.unreachable, "ready but unreachable"),
        (passed_over, "unused, but absent, in maintenance or of another role"),
    ):
        if count:
            yield f"{_nodes(count)} {work}"


def _nodes(count: int) -> str:
    return "1 node is" if count == 1 else f"{count} nodes are"


def _below_since(
    nodes: Iterable[PoolNode], record: FillingRecord | None, sessions: Mapping[int, TenantSession]
) -> float | None:
    """Return when a pool fell below its level, as a worker recorded it.

    Without such a record, the pool had its level at the last check of a worker, so the last change of a node
    counts.
    """
    if record is not None and record.below_since is not None:
        return record.below_since
    began = {session.id: session.created_at for session in sessions.values()}
    return max((began.get(node.session or 0, node.changed) for node in nodes), default=None)


#: The keys of leased nodes in JSON, and the further keys of all nodes, except ``state``, ``ssh`` and ``error``.
_LEASED = ("id", "pool", "hostname", "ipaddr")
_MORE = ("session", "host", "comment", "reusable", "created_at", "changed", "retired_at")


def pool_node_to_json(node: PoolNode) -> dict[str, Value]:
    """Return a node as one of the schema ``pool-nodes``."""
    return {
        **{name: getattr(node, name) for name in _LEASED + _MORE},
        "state": node.state.value,
        "error": failure_of(node),
    }


def session_view_to_json(view: SessionView) -> dict[str, Value]:
    """Return a session as one of the schema ``sessions``; times are in seconds since the epoch."""
    session = view.session
    return {
        "id": session.id,
        "tenant": view.tenant,
        "active": session.is_active,
        "created_at": session.created_at,
        "expires_at": session.expires_at,
        "retired_at": session.retired_at,
        "requested": [
            {"pool": spec.pool, "quantity": spec.quantity, "properties": [*map(str, spec.properties)]}
            for spec in session.specs
        ],
        "nodes": [_leased_to_json(node, view) for node in session.leased],
    }


def _leased_to_json(node: LeasedNode, view: SessionView) -> dict[str, Value]:
    """Return a node of a session; ``state`` and ``ssh`` are ``None`` if the session no longer has it."""
    state = view.states.get(node.id)
    return {
        **{name: getattr(node, name) for name in _LEASED},
        "state": None if state is None else state.value,
        "ssh": None if state is None else ssh_command(node),
    }


class SessionStep(Enum):
    """The kinds of changes of a session; the values are the names in events."""

    REQUESTED = "requested"  # nodes are reserved, and get the tenant's key
    BEGUN = "begun"  # the tenant has the nodes
    FAILED = "failed"  # the session did not begin
    EXTENDED = "extended"
    SHORTENED = "shortened"
    EXPIRING = "expiring"  # the tenant is warned: the session expires soon
    RETIRED = "retired"  # a user or an operator ended the session
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A step of a session; ``name`` is the tenant's name, if it is known."""

    session: TenantSession
    step: SessionStep
    name: str | None

    def to_json(self) -> dict[str, Value]:
        """Return the change without the session's id."""
        pools: Counter[str] = Counter()
        for spec in self.session.specs:
            pools[spec.pool] += spec.quantity
        return {
            "step": self.step.value,
            "tenant": self.session.tenant,
            "name": self.name,
            "pools": dict(pools),
            "expires_at": self.session.expires_at,
        }


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node that changed its state; the state ``None`` stands for a node that does not exist."""

    node: PoolNode
    former: NodeState | None
    state: NodeState | None

    def to_json(self) -> dict[str, Value]:
        """Return the change without the node's id."""
        return {
            "pool": self.node.pool,
            "hostname": self.node.hostname,
            "former": None if self.former is None else self.former.value,
            "state": None if self.state is None else self.state.value,
            "error": failure_of(self.node),
        }


@dataclass(frozen=True, slots=True)
class PoolLevelChange:
    """A pool whose numbers of nodes changed; ``None`` stands for a pool that is not published."""

    name: str
    before: PoolView | None
    after: PoolView | None

    def to_json(self) -> dict[str, Value]:
        """Return the change without the pool's name; ``missing`` is 0 at or above the level."""
        return {
            "level": None if self.after is None else self.after.level,
            **({} if self.after is None else _counts(self.after)),
            "former_missing": _missing(self.before),
            "missing": _missing(self.after),
            "reason": None if self.after is None or self.after.shortage is None else self.after.shortage.reason,
        }


def level_changes(before: PoolReading, after: PoolReading) -> Iterator[PoolLevelChange]:
    """Yield the pools whose level or numbers of nodes changed, by name."""
    old, new = _views(before), _views(after)
    for name in sorted(old.keys() | new.keys()):
        former, present = old.get(name), new.get(name)
        if _levels(former) != _levels(present):
            yield PoolLevelChange(name, former, present)


def session_changes(before: PoolReading, after: PoolReading) -> Iterator[SessionChange]:
    """Yield the steps of sessions, in the order of their ids; of several steps at once, the most important."""
    old, new = before.snapshot.sessions, after.snapshot.sessions
    for number in sorted(old.keys() | new.keys()):
        session = new.get(number) or after.ended.get(number) or old[number]
        step = _step(number, before, after)
        if step is not None:
            yield SessionChange(session, step, after.tenants.get(session.tenant))


def node_changes(before: PoolReading, after: PoolReading) -> Iterator[NodeChange]:
    """Yield the nodes whose state or pool changed, in the order of their ids."""
    old, new = before.snapshot.nodes, after.snapshot.nodes
    for number in sorted(old.keys() | new.keys()):
        former, node = old.get(number), new.get(number)
        if former is node:
            continue
        place, former_place = _place(node), _place(former)
        known = node or former
        if place != former_place and known is not None:
            yield NodeChange(known, None if former is None else former.state, None if node is None else node.state)


def _views(reading: PoolReading) -> dict[str, PoolView]:
    return {pool.name: pool for pool in pool_views(reading.configuration, reading.snapshot)}


def _levels(pool: PoolView | None) -> object:
    return None if pool is None else (pool.level, _counts(pool), pool.shortage)


def _counts(pool: PoolView) -> dict[str, Value]:
    return {name: getattr(pool, name) for name in ("ready", "provisioning", "leased", "deprovisioning", "failed")}


def _missing(pool: PoolView | None) -> int:
    return 0 if pool is None or pool.shortage is None else pool.shortage.missing


def _place(node: PoolNode | None) -> object:
    return None if node is None else (node.state, node.pool)


def _step(number: int, before: PoolReading, after: PoolReading) -> SessionStep | None:
    old, new = before.snapshot.sessions.get(number), after.snapshot.sessions.get(number)
    if new is None:
        return None if old is None else _end(after.ended.get(number))
    if _has_begun(new, after) and (old is None or not _has_begun(old, before)):
        return SessionStep.BEGUN
    if old is None:
        return SessionStep.REQUESTED
    if new.is_warned and new.warned_expiry != old.warned_expiry:
        return SessionStep.EXPIRING
    if new.expires_at != old.expires_at:
        return SessionStep.EXTENDED if new.expires_at > old.expires_at else SessionStep.SHORTENED
    return None


def _end(ended: TenantSession | None) -> SessionStep:
    """Return the outcome of a session; ``ended`` is its last state, ``None`` if it was dropped."""
    if ended is None:
        return SessionStep.FAILED
    return SessionStep.EXPIRED if ended.retired_by is None else SessionStep.RETIRED


def _has_begun(session: TenantSession, reading: PoolReading) -> bool:
    """Whether no node of a session waits for the tenant's key."""
    nodes = (reading.snapshot.nodes.get(number) for number in session.nodes)
    return not any(node is not None and node.state is NodeState.CONTEXTUALIZING for node in nodes)


#: The limit of nodes and pools that a line names.
_NAMED = 3

#: The number of failures in a row that is a problem at once; after the first failure, the next attempt is a minute
#: later.
_FAILURES = 2


def pool_alarms(pools: PoolsStatus, times: AlarmTimes) -> Iterator[tuple[Health, str]]:
    """Yield the problems of pools, each with its severity.

    A pool that is being filled normally is never a problem, because the worker limits the time. Otherwise the
    limits apply to the time for which the pool has been below its level, or to the age of the publication if that
    time is unknown.
    """
    now, published_for, limits = times.now, times.published_for, times.limits
    below = [
        (pool, shortage)
        for pool in pools.pools
        if (shortage := pool.shortage) is not None and shortage.cause is not ShortageCause.FILLING
    ]
    if pools.is_without_worker:
        yield _missing_worker(below, now, published_for, limits)
        below = []
    for pool, shortage in below:
        lasting = published_for if shortage.since is None else max(0.0, now - shortage.since)
        health = _severity(pool, shortage, lasting, limits)
        if health is not Health.OK:
            ready = f"{pool.ready} of {pool.level} ready"
            yield health, f"pool {pool.name} is below its level for {age(lasting)}, {ready}: {shortage.reason}"
    failures = [f"{node.hostname or node.id} ({node.pool}): {failure_of(node)}" for node in pools.failed]
    if failures:
        yield Health.WARNING, f"{counted(len(failures), 'node')} of pools failed: {listing(failures, _NAMED)}"


def _missing_worker(
    below: list[tuple[PoolView, PoolShortage]], now: float, published_for: float, limits: HealthLimits
) -> tuple[Health, str]:
    """Return the problem of pools without any worker; the oldest lack of nodes decides the severity."""
    since = min((now - published_for if lack.since is None else lack.since for _, lack in below), default=now)
    health, _ = limits.judge((now - since) / 60)
    lacking = f"; below their levels: {listing([pool.name for pool, _ in below], _NAMED)}" if below else ""
    return max(health, Health.WARNING), f"no worker of the pools runs{lacking}"


def _severity(pool: PoolView, shortage: PoolShortage, lasting: float, limits: HealthLimits) -> Health:
    health, _ = limits.judge(lasting / 60)
    match shortage.cause:
        case ShortageCause.FAILURES if pool.failures >= _FAILURES:
            return max(health, Health.WARNING)
        case ShortageCause.NO_NODES:  # all existing nodes may be leased
            return min(health, Health.WARNING)
    return health
