"""The nodes on the page of pools: the failed ones with their reasons, and a list with filters and search."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.pools.node import NodeState
from zkdeployment.pools.overview import failure_of, pool_nodes
from zkdeployment.web.views.acts import ActLink
from zkdeployment.web.views.links import host_page
from zkdeployment.web.views.moments import moment
from zkdeployment.web.views.parameters import last_value, page_number, search_text
from zkdeployment.web.views.pools.links import form_page, pools_page
from zkdeployment.web.views.pools.signs import NODE_SIGNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.snapshot import PoolSnapshot
    from zkdeployment.web.views.intents.signs import StatusSign
    from zkdeployment.web.views.moments import Moment
    from zkdeployment.web.views.parameters import Parameters

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
    """A link to the nodes in one state, and their number; a selected one leads back to all nodes."""

    sign: StatusSign
    count: int
    href: str
    selected: bool


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node; ``detail`` is why it failed.

    ``host`` is the page of the host that the node is, if it is one of this fleet.
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
    """Return the page of nodes that the parameters of the address ask for."""
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
