"""Changes of nodes that operators ask for: new nodes, draining, retirement, and another chance."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError, NotFoundError, RefusedError
from zkdeployment.model.names import NameKind, name_problem
from zkdeployment.pools.node import IN_SESSION, NodeEvent, NodeState, PoolNode
from zkdeployment.pools.templates import template_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from zkdeployment.model.inventory import KnownHost

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,15}")

#: A part of a line of values. A quotation mark without a second one is a character like others.
_VALUE = re.compile(r'(?:"[^"]*"|\S)+')

#: The states in which a worker is about to change a node.
_PASSING = frozenset({NodeState.PROVISIONING, NodeState.CONTEXTUALIZING, NodeState.DEPROVISIONING})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPoolNode:
    """A machine that becomes an unused node.

    ``host`` is the id of the host of this fleet that it is, ``None`` for other machines. ``data`` are values such
    as ``architecture``, which pools demand by ``reuse-nodes``.
    """

    hostname: str
    ipaddr: str | None = None
    comment: str | None = None
    reusable: bool = True
    host: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


def node_data(texts: Iterable[str]) -> Mapping[str, int | str]:
    """Return the values of a new node, each given as ``KEY=VALUE``.

    Whole numbers are numbers. All else is text, and so is what stands in quotes: ``"2"``. Of a
    key that is given twice, the last value counts. Raises ``ConfigurationError`` for other texts.
    """
    values: dict[str, int | str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ConfigurationError(f"expected KEY=VALUE such as architecture=x86_64, found {text!a}")
        quoted = len(value) > 1 and value[0] == value[-1] == '"'
        values[key] = value[1:-1] if quoted else int(value) if _WHOLE_NUMBER.fullmatch(value) else value
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
    """Return a new node with an id; raises ``RefusedError`` if one of the present nodes is the same machine."""
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
    """Return a node that is to leave the pools: at once if no session uses it, else after its session.

    Raises ``RefusedError`` for nodes that a worker is about to change, and for those that failed or are done.
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
