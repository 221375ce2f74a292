"""Changes of nodes and sessions between two readings, as events report them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.pools.node import NodeState, failure_detail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.model.tree import Value
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.reading import PoolReading
    from zkdeployment.pools.tenant_session import TenantSession


class SessionStep(Enum):
    """What happened to a session; the values are the words of events."""

    REQUESTED = "requested"  # nodes are reserved, and get the tenant's key
    BEGUN = "begun"  # the tenant has the nodes
    FAILED = "failed"  # the session did not begin
    EXTENDED = "extended"
    SHORTENED = "shortened"
    EXPIRING = "expiring"  # the tenant is warned: the session expires soon
    RETIRED = "retired"  # somebody ended the session
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A step of a session; ``name`` is that of the tenant, if it is known."""

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
    """A node that came into another state; ``None`` stands for a node that does not exist."""

    node: PoolNode
    former: NodeState | None
    state: NodeState | None

    def to_json(self) -> dict[str, Value]:
        """Return the change without the node's id."""
        failed = self.state is NodeState.FAILED
        return {
            "pool": self.node.pool,
            "hostname": self.node.hostname,
            "former": None if self.former is None else self.former.value,
            "state": None if self.state is None else self.state.value,
            "error": failure_detail(self.node) if failed else None,
        }


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


def _place(node: PoolNode | None) -> object:
    return None if node is None else (node.state, node.pool)


def _step(number: int, before: PoolReading, after: PoolReading) -> SessionStep | None:
    old, new = before.snapshot.sessions.get(number), after.snapshot.sessions.get(number)
    if new is None:
        return None if old is None else _end(old, after.ended.get(number))
    if _has_begun(new, after) and (old is None or not _has_begun(old, before)):
        return SessionStep.BEGUN
    if old is None:
        return SessionStep.REQUESTED
    if new.is_warned and not old.is_warned:
        return SessionStep.EXPIRING
    if new.expires_at != old.expires_at:
        return SessionStep.EXTENDED if new.expires_at > old.expires_at else SessionStep.SHORTENED
    return None


def _end(session: TenantSession, ended: TenantSession | None) -> SessionStep:
    """Return how an active session ended; ``ended`` is its last state, ``None`` if it was dropped."""
    if ended is None or ended.retired_at is None:
        return SessionStep.FAILED
    return SessionStep.EXPIRED if session.is_expired(ended.retired_at) else SessionStep.RETIRED


def _has_begun(session: TenantSession, reading: PoolReading) -> bool:
    """Whether no node of a session waits for the tenant's key."""
    nodes = (reading.snapshot.nodes.get(number) for number in session.nodes)
    return not any(node is not None and node.state is NodeState.CONTEXTUALIZING for node in nodes)
