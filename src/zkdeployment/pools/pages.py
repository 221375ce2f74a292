"""``/pools`` and ``/pools/acts/NAME``: the page of pools, and the forms of acts on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from zkdeployment.base.act import sanitize
from zkdeployment.base.errors import ForbiddenError, NotFoundError, RefusedError, ZkdeploymentError
from zkdeployment.pools import service_requests
from zkdeployment.pools.acts.nodes import find_node
from zkdeployment.pools.acts.sessions import extend_session, find_session, retire_session
from zkdeployment.pools.feed import POOLS_PART, ended_sessions, pools_of
from zkdeployment.pools.rules.node import NewPoolNode, node_data, node_of_host, split_values
from zkdeployment.pools.rules.overview import find_pool, pool_overviews
from zkdeployment.pools.rules.properties import NodeProperty, read_properties
from zkdeployment.pools.rules.tenant_session import NodesSpec, TenantSession
from zkdeployment.pools.rules.usage import SessionUse, UsageFilter, pool_usage, usage_window
from zkdeployment.pools.service_requests import SessionRequests, own_usage
from zkdeployment.pools.views import acts as forms
from zkdeployment.pools.views.nodes import PAGE, pools_page
from zkdeployment.pools.views.page import pools_view, request_notice
from zkdeployment.pools.views.usage import usage_seconds, usage_view
from zkdeployment.service.access.rights import PoolReader, Tenant
from zkdeployment.service.acts import wait_for_reading
from zkdeployment.service.dependencies import Adapters, ConnectedAdapters, ServerAdapters
from zkdeployment.service.error_responses import error_status
from zkdeployment.service.pages.act_forms import FormFields, show_form
from zkdeployment.service.pages.live_page import Known, last_known, show_page
from zkdeployment.service.users.user import Right, User
from zkdeployment.service.views.acts import ActForm
from zkdeployment.service.views.frame import last_value, page_number

router = APIRouter(include_in_schema=False)

#: The kinds of events after which this page is no longer current.
_EVENTS = "pool node session"

_NO_SESSIONS: tuple[TenantSession, ...] = ()


@router.get("/pools")
def show_pools(request: Request, adapters: Adapters, user: PoolReader) -> Response:
    """Return the page of pools."""
    cached = adapters.feed.snapshot()
    parameters = {name: request.query_params.getlist(name) for name in request.query_params}
    ended = last_known(request).read(Known.SESSIONS, partial(ended_sessions, adapters.feed), _NO_SESSIONS)
    reading, now = cached.reading.of(POOLS_PART), adapters.clock.now()
    view = pools_view(reading, ended, user, parameters, now, connected=cached.connected)
    notice = None
    if last_value(parameters, "session"):
        number = page_number(parameters, "session")
        failure = request.app.state.page_requests.failure(number, user)
        notice = request_notice(number, reading, user, failure)
    return show_page(
        request,
        adapters,
        user,
        "pools.html",
        events=_EVENTS,
        view=view,
        notice=notice,
        may_read_fleet=user.may(Right.READ_FLEET),
    )


_HOUR = 3600.0

#: The most digits of a number in a form.
_DIGITS = 15


@dataclass(frozen=True, slots=True)
class PreparedPoolAct:
    """An act: its form, and the function that performs it with a reason and returns the next page."""

    form: ActForm
    perform: Callable[[str], str]


def prepare_pool_act(
    name: str, values: Mapping[str, str], adapters: ServerAdapters, user: User, requests: SessionRequests
) -> PreparedPoolAct | None:
    """Return the act of this name on the subject in ``values``, the fields of its form; ``None`` if unknown.

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
    reading = pools_of(adapters.feed)
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
        wait_for_reading(adapters.feed, lambda reading: number in reading.of(POOLS_PART).snapshot.sessions)
        return pools_page(session=str(number)) + "#sessions"

    return PreparedPoolAct(forms.request_form(reading, pools, user, values.get("pool", "")), perform)


def _properties(values: Mapping[str, str]) -> tuple[NodeProperty, ...]:
    try:
        return read_properties(values.get(forms.PROPERTIES, "").split())
    except ValueError as error:
        raise RefusedError(f"cannot read the properties: {error}") from error


def _act_on_session(name: str, values: Mapping[str, str], adapters: ServerAdapters, user: User) -> PreparedPoolAct:
    number, actor = _number(values, "session"), service_requests.actor(user)
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
    reading = pools_of(adapters.feed)
    return PreparedPoolAct(forms.extend_form(session, reading, owner, user, adapters.clock.now()), extend)


def _fill(values: Mapping[str, str], adapters: ServerAdapters, user: User) -> PreparedPoolAct:
    reading = pools_of(adapters.feed)
    pool = find_pool(values.get("pool", ""), pool_overviews(reading.configuration, reading.snapshot))

    def perform(reason: str) -> str:
        service_requests.fill(adapters, user, pool.name, reason)
        return PAGE

    return PreparedPoolAct(forms.fill_form(pool), perform)


def _add_node(values: Mapping[str, str], adapters: ServerAdapters, user: User) -> PreparedPoolAct:
    def perform(reason: str) -> str:
        service_requests.add(adapters, user, _new_node(values, adapters), reason)
        return f"{pools_page(state='unused')}#nodes"

    return PreparedPoolAct(forms.add_node_form(), perform)


def _act_on_node(
    name: str, values: Mapping[str, str], adapters: ServerAdapters, user: User
) -> PreparedPoolAct | None:
    node = find_node(_number(values, "node"), adapters.pools)
    form = forms.node_form(name, node)

    def perform(reason: str) -> str:
        service_requests.act_on_node(adapters, user, name, node.id, reason)
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


usage_router = APIRouter(include_in_schema=False)

_NO_USES: Sequence[SessionUse] = ()


@usage_router.get("/pools/usage")
def show_usage(request: Request, adapters: Adapters, user: Tenant) -> Response:
    """Return the page of the use of pools: a tenant's own, for admins that of all tenants."""
    parameters = {name: request.query_params.getlist(name) for name in request.query_params}
    wanted = UsageFilter(last_value(parameters, "tenant") or None, last_value(parameters, "pool") or None)
    reading, now = pools_of(adapters.feed), adapters.pools.clock.now()
    uses = last_known(request).read(Known.USES, adapters.pools.uses, _NO_USES)
    window = usage_window(now - usage_seconds(parameters), now)
    usage = pool_usage(uses, reading.tenants, window, own_usage(user, wanted))
    shows_tenants = user.may(Right.READ_ALL_SESSIONS)
    lending = [pool.name for pool in reading.configuration.pools.values() if pool.fill_level is not None]
    view = usage_view(usage, parameters, lending, shows_tenants=shows_tenants)
    return show_page(request, adapters, user, "pool_usage.html", view=view)


acts_router = APIRouter(include_in_schema=False)


@acts_router.get("/pools/acts/{name}")
def ask(request: Request, adapters: ConnectedAdapters, user: Tenant, name: str) -> Response:
    """Return the form of an act."""
    values = dict(request.query_params)
    prepared = _require_act(request, name, values, adapters, user)
    return show_form(request, adapters, user, prepared.form, values, back=PAGE)


@acts_router.post("/pools/acts/{name}")
def act(request: Request, adapters: ConnectedAdapters, user: Tenant, name: str, values: FormFields) -> Response:
    """Perform an act, and return to the page of pools."""
    prepared = _require_act(request, name, values, adapters, user)
    show_again = partial(show_form, request, adapters, user, prepared.form, values, back=PAGE)
    if prepared.form.objection:
        return show_again(status=409)
    before = adapters.feed.snapshot().reading.number
    try:
        target = prepared.perform(sanitize(values.get("reason", "")))
    except ZkdeploymentError as error:
        return show_again(status=error_status(error), mistake=str(error))
    wait_for_reading(adapters.feed, lambda reading: reading.number != before)
    return RedirectResponse(target, 303)


def _require_act(
    request: Request, name: str, values: dict[str, str], adapters: ServerAdapters, user: User
) -> PreparedPoolAct:
    """Return the act of a form; answer 404 if the act does not exist, and 403 if the user may not do it."""
    prepared = prepare_pool_act(name, values, adapters, user, request.app.state.page_requests)
    if prepared is None:
        raise HTTPException(404, f"there is no act {name}")
    return prepared
