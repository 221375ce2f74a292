"""The page of pools: the problems, the levels, the sessions and nodes, and the outcome of a request."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.status import HostState
from zkdeployment.pools.rules.listing import (
    PoolView,
    SessionView,
    ShortageCause,
    failure_of,
    pool_nodes,
    pool_views,
    session_views,
    ssh_command,
)
from zkdeployment.pools.rules.node import IN_SESSION, NodeState, PoolNode
from zkdeployment.pools.rules.snapshot import (
    LeasedNode,
    PoolReading,
    PoolSnapshot,
    TenantSession,
    warning_time,
)
from zkdeployment.service.users.user import Right, User
from zkdeployment.service.views.frame import (
    ActLink,
    ListPart,
    Moment,
    deadline,
    host_page,
    last_value,
    list_part,
    moment,
    page_number,
    search_text,
    with_query,
)
from zkdeployment.service.views.hosts import SIGNS, StatusSign, count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zkdeployment.service.views.frame import Parameters


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
    state: str
    text: str
    part: ListPart[PoolNode]
    rows: tuple[NodeRow, ...]


def node_list(snapshot: PoolSnapshot, parameters: Parameters, now: float, *, may_act: bool) -> NodeList:
    """Return the page of nodes that the parameters of the address request."""
    state, text = last_value(parameters, "state"), search_text(parameters)
    state = state if state in {known.value for known in NODE_SIGNS} else ""
    matching = [node for node in pool_nodes(snapshot) if _matches(node, text)]
    counts = Counter(node.state for node in matching)
    shown = [node for node in matching if state in {"", node.state.value}]
    part = list_part(shown, page_number(parameters), PAGE_SIZE, "", lambda page: _address(state, text, page))
    return NodeList(
        filters=tuple(
            NodeFilterLink(sign, counts[each], _address("" if selected else each.value, text), selected)
            for each, sign in NODE_SIGNS.items()
            if (selected := each.value == state) or counts[each]
        ),
        state=state,
        text=text,
        part=part,
        rows=tuple(_row(node, now, may_act=may_act) for node in part.rows),
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
    views = session_views(sessions, reading.snapshot, reading.tenants)
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


def _session_row(view: SessionView, now: float, *, may_act: bool) -> SessionRow:
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


def _state(view: SessionView, now: float) -> tuple[str, str]:
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


@dataclass(frozen=True, slots=True)
class RequestNotice:
    """A sentence, and its tone."""

    tone: str
    sentence: str


def request_notice(number: int, reading: PoolReading, user: User, failure: str) -> RequestNotice:
    """Return the outcome of a user's request for a session; ``failure`` is why it did not begin, if known."""
    session = reading.snapshot.sessions.get(number)
    if session is None or session.tenant != user.id:
        return RequestNotice("bad", failure or f"Session {number} has ended, or did not begin.")
    nodes = [reading.snapshot.nodes.get(node) for node in session.nodes]
    if any(node is not None and node.state is NodeState.CONTEXTUALIZING for node in nodes):
        return RequestNotice("busy", f"Session {number} is being prepared: its nodes get your SSH key.")
    return RequestNotice("good", f"Session {number} has begun. The commands below reach its nodes.")


#: The parts of a pool's bar in their order: the word, the class of its colour, and the states.
_PARTS = (
    ("ready", "converged", frozenset({NodeState.READY})),
    ("being made", "deploying", frozenset({NodeState.PROVISIONING})),
    ("leased", "absent", IN_SESSION),
    ("being cleaned", "behind", frozenset({NodeState.DEPROVISIONING})),
    ("failed", "failed", frozenset({NodeState.FAILED})),
)

#: The tone of a pool that lacks nodes, by the cause.
_TONES = {
    ShortageCause.FILLING: "busy",
    ShortageCause.WAITING: "busy",
    ShortageCause.NO_NODES: "halted",
    ShortageCause.FAILURES: "bad",
    ShortageCause.NO_WORKER: "bad",
}

#: The causes that another attempt does not change.
_UNDER_WAY = frozenset({ShortageCause.FILLING, ShortageCause.NO_WORKER})

#: The units of a bar.
_WIDTH = 1000


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar: its colour, its beginning, and its width."""

    colour: str
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class PoolCard:
    """A pool; ``level`` is ``None`` for a pool that lends no nodes.

    ``counts`` are the numbers of nodes with a word and a colour, without zeros. ``lack`` explains why nodes are
    missing, or is empty; ``since`` is when the pool fell below its level, and ``again`` when it is filled after
    failures.
    """

    name: str
    mechanism: str
    level: int | None
    ready: int
    tone: str
    bar: tuple[BarPart, ...]
    counts: tuple[tuple[int, str, str], ...]
    lack: str
    since: Moment | None
    again: Moment | None
    acts: tuple[ActLink, ...]


def pool_card(found: PoolView, now: float, *, may_lease: bool, may_manage: bool) -> PoolCard:
    """Return the card of a pool, with the acts that the user may do."""
    shortage = found.shortage
    counts = tuple(
        (count, word, colour)
        for word, colour, states in _PARTS
        if (count := sum(found.states.get(state, 0) for state in states))
    )
    lack = "" if shortage is None else f"{count_text(shortage.missing, 'node')} missing: {shortage.reason}"
    return PoolCard(
        name=found.name,
        mechanism=found.mechanism,
        level=found.level,
        ready=found.ready,
        tone=pool_tone(found),
        bar=_bar(counts, found.level or 0),
        counts=counts,
        lack=lack,
        since=None if shortage is None else moment(shortage.since, now),
        again=deadline(found.next_filling, now) if shortage is not None and found.failures else None,
        acts=tuple(_level_acts(found, may_lease=may_lease, may_manage=may_manage)),
    )


def pool_tone(found: PoolView) -> str:
    """Return the tone of a pool: the colours of the style sheet."""
    if found.level is None:
        return "planned"
    return "good" if found.shortage is None else _TONES[found.shortage.cause]


def _level_acts(found: PoolView, *, may_lease: bool, may_manage: bool) -> list[ActLink]:
    acts = []
    if may_lease and found.level is not None and found.ready:
        acts.append(ActLink("Request", form_page("request", pool=found.name)))
    if may_manage and found.shortage is not None and found.shortage.cause not in _UNDER_WAY:
        acts.append(ActLink("Fill now", form_page("fill", pool=found.name)))
    return acts


def _bar(counts: tuple[tuple[int, str, str], ...], level: int) -> tuple[BarPart, ...]:
    """Return the parts of the bar; nodes that are missing leave the end of the bar empty."""
    present = sum(count for count, _, _ in counts)
    here = sum(count for count, word, _ in counts if word in {"ready", "being made"})
    total = present + max(0, level - here)
    parts, start = [], 0
    for count, _, colour in counts:
        end = start + count
        parts.append(BarPart(colour, start * _WIDTH // total, (end * _WIDTH // total) - (start * _WIDTH // total)))
        start = end
    return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsView:
    """The page of pools.

    ``sessions`` and ``past`` are ``None`` for users who may see no sessions. ``shows_tenants`` is whether these
    are the sessions of all tenants. ``may_lease`` and ``may_manage`` are the present rights of the user.
    """

    headline: str
    tone: str
    sentence: str
    allowance: str
    acts: tuple[ActLink, ...]
    cards: tuple[PoolCard, ...]
    failed: Sequence[NodeRow]
    more_failed: int
    sessions: tuple[SessionRow, ...] | None
    past: ListPart[PastSessionRow] | None
    shows_tenants: bool
    may_lease: bool
    may_manage: bool
    nodes: NodeList


def pools_view(
    reading: PoolReading,
    ended: Sequence[TenantSession],
    user: User,
    parameters: Parameters,
    now: float,
    *,
    connected: bool,
) -> PoolsView:
    """Return the page as a user may see it; nothing can be changed unless ZooKeeper is ``connected``."""
    snapshot = reading.snapshot
    pools = pool_views(reading.configuration, snapshot)
    may_lease, may_manage = (connected and user.may(right) for right in (Right.LEASE_NODES, Right.MANAGE_POOLS))
    is_seen = seen_sessions(user)
    is_tenant = not user.may(Right.READ_FLEET)
    headline, tone = _own_verdict(user, snapshot, now) if is_tenant else _verdict(pools, snapshot)
    failed, more = ([], 0) if is_tenant else failed_nodes(snapshot, now, may_act=may_manage)
    return PoolsView(
        headline=headline,
        tone=tone,
        sentence=_own_sentence(pools) if is_tenant else _sentence(pools, snapshot),
        allowance=_allowance(user, reading) if user.may(Right.LEASE_NODES) else "",
        acts=_acts(pools, may_lease=may_lease, may_manage=may_manage, has_usage=is_seen is not None),
        cards=tuple(pool_card(pool, now, may_lease=may_lease, may_manage=may_manage) for pool in pools),
        failed=failed,
        more_failed=more,
        sessions=None
        if is_seen is None
        else session_rows(filter(is_seen, snapshot.sessions.values()), reading, now, may_act=may_lease),
        past=None if is_seen is None else _past(list(filter(is_seen, ended)), reading, parameters, now),
        shows_tenants=user.may(Right.READ_ALL_SESSIONS),
        may_lease=may_lease,
        may_manage=may_manage,
        nodes=node_list(snapshot, parameters, now, may_act=may_manage),
    )


def seen_sessions(user: User) -> Callable[[TenantSession], bool] | None:
    """Return the filter for sessions that a user may see; ``None`` for a user who may see no session."""
    if user.may(Right.READ_ALL_SESSIONS):
        return lambda _: True
    return (lambda session: session.tenant == user.id) if user.may(Right.LEASE_NODES) else None


def _verdict(pools: Iterable[PoolView], snapshot: PoolSnapshot) -> tuple[str, str]:
    """Return the state of all pools in a few words, and its tone."""
    wanted = [pool for pool in pools if pool.level]
    causes: dict[ShortageCause, list[str]] = {}
    for pool in wanted:
        if pool.shortage is not None:
            causes.setdefault(pool.shortage.cause, []).append(pool.name)
    failed = sum(node.state is NodeState.FAILED for node in snapshot.nodes.values())
    if not wanted:
        return ("No pool lends nodes", "unknown") if pools else ("There are no pools", "unknown")
    if ShortageCause.NO_WORKER in causes:
        return "No worker of the pools runs", "bad"
    if ShortageCause.FAILURES in causes:
        return f"{_names(causes[ShortageCause.FAILURES])} cannot be filled", "bad"
    if failed:
        return f"{count_text(failed, 'node')} failed", "bad"
    if ShortageCause.NO_NODES in causes:
        names = causes[ShortageCause.NO_NODES]
        return f"{_names(names)} {'lacks' if len(names) == 1 else 'lack'} nodes", "halted"
    below = [name for names in causes.values() for name in names]
    if below:
        return f"{_names(sorted(below))} {'is' if len(below) == 1 else 'are'} being filled", "busy"
    return "All pools have their level", "good"


def _own_verdict(user: User, snapshot: PoolSnapshot, now: float) -> tuple[str, str]:
    """Return the most important news for a tenant in a few words, and its tone."""
    own = [session for session in snapshot.sessions.values() if session.tenant == user.id]
    if not own:
        return "You have no nodes", "planned"
    first = min(own, key=lambda session: session.expires_at)
    if warning_time(first) <= now:
        return f"Session {first.id} expires soon", "halted"
    nodes = sum(len(session.nodes) for session in own)
    return f"You have {count_text(nodes, 'node')} in {count_text(len(own), 'session')}", "good"


def _own_sentence(pools: Iterable[PoolView]) -> str:
    ready = sum(pool.ready for pool in pools if pool.level is not None)
    return f"{count_text(ready, 'node')} {'is' if ready == 1 else 'are'} ready to be leased."


def _names(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} other pools"


def _sentence(pools: Sequence[PoolView], snapshot: PoolSnapshot) -> str:
    if not pools:
        return "No document of pools is published. The manual shows how to lend hosts to teams."
    states = Counter(node.state for node in snapshot.nodes.values())
    leased = sum(states[state] for state in IN_SESSION)
    parts = (
        (states[NodeState.READY], "ready"),
        (states[NodeState.PROVISIONING], "being made"),
        (leased, f"leased in {count_text(len(snapshot.sessions), 'session')}"),
        (states[NodeState.DEPROVISIONING], "being cleaned"),
        (states[NodeState.FAILED], "failed"),
    )
    shown = [f"{count:,} {words}" for count, words in parts if count or words == "ready"]
    return f"Nodes: {', '.join(shown)}."


def _allowance(user: User, reading: PoolReading) -> str:
    """Return a text with the number of a tenant's nodes and its quota."""
    held, limits = reading.snapshot.held(user.id), reading.configuration.defaults.of(user)
    if user.is_admin:
        return f"You have {count_text(held, 'node')}; admins have no quota." if held else ""
    return limits.describe_use(held)


def _acts(pools: Iterable[PoolView], *, may_lease: bool, may_manage: bool, has_usage: bool) -> tuple[ActLink, ...]:
    acts = []
    if may_lease and any(pool.level is not None for pool in pools):
        acts.append(ActLink("Request nodes", form_page("request"), "primary"))
    if may_manage:
        acts.append(ActLink("Add a node", form_page("add-node")))
    if has_usage:
        acts.append(ActLink("Usage", usage_page()))
    return tuple(acts)


def _past(
    ended: Sequence[TenantSession], reading: PoolReading, parameters: Parameters, now: float
) -> ListPart[PastSessionRow]:
    """Return a page of the sessions that have ended; a single page has no numbers."""
    part = list_part(ended, page_number(parameters, "past"), PAST_SIZE, "", _past_address)
    numbers = part.range if len(ended) > PAST_SIZE else ""
    return ListPart(past_rows(part.rows, reading.tenants, now), numbers, part.previous, part.next)


def _past_address(page: int) -> str:
    return pools_page(past=str(page) if page > 1 else "") + "#past"
