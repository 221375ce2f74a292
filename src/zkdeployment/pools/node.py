"""The nodes of pools, and the table of what happens to them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from zkdeployment.pools.reasons import shortened
from zkdeployment.unknown_keys import no_keys

if TYPE_CHECKING:
    from collections.abc import Mapping


class NodeTransitionError(Exception):
    """An event cannot happen to a node in its state."""


class NodeState(Enum):
    """The states of a node; the values are the words of Duffy's API."""

    UNUSED = "unused"
    PROVISIONING = "provisioning"
    READY = "ready"
    CONTEXTUALIZING = "contextualizing"
    DEPLOYED = "deployed"
    DEPROVISIONING = "deprovisioning"
    DONE = "done"
    FAILED = "failed"


class NodeEvent(Enum):
    """An event of a node."""

    CHOSEN = "a pool below its level takes the node"
    PROVISIONED = "the node is provisioned"
    PROVISIONING_FAILED = "provisioning failed, and the node can be used again"
    RESERVED = "a session reserves the node"
    CONTEXTUALIZED = "the tenant's key is on the node"
    CLEANED = "the session was not begun, and the tenant's key is off the node"
    RELEASED = "the session ended, or the node is taken out of its pool"
    DEPROVISIONED = "the node is deprovisioned, and can be used again"
    REMOVED = "the node is deprovisioned, and cannot be used again"
    FAILED = "the node failed"
    FORGIVEN = "an operator lets the failed node be deprovisioned"
    RETIRED = "an operator retires the node"


_UNUSED, _PROVISIONING, _READY = NodeState.UNUSED, NodeState.PROVISIONING, NodeState.READY
_CONTEXTUALIZING, _DEPLOYED = NodeState.CONTEXTUALIZING, NodeState.DEPLOYED
_DEPROVISIONING, _DONE, _FAILED = NodeState.DEPROVISIONING, NodeState.DONE, NodeState.FAILED

#: The state of a node after an event, by the state before it and the event. A node that could not be provisioned
#: and cannot be used again is deleted; it has no state then.
NODE_TRANSITIONS: Mapping[tuple[NodeState, NodeEvent], NodeState] = {
    (_UNUSED, NodeEvent.CHOSEN): _PROVISIONING,
    (_PROVISIONING, NodeEvent.PROVISIONED): _READY,
    (_PROVISIONING, NodeEvent.PROVISIONING_FAILED): _UNUSED,
    (_READY, NodeEvent.RESERVED): _CONTEXTUALIZING,
    (_READY, NodeEvent.FAILED): _FAILED,
    (_CONTEXTUALIZING, NodeEvent.CONTEXTUALIZED): _DEPLOYED,
    (_CONTEXTUALIZING, NodeEvent.CLEANED): _READY,
    (_CONTEXTUALIZING, NodeEvent.FAILED): _FAILED,
    (_CONTEXTUALIZING, NodeEvent.RELEASED): _DEPROVISIONING,
    (_DEPLOYED, NodeEvent.RELEASED): _DEPROVISIONING,
    (_READY, NodeEvent.RELEASED): _DEPROVISIONING,
    (_DEPROVISIONING, NodeEvent.DEPROVISIONED): _UNUSED,
    (_DEPROVISIONING, NodeEvent.REMOVED): _DONE,
    (_DEPROVISIONING, NodeEvent.FAILED): _FAILED,
    (_FAILED, NodeEvent.FORGIVEN): _DEPROVISIONING,
    (_UNUSED, NodeEvent.RETIRED): _DONE,
    (_FAILED, NodeEvent.RETIRED): _DONE,
}

#: The states in which a node belongs to a session.
IN_SESSION = frozenset({_CONTEXTUALIZING, _DEPLOYED})

#: What deprovisioning removes from the data of a node that is used again.
PASSING_DATA = frozenset({"error", "nodes_spec", "provision", "unreachable"})

#: Seconds after which a ready node that answers no probe has failed.
_LONGEST_SILENCE = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNode:
    """A node: a machine that tenants lease.

    ``pool`` is the pool that the node is in, also while it is deprovisioned; ``session`` the id of the session
    that has it. ``host`` is the id of the host of this fleet that the node is, ``None`` for other machines.
    ``revoked`` is whether the key of the node's last tenant was removed, or was tried to be, after the session.
    ``keys`` are the public keys of tenants that were added to the node and are to be removed from it.
    ``begun`` is whether a worker has begun to provision the node: a machine may exist then.
    ``data`` is what Duffy's API shows: the result of provisioning, the request that the node was chosen for, and
    the error of a failed node. Times are in seconds since the epoch. ``stamp`` is the version of the node when it
    was read, which changes with each write; ``None`` for a new one. ``unknown`` are the keys of the record that
    this version does not know.
    """

    id: int
    state: NodeState
    created_at: float
    changed: float
    pool: str | None = None
    session: int | None = None
    hostname: str | None = None
    ipaddr: str | None = None
    comment: str | None = None
    reusable: bool = False
    revoked: bool = False
    begun: bool = False
    host: str | None = None
    keys: tuple[str, ...] = ()
    retired_at: float | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    stamp: int | None = field(default=None, compare=False)
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    @property
    def is_active(self) -> bool:
        """Whether the node still exists for the pools."""
        return self.retired_at is None

    @property
    def is_ready(self) -> bool:
        """Whether the node can be lent: it is ready, and answered the last probe."""
        return self.state is NodeState.READY and "unreachable" not in self.data

    @property
    def was_lent(self) -> bool:
        """Whether a session had the node since it was last made or reset, so that a tenant's key may be on it."""
        return "nodes_spec" in self.data

    @property
    def has_key(self) -> bool:
        """Whether the key of a tenant has to be removed from the node before it is deprovisioned."""
        return self.was_lent and not self.revoked

    def after(self, event: NodeEvent, now: float, **changes: Any) -> PoolNode:
        """Return the node after an event; raises ``NodeTransitionError`` if the state does not allow the event."""
        state = NODE_TRANSITIONS.get((self.state, event))
        if state is None:
            raise NodeTransitionError(f"node {self.id} is {self.state.value}; that excludes: {event.value}")
        revoked = self.revoked and event not in {NodeEvent.RESERVED, NodeEvent.FORGIVEN}
        node = replace(self, state=state, changed=now, revoked=revoked, begun=False, **changes)
        if state in {_UNUSED, _DONE}:
            kept = {key: value for key, value in node.data.items() if key not in PASSING_DATA}
            data = kept if state is _UNUSED else node.data
            node = replace(node, pool=None, session=None, data=data, keys=())
        if state is _DONE:
            node = replace(node, retired_at=now)
        elif state not in IN_SESSION:
            node = replace(node, session=None)
        return node


def fail(node: PoolNode, detail: str, now: float) -> PoolNode:
    """Return a node as failed, with the time and the reason in its data."""
    error = {"failed_at": datetime.fromtimestamp(now, UTC).isoformat(), "detail": shortened(detail)}
    return node.after(NodeEvent.FAILED, now, data={**node.data, "error": error})


def probed(node: PoolNode, reason: str, now: float, *, may_fail: bool) -> PoolNode:
    """Return a ready node after a probe; ``reason`` is why it did not answer, or empty if it did.

    A node that does not answer is not lent. The node has failed after 15 minutes if ``may_fail``.
    """
    known = node.data.get("unreachable")
    if not reason:
        data = {key: value for key, value in node.data.items() if key != "unreachable"}
        return node if known is None else replace(node, data=data)
    began = known.get("since") if isinstance(known, dict) else None
    since = _moment(began)
    if since is None:
        mark = {"since": datetime.fromtimestamp(now, UTC).isoformat(), "detail": shortened(reason)}
        return replace(node, data={**node.data, "unreachable": mark})
    if may_fail and now - since >= _LONGEST_SILENCE:
        return fail(node, f"the ready node answers no probe since {began}: {reason}", now)
    return node


def _moment(text: object) -> float | None:
    """Return the seconds since the epoch of a time in a record; ``None`` for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def end_of_provisioning(node: PoolNode, now: float) -> PoolNode | None:
    """Return a node whose provisioning failed: unused if it can be used again, else ``None``: it is deleted."""
    return node.after(NodeEvent.PROVISIONING_FAILED, now) if node.reusable else None


def end_of_deprovisioning(node: PoolNode, now: float) -> PoolNode:
    """Return a node that was deprovisioned: unused if it can be used again, else done."""
    return node.after(NodeEvent.DEPROVISIONED if node.reusable else NodeEvent.REMOVED, now)
