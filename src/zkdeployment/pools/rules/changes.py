"""Changes of pools, nodes and sessions between two readings, as events report them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.overview import failure_of, pool_overviews

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.pools.rules.node import PoolNode
    from zkdeployment.pools.rules.overview import PoolOverview
    from zkdeployment.pools.rules.snapshot import PoolReading
    from zkdeployment.pools.rules.tenant_session import TenantSession
    from zkdeployment.tree.values import Value


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
    before: PoolOverview | None
    after: PoolOverview | None

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
    old, new = _overviews(before), _overviews(after)
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


def _overviews(reading: PoolReading) -> dict[str, PoolOverview]:
    return {pool.name: pool for pool in pool_overviews(reading.configuration, reading.snapshot)}


def _levels(pool: PoolOverview | None) -> object:
    return None if pool is None else (pool.level, _counts(pool), pool.shortage)


def _counts(pool: PoolOverview) -> dict[str, Value]:
    return {
        "ready": pool.ready,
        "provisioning": pool.provisioning,
        "leased": pool.leased,
        "deprovisioning": pool.deprovisioning,
        "failed": pool.failed,
    }


def _missing(pool: PoolOverview | None) -> int:
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
