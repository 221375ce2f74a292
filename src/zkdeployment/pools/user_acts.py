"""The acts of tenants and admins on pools, nodes and sessions: their forms and their effects."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from zkdeployment.base.durations import age
from zkdeployment.base.errors import NotFoundError, RefusedError, WaitTimeoutError
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.pools.acts.nodes import (
    add_node,
    change_node,
    fill_pool,
    find_node,
)
from zkdeployment.pools.acts.sessions import SessionActor, extend_session, find_session, retire_session
from zkdeployment.pools.opening import PoolAdapters, pool_adapters_of
from zkdeployment.pools.rules.listing import PoolView, find_pool, pool_views
from zkdeployment.pools.rules.node import (
    NewPoolNode,
    NodeState,
    PoolNode,
    drained,
    forgiven,
    node_data,
    node_of_host,
    retired,
    split_values,
)
from zkdeployment.pools.rules.snapshot import (
    NodeProperty,
    NodesSpec,
    PoolReading,
    TenantSession,
    read_properties,
)
from zkdeployment.service.act import ActForm, ActInput, Actor, FormAct, Snapshot, Visit, given
from zkdeployment.service.users.user import Right, User
from zkdeployment.service.views.frame import moment, with_query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.pools.service_requests import SessionRequests

_PAGE = "/pools"
_SESSIONS = f"{_PAGE}#sessions"
_NODES = f"{_PAGE}#nodes"

#: The beginning of the names of fields for the number of nodes of a pool.
QUANTITY = "nodes-"

#: The most nodes of one pool that a form takes, and the most hours by which it changes the end of a session.
MOST_NODES = 1000
MOST_HOURS = 1000

_HOUR = 3600.0

#: The most digits of a number in a form.
_DIGITS = 15


def _pools(visit: Visit) -> PoolReading:
    from zkdeployment.pools.feed import pools_of  # noqa: PLC0415  verbs start faster without it

    return pools_of(visit.adapters.feed)


def _number(values: Mapping[str, str], name: str) -> int:
    """Return the id of a session or a node; raises ``NotFoundError`` if it is not a number."""
    text = values.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise NotFoundError(f"there is no {name} {text!a}; expected a number")
    return int(text)


def _whole(text: str, name: str, most: int) -> int:
    """Return a whole number of a form; raises ``RefusedError`` for other texts."""
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) <= most):
        raise RefusedError(f"cannot read {name}: expected a whole number from 0 to {most}, found {text!a}")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class _PoolAct(FormAct[Snapshot, "PoolAdapters"]):
    """An act on pools; ``visit`` is the request of the form from which it comes."""

    PAGE_AFTER: ClassVar[str] = _PAGE
    RIGHT = Right.MANAGE_POOLS
    FORM_NEEDS_REASON = False
    NEEDS_REASON = False

    visit: Visit | None = None

    @classmethod
    def of_form(cls, values: Mapping[str, str], visit: Visit) -> Self | None:
        act = super().of_form(values, visit)
        ids: dict[str, Any] = {
            name: _number(values, name) for name, kind, *_ in cls.given_fields() if kind == "int"
        }
        return act and replace(act, visit=visit, **ids)

    @classmethod
    def served(cls, visit: Visit) -> PoolAdapters:
        """Return the adapters of pools."""
        return pool_adapters_of(visit.adapters)


@dataclass(frozen=True, slots=True)
class Lending:
    """The pools as a tenant sees them before a request, and the tenant."""

    reading: PoolReading
    pools: Sequence[PoolView]
    user: User


@dataclass(frozen=True, kw_only=True)
class RequestNodes(_PoolAct[Lending]):
    """Request a session; ``chosen`` is the pool of which the form proposes one node."""

    NAME = "request"
    RIGHT = Right.LEASE_NODES
    BUTTON = "Request"
    TITLE = "Request nodes"
    ASKS_REASON = False

    properties: str = given(
        "",
        label="Properties",
        explanation=(
            "What all nodes must have, separated by spaces, such as arch=x86_64 memory>=16. Leave it empty for any"
            " nodes."
        ),
        most=2000,
    )
    chosen: str = ""
    quantities: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_form(cls, values: Mapping[str, str], visit: Visit) -> Self | None:
        act = super().of_form(values, visit)
        quantities = {
            name.removeprefix(QUANTITY): text for name, text in values.items() if name.startswith(QUANTITY)
        }
        return act and replace(act, chosen=values.get("pool", ""), quantities=quantities)

    def read(self, visit: Visit) -> Lending:
        reading = _pools(visit)
        return Lending(reading, pool_views(reading.configuration, reading.snapshot), visit.user)

    def objection(self, found: Lending) -> str:
        if found.user.ssh_key is None:
            return "You have no SSH key, so that you cannot log in to the nodes. An admin can set one."
        return "" if any(pool.level is not None for pool in found.pools) else "No pool lends nodes at present."

    def consequences(self, found: Lending) -> tuple[str, ...]:
        user, limits = found.user, found.reading.configuration.defaults.of(found.user)
        quota = (
            "As an admin you have no quota."
            if user.is_admin
            else limits.describe_use(found.reading.snapshot.held(user.id))
        )
        return (
            "The nodes get your SSH key; you log in to them as root.",
            f"The session ends in {age(limits.session_lifetime)}, unless you extend or retire it.",
            f"It can last {age(limits.session_lifetime_max)} at the longest.",
            "At the end your key is removed and the nodes are cleaned. Nothing on them is kept.",
            quota,
        )

    def form(self, found: Lending) -> ActForm:
        form = super().form(found)
        lending = (pool for pool in found.pools if pool.level is not None)
        return replace(form, inputs=(*(self._quantity(pool) for pool in lending), *form.inputs))

    def _quantity(self, pool: PoolView) -> ActInput:
        quota = pool.pool.node_quota
        most = "" if quota is None else f"; a tenant has at most {quota}"
        return ActInput(
            f"{QUANTITY}{pool.name}",
            f"Nodes of {pool.name}",
            f"{counted(pool.ready, 'node', ',')} ready{most}",
            "number",
            "1" if pool.name == self.chosen else "0",
            most=MOST_NODES,
            required=True,
        )

    def perform(self, adapters: PoolAdapters, actor: Actor) -> int:
        assert self.visit is not None  # noqa: S101  forms alone request nodes in this way
        assert actor.user is not None  # noqa: S101  as above
        properties, specs = self._properties(), []
        for pool in self.read(self.visit).pools:
            text = self.quantities.get(pool.name, "0")
            if quantity := _whole(text, f"{QUANTITY}{pool.name}", MOST_NODES):
                specs.append(NodesSpec(pool.name, quantity, properties))
        if not specs:
            raise RefusedError("cannot request nodes: expected at least one node, found none; fill in a number")
        requests: SessionRequests = self.visit.state.page_requests
        return requests.begin(actor.user, tuple(specs), adapters)

    def _properties(self) -> tuple[NodeProperty, ...]:
        try:
            return read_properties(self.properties.split())
        except ValueError as error:
            raise RefusedError(f"cannot read the properties: {error}") from error

    def page_after(self, outcome: int, back: str) -> str:
        from zkdeployment.pools.feed import POOLS_PART  # noqa: PLC0415  as above
        from zkdeployment.service.act_routes import wait_for_reading  # noqa: PLC0415

        if self.visit is not None:
            feed = self.visit.adapters.feed
            wait_for_reading(feed, lambda reading: outcome in reading.of(POOLS_PART).snapshot.sessions)
        return with_query(_PAGE, {"session": str(outcome)}) + "#sessions"


@dataclass(frozen=True, slots=True)
class ShownSession:
    """A session for its form: with its owner, who may be unknown, and the user who sees it."""

    session: TenantSession
    owner: User | None
    reading: PoolReading
    user: User
    now: float


@dataclass(frozen=True, kw_only=True)
class _ActOnSession(_PoolAct[ShownSession]):
    PAGE_AFTER = _SESSIONS
    RIGHT = Right.LEASE_NODES
    ASKS_REASON = False

    session: int = given(hidden=True)

    def read(self, visit: Visit) -> ShownSession:
        """Return the session; raises ``NotFoundError``, and ``ForbiddenError`` for that of another tenant."""
        session = find_session(
            self.session, pool_adapters_of(visit.adapters), SessionActor.of_user(visit.user)
        ).session
        owner = next((each for each in visit.adapters.users.users() if each.id == session.tenant), None)
        reading = _pools(visit)
        return ShownSession(session, owner, reading, visit.user, visit.adapters.clock.now())

    def objection(self, found: ShownSession) -> str:
        return "" if found.session.is_active else "The session has ended."


@dataclass(frozen=True, kw_only=True)
class ExtendSession(_ActOnSession):
    """Change the end of a session."""

    NAME = "extend"
    BUTTON = "Extend the session"

    hours: str = given(label="Hours to add", kind="number", value="1", least=1, most=MOST_HOURS, required=True)

    def title(self, found: ShownSession) -> str:
        return f"Extend session {found.session.id}"

    def consequences(self, found: ShownSession) -> tuple[str, ...]:
        session, defaults = found.session, found.reading.configuration.defaults
        limits = defaults if found.owner is None else defaults.of(found.owner)
        end = moment(session.expires_at, found.now)
        latest = moment(session.created_at + limits.session_lifetime_max, found.now)
        ceiling = "Admins may extend sessions without a limit." if found.user.is_admin else ""
        if not found.user.is_admin and latest is not None:
            ceiling = f"It can end at {latest.clock} at the latest. A later end is cut to that."
        return tuple(filter(None, (f"It ends at {end.clock} now." if end is not None else "", ceiling)))

    def perform(self, adapters: PoolAdapters, actor: Actor) -> None:
        assert actor.user is not None  # noqa: S101  only users of the service have sessions
        hours = _whole(self.hours, "hours", MOST_HOURS)
        extend_session(self.session, adapters, SessionActor.of_user(actor.user), delta=hours * _HOUR)


class RetireSession(_ActOnSession):
    """End a session."""

    NAME = "retire-session"
    BUTTON = "Retire the session"
    STYLE = "danger"

    def title(self, found: ShownSession) -> str:
        return f"Retire session {found.session.id}"

    def consequences(self, found: ShownSession) -> tuple[str, ...]:
        nodes = counted(len(found.session.nodes), "node", ",")
        return (
            f"The SSH key is removed from {nodes}, and open connections end.",
            "The nodes are cleaned. Nothing on them is kept.",
        )

    def perform(self, adapters: PoolAdapters, actor: Actor) -> None:
        assert actor.user is not None  # noqa: S101  only users of the service have sessions
        retire_session(self.session, adapters, SessionActor.of_user(actor.user))


@dataclass(frozen=True, kw_only=True)
class FillPool(_PoolAct["PoolView"]):
    """Let a worker fill a pool at once."""

    NAME = "fill"
    BUTTON = "Fill the pool"

    pool: str = given(hidden=True)

    def read(self, visit: Visit) -> PoolView:
        """Return the pool; raises ``NotFoundError``."""
        reading = _pools(visit)
        return find_pool(self.pool, pool_views(reading.configuration, reading.snapshot))

    def title(self, found: PoolView) -> str:
        return f"Fill {found.name}"

    def objection(self, found: PoolView) -> str:
        if found.level is None:
            return "The pool has no level, so there is nothing to fill."
        return "The pool has its level." if found.shortage is None else ""

    def consequences(self, found: PoolView) -> tuple[str, ...]:
        forgotten = counted(found.failures, "failure", ",")
        return (
            *(
                [f"{forgotten} of the pool {'is' if found.failures == 1 else 'are'} forgotten."]
                if found.failures
                else []
            ),
            "A worker makes the missing nodes now. This page shows the progress.",
        )

    def perform(self, adapters: PoolAdapters, actor: Actor) -> None:
        with suppress(WaitTimeoutError):
            fill_pool(self.pool, adapters, actor.record(self, f"fill pool {self.pool}"), timeout=0.0)


@dataclass(frozen=True, kw_only=True)
class AddNode(_PoolAct[None]):
    """Add a machine or a host of the fleet as an unused node."""

    NAME = "add-node"
    BUTTON = "Add the node"
    TITLE = "Add a node"
    PAGE_AFTER = f"{_PAGE}?state=unused#nodes"

    hostname: str = given(
        label="Host name", explanation="Of a host of this fleet: its name or id.", most=255, required=True
    )
    ipaddr: str = given(
        "",
        label="IP address",
        explanation="Required for machines that are no hosts of this fleet.",
        most=64,
    )
    values: str = given(
        "",
        label="Values",
        explanation='For reuse-nodes: architecture=x86_64 cores=8. "8" in quotes is text.',
        most=2000,
    )
    comment: str = given("", label="Comment", most=500)
    host: bool = given(
        default=False, label="It is a host of this fleet", explanation="The fleet knows its address."
    )
    once: bool = given(
        default=False, label="Use it once", explanation="It leaves the pools after its first session."
    )

    def read(self, visit: Visit) -> None:
        """Read nothing."""

    def consequences(self, found: None) -> tuple[str, ...]:
        return (
            "The node is unused at first. A pool below its level takes it if it has the values of reuse-nodes.",
            "Hosts of this fleet with the idle role of a pool become nodes by themselves.",
            "Add such a host only after it was drained or retired.",
        )

    def perform(self, adapters: PoolAdapters, actor: Actor) -> PoolNode:
        """Add the node; raises what ``add_node`` and ``node_of_host`` raise."""
        new = self._new()
        return add_node(new, adapters, actor.record(self, f"add node {new.hostname}"))

    def _new(self) -> NewPoolNode:
        name, comment = self.hostname.strip(), self.comment.strip() or None
        data = node_data(split_values(self.values))
        if not self.host:
            return NewPoolNode(
                hostname=name,
                ipaddr=self.ipaddr.strip() or None,
                comment=comment,
                reusable=not self.once,
                data=data,
            )
        assert self.visit is not None  # noqa: S101  forms alone name hosts in this way
        feed = self.visit.adapters.feed
        known = feed.known_hosts(
            [host.id for host in feed.snapshot().status.hosts if name in {host.id, host.name}]
        )
        return node_of_host(known, name, comment=comment, data=data)


@dataclass(frozen=True, kw_only=True)
class _ActOnNode(_PoolAct["PoolNode"]):
    PAGE_AFTER = _NODES
    FORM_NEEDS_REASON = True
    VERB: ClassVar[str]
    CONSEQUENCES: ClassVar[Mapping[NodeState, tuple[str, ...]]]
    CHANGE: ClassVar[staticmethod[[PoolNode, float], PoolNode]]

    node: int = given(hidden=True)

    def read(self, visit: Visit) -> PoolNode:
        """Return the node; raises ``NotFoundError``."""
        return find_node(self.node, pool_adapters_of(visit.adapters))

    def title(self, found: PoolNode) -> str:
        name = "" if found.hostname is None else f" ({found.hostname})"
        return f"{self.VERB.capitalize()} node {found.id}{name}"

    def objection(self, found: PoolNode) -> str:
        if self.CONSEQUENCES.get(found.state):
            return ""
        words = " or ".join(state.value for state in self.CONSEQUENCES)
        return f"The state of the node is {found.state.value}; expected {words}."

    def situation(self, found: PoolNode, visit: Visit) -> str:
        return f"the node is {found.state.value}"

    def consequences(self, found: PoolNode) -> tuple[str, ...]:
        return self.CONSEQUENCES.get(found.state, ())

    def perform(self, adapters: PoolAdapters, actor: Actor) -> PoolNode:
        act = actor.record(self, f"{self.VERB} node {self.node}")
        return change_node(self.node, adapters, act, self.CHANGE)


class DrainNode(_ActOnNode):
    """Take a node out of the pools for good."""

    NAME = "drain"
    VERB = "drain"
    BUTTON = "Drain the node"
    CONSEQUENCES = {
        NodeState.READY: ("The node leaves its pool now: it is cleaned, and not used again.",),
        NodeState.DEPLOYED: ("Its session continues. After it, the node is cleaned, and not used again.",),
        NodeState.UNUSED: ("The node is taken off the list of nodes at once.",),
    }
    CHANGE = staticmethod(drained)


class RetireNode(_ActOnNode):
    """Take an unused or failed node off the list."""

    NAME = "retire-node"
    VERB = "retire"
    BUTTON = "Retire the node"
    STYLE = "danger"
    CONSEQUENCES = {
        NodeState.UNUSED: ("The node is taken off the list of nodes. Nothing is done on it.",),
        NodeState.FAILED: (
            "The node is taken off the list of nodes.",
            "It is not cleaned: the key and data of a tenant may be on it.",
        ),
    }
    CHANGE = staticmethod(retired)


class ForgiveNode(_ActOnNode):
    """Let a failed node be deprovisioned again."""

    NAME = "forgive"
    VERB = "forgive"
    BUTTON = "Forgive the node"
    CONSEQUENCES = {
        NodeState.FAILED: ("The node is deprovisioned again. If that succeeds, it can be used again.",)
    }
    CHANGE = staticmethod(forgiven)


ACTS: tuple[type[FormAct[Any, Any]], ...] = (
    RequestNodes,
    ExtendSession,
    RetireSession,
    FillPool,
    AddNode,
    DrainNode,
    RetireNode,
    ForgiveNode,
)
