"""The nodes of pools: the table of their states and events, and the changes by operators."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from zkdeployment.base.errors import ConfigurationError, NotFoundError, RefusedError
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.records import APART, OMITTED, Key, Record, invalid, no_keys
from zkdeployment.base.values import dataclass
from zkdeployment.tree.literal import read_assignment

if TYPE_CHECKING:
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.json_values import Value


#: The most characters of a recorded reason.
_LONGEST = 2000

#: The most characters of a value in a message.
_LONGEST_VALUE = 200


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return a text, without its middle if it is longer than ``longest``."""
    if len(text) <= longest:
        return text
    left_out = " [...] "
    end = (longest - len(left_out)) // 2
    return f"{text[: longest - len(left_out) - end]}{left_out}{text[len(text) - end :]}"


def shown(value: object) -> str:
    """Return a value as a message shows it."""
    return shortened(repr(value), _LONGEST_VALUE)


#: The beginnings of expressions, statements and comments of Jinja.
_BEGINNINGS = ("{{", "{%", "{#")


def template_problem(value: object) -> str | None:
    """Return why a value may not be stored with a node: it contains a template, at any depth.

    Playbooks would evaluate the template with the rights of the worker. ``None`` for a value without templates.
    """
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            left += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            left += item
        elif isinstance(item, str) and any(beginning in item for beginning in _BEGINNINGS):
            return f"expected plain text without {{{{, {{% and {{#, found {shown(item)}"
    return None


class NodeTransitionError(Exception):
    """The state of a node does not permit an event."""


class NodeState(Enum):
    """The states of a node; the values are the names in Duffy's API."""

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

#: The data that deprovisioning removes from a node that is used again.
PASSING_DATA = frozenset({"error", "nodes_spec", "provision", "unreachable"})

#: Seconds without an answer to a probe after which a ready node has failed.
_LONGEST_SILENCE = 900.0


#: The latest time of a record: the last second that calendars can show, in the year 9999.
LATEST = 253402300799.0


def _time(value: Any) -> float:
    """Return a time that was stored; one that no calendar can show would break all lists."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LATEST:
        return float(value)
    raise invalid("seconds since the epoch", value)


def _optional_time(value: Any) -> float | None:
    return None if value is None else _time(value)


#: Times of records, in seconds since the epoch.
Time: TypeAlias = Annotated[float, Key(read=_time)]
OptionalTime: TypeAlias = Annotated[float | None, Key(read=_optional_time)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNode(Record):
    """A node: a machine that tenants lease.

    ``pool`` is the pool that the node is in, also while it is deprovisioned; ``session`` the id of the session
    that has it. If the node is a host of this fleet, ``host`` is the id of the host, otherwise ``None``.
    ``revoked`` is whether a worker has removed the key of the node's last tenant after the session, or has
    tried to. ``keys`` are the public keys of tenants that were added to the node and have to be removed from
    it. ``begun`` is whether a worker has begun to provision the node, so that a machine may exist, or to
    prepare it for a session, so that it may have the tenant's key. ``data`` has the values that Duffy's API
    shows: the result of provisioning, the request that the node was chosen for, and the error of a failed
    node. Times are in seconds since the epoch. ``stamp`` is the version of the node when it was read, which
    changes with each write; ``None`` for a new one. ``unknown`` are the keys of the record that this version
    does not know.
    """

    omits_unset: ClassVar[bool] = True
    id: int
    state: NodeState
    created_at: Time
    changed: Time
    pool: str | None = None
    session: int | None = None
    hostname: str | None = None
    ipaddr: str | None = None
    comment: str | None = None
    reusable: bool = False
    revoked: Annotated[bool, OMITTED] = False
    begun: Annotated[bool, OMITTED] = False
    host: str | None = None
    keys: Annotated[tuple[str, ...], OMITTED] = ()
    retired_at: OptionalTime = None
    data: Mapping[str, Any] = field(default_factory=dict)
    stamp: Annotated[int | None, APART] = field(default=None, compare=False)
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    @property
    def is_active(self) -> bool:
        """Whether the node still exists for the pools."""
        return self.retired_at is None

    @property
    def is_unused(self) -> bool:
        """Whether a pool may take the node."""
        return self.state is NodeState.UNUSED and self.reusable

    @property
    def is_ready(self) -> bool:
        """Whether the node can be lent: it is ready, and has answered the last probe."""
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


def unprobed(node: PoolNode) -> PoolNode:
    """Return a ready node that cannot be probed at present: a silence before this time no longer counts.

    A node that did not answer is still not lent until it answers.
    """
    known = node.data.get("unreachable")
    if not isinstance(known, dict) or "since" not in known:
        return node
    mark = {key: value for key, value in known.items() if key != "since"}
    return replace(node, data={**node.data, "unreachable": mark})


def _moment(text: object) -> float | None:
    """Return the seconds since the epoch of a time in a record; ``None`` for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def end_of_provisioning(node: PoolNode, now: float) -> PoolNode | None:
    """Return a node after a failed provisioning: unused if it can be used again, else ``None`` (deleted)."""
    return node.after(NodeEvent.PROVISIONING_FAILED, now) if node.reusable else None


def end_of_deprovisioning(node: PoolNode, now: float) -> PoolNode:
    """Return a node after its deprovisioning: unused if it can be used again, else done."""
    return node.after(NodeEvent.DEPROVISIONED if node.reusable else NodeEvent.REMOVED, now)


#: A part of a line of values. A single quotation mark without a partner is an ordinary character.
_VALUE = re.compile(r'(?:"[^"]*"|\S)+')

#: The states in which a worker is changing, or is about to change, a node.
_PASSING = frozenset({NodeState.PROVISIONING, NodeState.CONTEXTUALIZING, NodeState.DEPROVISIONING})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPoolNode:
    """A machine that becomes an unused node.

    If it is a host of this fleet, ``host`` is its id, otherwise ``None``. ``data`` are values such as
    ``architecture``, which pools demand by ``reuse-nodes``.
    """

    hostname: str
    ipaddr: str | None = None
    comment: str | None = None
    reusable: bool = True
    host: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


def node_data(texts: Iterable[str]) -> Mapping[str, Value]:
    """Return the values of a new node, each given as ``KEY=VALUE``.

    Of a key that is given twice, the last value counts. Raises ``ConfigurationError`` for other texts.
    """
    values: dict[str, Value] = {}
    for text in texts:
        try:
            key, values[key] = read_assignment(text)
        except ValueError as error:
            raise ConfigurationError(f"expected KEY=VALUE such as architecture=x86_64, found {text!a}") from error
    return values


def split_values(text: str) -> list[str]:
    """Return the parts of a line of values; spaces separate them, except between quotes."""
    return _VALUE.findall(text)


def check_new_node(new: NewPoolNode) -> None:
    """Raise ``ConfigurationError`` unless a machine has a valid name and address, and data without templates."""
    problem = name_problem(NameKind.HOST_NAME, new.hostname)
    problem = problem or template_problem((new.ipaddr, new.comment, new.data))
    if problem is not None:
        raise ConfigurationError(f"cannot add the node: {problem}")
    try:
        ipaddress.ip_address(new.ipaddr or "")
    except ValueError as error:
        if new.host is None:
            raise ConfigurationError(
                f"cannot add the node {new.hostname}: expected an IP address, found {new.ipaddr!a}"
            ) from error


def node_of_host(
    hosts: Iterable[KnownHost], name: str, *, comment: str | None = None, data: Mapping[str, Any] | None = None
) -> NewPoolNode:
    """Return a host of the fleet, given by its id or name, as a new node.

    Raises ``NotFoundError``, and ``RefusedError`` for a host that cannot be leased.
    """
    found = next((host for host in hosts if name in {host.identity.id, host.identity.name}), None)
    if found is None:
        raise NotFoundError(f"there is no host {name}; 'zkdeployment status' lists all hosts by name and id")
    if found.idle_role is None:
        raise RefusedError(
            f"host {found.identity} cannot be leased: expected role = lease:IDLE in its configuration, found"
            f" {found.identity.role or 'no role'}"
        )
    return NewPoolNode(
        hostname=found.identity.name,
        ipaddr=found.address,
        comment=comment,
        host=found.identity.id,
        data=data or {},
    )


def added(new: NewPoolNode, number: int, nodes: Iterable[PoolNode], now: float) -> PoolNode:
    """Return a new node with an id; raises ``RefusedError`` if the machine is already a node."""
    for node in nodes:
        if new.host is not None and node.host == new.host:
            raise RefusedError(f"host {new.host} is node {node.id} already ({node.state.value})")
        if new.host is None and (new.hostname == node.hostname or new.ipaddr == node.ipaddr):
            raise RefusedError(
                f"node {node.id} ({node.state.value}) has the name {node.hostname} and the address {node.ipaddr}"
                " already; retire it first, or correct the name or the address of the new one"
            )
    return PoolNode(
        id=number,
        state=NodeState.UNUSED,
        created_at=now,
        changed=now,
        hostname=new.hostname,
        ipaddr=new.ipaddr,
        comment=new.comment,
        reusable=new.reusable,
        host=new.host,
        data=new.data,
    )


def drained(node: PoolNode, now: float) -> PoolNode:
    """Return a node that leaves the pools: at once if no session uses it, else after its session.

    Raises ``RefusedError`` for nodes that a worker is changing, and for nodes that failed or are done.
    """
    match node.state:
        case NodeState.UNUSED:
            return node.after(NodeEvent.RETIRED, now)
        case NodeState.READY:
            return replace(node, reusable=False).after(NodeEvent.RELEASED, now)
        case NodeState.DEPLOYED:
            return replace(node, reusable=False)
        case NodeState.FAILED:
            raise RefusedError(
                f"cannot drain node {node.id}: it has failed; 'zkdeployment node retire {node.id}' takes it out"
            )
    raise RefusedError(f"cannot drain {_busy(node)}")


def retired(node: PoolNode, now: float) -> PoolNode:
    """Return a node that is done; raises ``RefusedError`` unless it is unused or failed."""
    if node.state in {NodeState.UNUSED, NodeState.FAILED}:
        return node.after(NodeEvent.RETIRED, now)
    if node.state is NodeState.READY or node.state in IN_SESSION:
        raise RefusedError(
            f"cannot retire node {node.id}: expected a node that is unused or failed, found it {node.state.value};"
            f" 'zkdeployment node drain {node.id}' takes it out in order"
        )
    raise RefusedError(f"cannot retire {_busy(node)}")


def forgiven(node: PoolNode, now: float) -> PoolNode:
    """Return a failed node that is deprovisioned again; raises ``RefusedError`` for other nodes."""
    if node.state is not NodeState.FAILED:
        raise RefusedError(
            f"cannot forgive node {node.id}: expected a node that has failed, found it {node.state.value}"
        )
    return node.after(NodeEvent.FORGIVEN, now)


def _busy(node: PoolNode) -> str:
    if node.state in _PASSING:
        return f"node {node.id}: it is {node.state.value}; try again when a worker has finished that"
    return f"node {node.id}: it is {node.state.value} already"
