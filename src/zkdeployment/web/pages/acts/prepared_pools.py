"""The acts on pools that forms offer: each with its form, and with the function that performs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.acts.pools.nodes import find_node
from zkdeployment.acts.pools.sessions import extend_session, find_session, retire_session
from zkdeployment.errors import ForbiddenError, NotFoundError, RefusedError
from zkdeployment.model.user import Right
from zkdeployment.pools.node_changes import NewPoolNode, node_data, node_of_host, split_values
from zkdeployment.pools.overview import find_pool, pool_overviews
from zkdeployment.pools.requests.properties import read_properties
from zkdeployment.pools.tenant_session import NodesSpec
from zkdeployment.web import node_acts, pool_acts
from zkdeployment.web.feed_progress import wait_for_reading
from zkdeployment.web.views.pools import acts as forms
from zkdeployment.web.views.pools.links import PAGE, pools_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.model.user import User
    from zkdeployment.pools.requests.properties import NodeProperty
    from zkdeployment.ports.server import ServerAdapters
    from zkdeployment.web.session_requests import SessionRequests
    from zkdeployment.web.views.acts import ActForm

_HOUR = 3600.0

#: The most digits of a number in a form.
_DIGITS = 15


@dataclass(frozen=True, slots=True)
class PreparedPoolAct:
    """An act: its form, and the function that performs it with a reason and returns the page to show then."""

    form: ActForm
    perform: Callable[[str], str]


def prepare_pool_act(
    name: str, values: Mapping[str, str], adapters: ServerAdapters, user: User, requests: SessionRequests
) -> PreparedPoolAct | None:
    """Return the act of this name on the subject that ``values`` describe, the fields of its form; else ``None``.

    Raises ``NotFoundError`` for an unknown pool, session or node, and ``ForbiddenError`` if the user may not.
    """
    if name == "request":
        return _request(values, adapters, user, requests)
    if name in {"extend", "retire-session"}:
        return _act_on_session(name, values, adapters, user)
    if not user.may(Right.MANAGE_POOLS):
        raise ForbiddenError(
            f"the user {user} may not {Right.MANAGE_POOLS.value}: its role is {user.role.value}; ask an admin"
        )
    if name == "fill":
        return _fill(values, adapters, user)
    return _add_node(values, adapters, user) if name == "add-node" else _act_on_node(name, values, adapters, user)


def _request(
    values: Mapping[str, str], adapters: ServerAdapters, user: User, requests: SessionRequests
) -> PreparedPoolAct:
    reading = adapters.feed.snapshot().reading.pools
    pools = pool_overviews(reading.configuration, reading.snapshot)

    def perform(_: str) -> str:
        properties = _properties(values)
        specs = tuple(
            NodesSpec(pool.name, quantity, properties)
            for pool in pools
            if (quantity := _whole(values, f"{forms.QUANTITY}{pool.name}", "0", forms.MOST_NODES))
        )
        if not specs:
            raise RefusedError("cannot request nodes: expected at least one node, found none; fill in a number")
        number = requests.begin(user, specs, adapters.pools)
        wait_for_reading(adapters.feed, lambda reading: number in reading.pools.snapshot.sessions)
        return pools_page(session=str(number)) + "#sessions"

    return PreparedPoolAct(forms.request_form(reading, pools, user, values.get("pool", "")), perform)


def _properties(values: Mapping[str, str]) -> tuple[NodeProperty, ...]:
    try:
        return read_properties(values.get(forms.PROPERTIES, "").split())
    except ValueError as error:
        raise RefusedError(f"cannot read the properties: {error}") from error


def _act_on_session(name: str, values: Mapping[str, str], adapters: ServerAdapters, user: User) -> PreparedPoolAct:
    number, actor = _number(values, "session"), pool_acts.actor(user)
    session = find_session(number, adapters.pools, actor).session

    def extend(_: str) -> str:
        hours = _whole(values, "hours", "", forms.MOST_HOURS)
        extend_session(number, adapters.pools, actor, delta=hours * _HOUR)
        return f"{PAGE}#sessions"

    def retire(_: str) -> str:
        retire_session(number, adapters.pools, actor)
        return f"{PAGE}#sessions"

    if name == "retire-session":
        return PreparedPoolAct(forms.retire_session_form(session), retire)
    owner = next((each for each in adapters.users.users() if each.id == session.tenant), None)
    reading = adapters.feed.snapshot().reading.pools
    return PreparedPoolAct(forms.extend_form(session, reading, owner, user, adapters.clock.now()), extend)


def _fill(values: Mapping[str, str], adapters: ServerAdapters, user: User) -> PreparedPoolAct:
    reading = adapters.feed.snapshot().reading.pools
    pool = find_pool(values.get("pool", ""), pool_overviews(reading.configuration, reading.snapshot))

    def perform(reason: str) -> str:
        node_acts.fill(adapters, user, pool.name, reason)
        return PAGE

    return PreparedPoolAct(forms.fill_form(pool), perform)


def _add_node(values: Mapping[str, str], adapters: ServerAdapters, user: User) -> PreparedPoolAct:
    def perform(reason: str) -> str:
        node_acts.add(adapters, user, _new_node(values, adapters), reason)
        return f"{pools_page(state='unused')}#nodes"

    return PreparedPoolAct(forms.add_node_form(), perform)


def _act_on_node(
    name: str, values: Mapping[str, str], adapters: ServerAdapters, user: User
) -> PreparedPoolAct | None:
    node = find_node(_number(values, "node"), adapters.pools)
    form = forms.node_form(name, node)

    def perform(reason: str) -> str:
        node_acts.act_on_node(adapters, user, name, node.id, reason)
        return f"{PAGE}#nodes"

    return None if form is None else PreparedPoolAct(form, perform)


def _new_node(values: Mapping[str, str], adapters: ServerAdapters) -> NewPoolNode:
    """Return the node that a form describes."""
    name, comment = values.get("hostname", "").strip(), values.get("comment", "").strip() or None
    data = node_data(split_values(values.get("values", "")))
    if values.get("host"):
        hosts = adapters.feed.snapshot().status.hosts
        known = adapters.feed.known_hosts([host.id for host in hosts if name in {host.id, host.name}])
        return node_of_host(known, name, comment=comment, data=data)
    return NewPoolNode(
        hostname=name,
        ipaddr=values.get("ipaddr", "").strip() or None,
        comment=comment,
        reusable=not values.get("once"),
        data=data,
    )


def _number(values: Mapping[str, str], name: str) -> int:
    """Return the id of a session or a node; raises ``NotFoundError`` if it is not a number."""
    text = values.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise NotFoundError(f"there is no {name} {text!a}; expected a number")
    return int(text)


def _whole(values: Mapping[str, str], name: str, default: str, most: int) -> int:
    """Return a whole number of a form; raises ``RefusedError`` for anything else."""
    text = values.get(name, default).strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) <= most):
        raise RefusedError(f"cannot read {name}: expected a whole number from 0 to {most}, found {text!a}")
    return int(text)
