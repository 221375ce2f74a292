"""Nodes and sessions on the page of pools: lists with filters, signs of states, and links."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.fleet.views.status import HostState
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.overview import failure_of, pool_nodes, session_overviews, ssh_command
from zkdeployment.pools.rules.tenant_session import warning_time
from zkdeployment.service.act import ActLink
from zkdeployment.service.views.frame import (
    deadline,
    host_page,
    last_value,
    moment,
    page_number,
    search_text,
    with_query,
)
from zkdeployment.service.views.hosts import SIGNS, StatusSign

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.pools.rules.node import PoolNode
    from zkdeployment.pools.rules.overview import SessionOverview
    from zkdeployment.pools.rules.snapshot import PoolReading, PoolSnapshot
    from zkdeployment.pools.rules.tenant_session import LeasedNode, TenantSession
    from zkdeployment.service.views.frame import Moment, Parameters


PAGE = "/pools"


def form_page(name: str, **values: object) -> str:
    """Return the address of the form of an act on pools."""
    return with_query(f"{PAGE}/acts/{name}", {key: str(value) for key, value in values.items()})


def usage_page(**values: str) -> str:
    """Return the address of the page of the use of pools, with the parameters that are not empty."""
    return with_query(f"{PAGE}/usage", values)


def pools_page(**values: str) -> str:
    """Return the address of the page of pools, with the parameters that are not empty."""
    return with_query(PAGE, values)


NODE_SIGNS: Mapping[NodeState, StatusSign] = {
    NodeState.FAILED: StatusSign("failed", "has to be forgiven or retired", SIGNS[HostState.FAILED]),
    NodeState.DEPROVISIONING: StatusSign("deprovisioning", "is cleaned", SIGNS[HostState.BEHIND]),
    NodeState.PROVISIONING: StatusSign("provisioning", "is made ready", SIGNS[HostState.DEPLOYING]),
    NodeState.CONTEXTUALIZING: StatusSign("contextualizing", "gets a tenant's key", SIGNS[HostState.DEPLOYING]),
    NodeState.DEPLOYED: StatusSign("deployed", "is leased", SIGNS[HostState.ABSENT]),
    NodeState.READY: StatusSign("ready", "can be leased", SIGNS[HostState.CONVERGED]),
    NodeState.UNUSED: StatusSign("unused", "is in no pool", SIGNS[HostState.EXCLUDED]),
}

#: The number of nodes on a page.
PAGE_SIZE = 25

#: The number of failed nodes above the list.
MOST_FAILED = 10

_ACTS = {
    NodeState.UNUSED: (("Retire", "retire-node"),),
    NodeState.READY: (("Drain", "drain"),),
    NodeState.DEPLOYED: (("Drain", "drain"),),
    NodeState.FAILED: (("Forgive", "forgive"), ("Retire", "retire-node")),
}


@dataclass(frozen=True, slots=True)
class NodeFilterLink:
    """A link to the nodes in one state, and their number; a selected link leads back to all nodes."""

    sign: StatusSign
    count: int
    href: str
    selected: bool


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node; ``detail`` is the reason of its failure.

    ``host`` is the page of the host, if the node is a host of this fleet.
    """

    id: int
    name: str
    host: str
    pool: str
    sign: StatusSign
    since: Moment | None
    address: str
    comment: str
    detail: str
    acts: tuple[ActLink, ...]


@dataclass(frozen=True, slots=True)
class NodeList:
    """A page of the nodes whose name, address, pool or comment contains ``text``."""

    filters: tuple[NodeFilterLink, ...]
    rows: tuple[NodeRow, ...]
    state: str
    text: str
    range: str
    previous: str | None
    next: str | None


def node_list(snapshot: PoolSnapshot, parameters: Parameters, now: float, *, may_act: bool) -> NodeList:
    """Return the page of nodes that the parameters of the address request."""
    state, text = last_value(parameters, "state"), search_text(parameters)
    state = state if state in {known.value for known in NODE_SIGNS} else ""
    matching = [node for node in pool_nodes(snapshot) if _matches(node, text)]
    counts = Counter(node.state for node in matching)
    shown = [node for node in matching if state in {"", node.state.value}]
    page = page_number(parameters)
    first = (page - 1) * PAGE_SIZE
    some = shown[first : first + PAGE_SIZE]
    return NodeList(
        filters=tuple(
            NodeFilterLink(sign, counts[each], _address("" if selected else each.value, text), selected)
            for each, sign in NODE_SIGNS.items()
            if (selected := each.value == state) or counts[each]
        ),
        rows=tuple(_row(node, now, may_act=may_act) for node in some),
        state=state,
        text=text,
        range=f"{first + 1:,} to {first + len(some):,} of {len(shown):,}" if some else "",
        previous=_address(state, text, page - 1) if page > 1 else None,
        next=_address(state, text, page + 1) if len(shown) > first + PAGE_SIZE else None,
    )


def failed_nodes(snapshot: PoolSnapshot, now: float, *, may_act: bool) -> tuple[Sequence[NodeRow], int]:
    """Return the nodes that failed last, newest first, and the number of further ones."""
    failed = [node for node in snapshot.nodes.values() if node.state is NodeState.FAILED]
    failed.sort(key=lambda node: (-node.changed, node.id))
    return [_row(node, now, may_act=may_act) for node in failed[:MOST_FAILED]], max(0, len(failed) - MOST_FAILED)


def _row(node: PoolNode, now: float, *, may_act: bool) -> NodeRow:
    return NodeRow(
        id=node.id,
        name=node.hostname or node.ipaddr or f"node {node.id}",
        host="" if node.host is None else host_page(node.host),
        pool=node.pool or "",
        sign=NODE_SIGNS[node.state],
        since=moment(node.changed, now),
        address=node.ipaddr or "",
        comment=node.comment or "",
        detail=failure_of(node) or "",
        acts=tuple(ActLink(label, form_page(name, node=node.id)) for label, name in _ACTS.get(node.state, ()))
        if may_act
        else (),
    )


def _matches(node: PoolNode, text: str) -> bool:
    words = (node.hostname, node.ipaddr, node.pool, node.comment, str(node.id))
    return text.casefold() in " ".join(filter(None, words)).casefold()


def _address(state: str, text: str, page: int = 1) -> str:
    return pools_page(state=state, text=text, page=str(page) if page > 1 else "") + "#nodes"


#: The numbers of earlier sessions on a page.
PAST_SIZE = 20


@dataclass(frozen=True, slots=True)
class LeasedNodeLine:
    """A node of a session: its name, its pool, and the command that reaches it.

    ``note`` describes an unusual state of the node, or is empty; a node with a note has no command.
    """

    name: str
    pool: str
    ssh: str
    note: str


@dataclass(frozen=True, slots=True)
class SessionRow:
    """An active session; ``word`` and ``tone`` are its state."""

    id: int
    tenant: str
    word: str
    tone: str
    nodes: tuple[LeasedNodeLine, ...]
    began: Moment | None
    expires: Moment | None
    acts: tuple[ActLink, ...]


@dataclass(frozen=True, slots=True)
class PastSessionRow:
    """A session that has ended, and how."""

    id: int
    tenant: str
    nodes: tuple[str, ...]
    began: Moment | None
    ended: Moment | None
    how: str


def session_rows(
    sessions: Iterable[TenantSession], reading: PoolReading, now: float, *, may_act: bool
) -> tuple[SessionRow, ...]:
    """Return active sessions in the order of their expiry."""
    views = session_overviews(sessions, reading.snapshot, reading.tenants)
    ordered = sorted(views, key=lambda view: (view.session.expires_at, view.session.id))
    return tuple(_session_row(view, now, may_act=may_act) for view in ordered)


def past_rows(
    sessions: Iterable[TenantSession], tenants: Mapping[int, str], now: float
) -> tuple[PastSessionRow, ...]:
    """Return sessions that have ended, in the given order."""
    return tuple(
        PastSessionRow(
            session.id,
            tenants.get(session.tenant, f"tenant {session.tenant}"),
            tuple(f"{_name(node)} ({node.pool})" for node in session.leased),
            moment(session.created_at, now),
            moment(session.retired_at, now),
            "expired" if session.retired_by is None else f"retired by {session.retired_by}",
        )
        for session in sessions
    )


def _session_row(view: SessionOverview, now: float, *, may_act: bool) -> SessionRow:
    session = view.session
    word, tone = _state(view, now)
    acts = (
        ActLink("Extend", form_page("extend", session=session.id)),
        ActLink("Retire", form_page("retire-session", session=session.id), "danger"),
    )
    return SessionRow(
        id=session.id,
        tenant=view.tenant,
        word=word,
        tone=tone,
        nodes=tuple(_line(node, view.states.get(node.id)) for node in session.leased),
        began=moment(session.created_at, now),
        expires=deadline(session.expires_at, now),
        acts=acts if may_act else (),
    )


def _state(view: SessionOverview, now: float) -> tuple[str, str]:
    if NodeState.CONTEXTUALIZING in view.states.values():
        return "being prepared", "busy"
    if view.session.is_expired(now):
        return "expired", "halted"
    return ("expires soon", "halted") if warning_time(view.session) <= now else ("active", "good")


def _line(node: LeasedNode, state: NodeState | None) -> LeasedNodeLine:
    notes = {NodeState.DEPLOYED: "", NodeState.CONTEXTUALIZING: "gets the key", None: "no longer in the session"}
    note = notes.get(state, "" if state is None else state.value)
    return LeasedNodeLine(_name(node), node.pool, "" if note else ssh_command(node), note)


def _name(node: LeasedNode) -> str:
    return node.hostname or node.ipaddr or f"node {node.id}"
