"""``/api/v1/pools``, ``nodes``, ``sessions`` and ``tenants``, with the requests and answers of Duffy 3.

An answer is made from records: its body takes the values that it shows from their attributes.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    IPvAnyAddress,
    SecretStr,
    WithJsonSchema,
    create_model,
    model_validator,
)
from starlette.exceptions import HTTPException

from zkdeployment.base.act import sanitize
from zkdeployment.base.durations import DURATION_PATTERN, LONGEST_DURATION, given_seconds, signed_duration
from zkdeployment.base.json_values import with_schema
from zkdeployment.base.machine.public_keys import ssh_keys_problem
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.pools import service_requests
from zkdeployment.pools.acts.nodes import add_node, find_node, node_runs
from zkdeployment.pools.acts.sessions import (
    SessionActor,
    SessionDetails,
    away_hosts,
    extend_session,
    find_active_session,
    find_session,
    retire_session,
    retire_tenant,
)
from zkdeployment.pools.documents import NodePool
from zkdeployment.pools.opening import pool_adapters_of
from zkdeployment.pools.rules.listing import with_present_level
from zkdeployment.pools.rules.node import NewPoolNode
from zkdeployment.pools.rules.queue import RequestProblem, RequestRefusal, ready_by_pool
from zkdeployment.pools.rules.snapshot import MOST_PROPERTIES, NodesSpec, PoolSnapshot, read_properties
from zkdeployment.pools.rules.usage import PoolUsage, UsageFilter, pool_usage, usage_window
from zkdeployment.service.access.identity import PoolReader, Tenant, require
from zkdeployment.service.act import Actor
from zkdeployment.service.dependencies import ConnectedAdapters, ServerAdapters
from zkdeployment.service.responses import ERRORS, Omittable, answer
from zkdeployment.service.users.user import LIMITS, NewUser, Right, Role, TenantLimits, User, limits_to_json

T = TypeVar("T")


class LeasingBody(BaseModel):
    """A body with these keys; requests may contain others, as in Duffy."""

    model_config = ConfigDict(extra="ignore")


def result(action: str, text: str, **parts: Any) -> type[BaseModel]:
    """Return the body of an answer: its action (``get``, ``post`` or ``put``), and ``parts`` with their types."""
    name = "".join(word.capitalize() for word in (action, *parts, "result"))
    values = {part: (kind, ...) for part, kind in parts.items()}
    return create_model(name, __base__=LeasingBody, __doc__=text, action=(Literal[action], action), **values)  # type: ignore[call-overload,no-any-return]


def read_duration(given: object) -> float:
    """Return the seconds of a duration in a request; raises ``ValueError``."""
    seconds = given_seconds(given)
    if seconds is None:
        raise ValueError("expected seconds, or a duration such as 6h or 1h30m, of at most 100 years")
    return seconds


def read_signed_duration(given: object) -> float:
    """Return the seconds of a duration with a sign in a request; raises ``ValueError``."""
    seconds = signed_duration(given) if isinstance(given, str) else None
    if seconds is None:
        raise ValueError("expected a duration with a sign, such as +1h30m or -20m, of at most 100 years")
    return seconds


#: A time that a session or a tenant may have, in seconds.
Lifetime = Annotated[
    float,
    BeforeValidator(read_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_DURATION},
                {"type": "string", "pattern": DURATION_PATTERN},
            ]
        }
    ),
]

#: A duration by which a time changes, in seconds.
Delta = Annotated[
    float,
    BeforeValidator(read_signed_duration),
    WithJsonSchema({"type": "string", "pattern": "^[+-]", "examples": ["+1h30m", "-20m"]}),
]


def _if_given(convert: Callable[[Any], object]) -> BeforeValidator:
    """Return the validator that converts values of records, except ``None``."""
    return BeforeValidator(lambda found: None if found is None else convert(found))


_TIME = _if_given(partial(datetime.fromtimestamp, tz=UTC))
_STATE = _if_given(attrgetter("value"))

#: Whole seconds have no fraction, as in Duffy.
_SECONDS = _if_given(lambda seconds: int(seconds) if seconds == int(seconds) else seconds)

#: The text that answers show in place of keys, as in Duffy.
HIDDEN = "**********"

_ABOUT_KEYS = "The public keys with which the tenant logs in to nodes: at most 10, one in each line."


def _without(problem_of: Callable[[Any], str | None]) -> AfterValidator:
    """Return the validator that refuses texts with a problem."""

    def check(given: T) -> T:
        problem = problem_of(given)
        if problem is not None:
            raise ValueError(problem)
        return given

    return AfterValidator(check)


PublicKeys = Annotated[SecretStr, _without(lambda given: ssh_keys_problem(given.get_secret_value()))]
Quota = Annotated[int, Field(gt=0, le=1_000_000)]


class _TenantValues(LeasingBody):
    """The part of a tenant that all answers show."""

    id: int
    name: str
    is_admin: bool
    node_quota: int | None
    session_lifetime: Annotated[int | float | None, _SECONDS]
    session_lifetime_max: Annotated[int | float | None, _SECONDS]
    created_at: Annotated[datetime, _TIME]
    retired_at: Annotated[datetime | None, _TIME]
    active: bool
    effective_node_quota: int
    effective_session_lifetime: float
    effective_session_lifetime_max: float


class TenantBody(_TenantValues):
    """A tenant; `effective_*` are its own limits, or those of the pools; lifetimes are in seconds."""

    ssh_key: str | None = Field(description="Asterisks, if the tenant has a key.")


class NewTenantBody(_TenantValues):
    """A new tenant with its API key, which is shown only once."""

    ssh_key: str
    api_key: str


class ChangedTenantBody(TenantBody):
    """A tenant after a change; a new API key is shown only if the service made it."""

    api_key: str | None = Field(description="The key that the service made, or asterisks.")


def tenant_values(user: User, defaults: TenantLimits, **more: str | None) -> dict[str, Any]:
    """Return the values of a tenant whose keys are hidden; ``more`` replaces and adds values."""
    names = ("id", "name", "is_admin", "created_at", "retired_at")
    return {
        **{name: getattr(user, name) for name in names},
        **limits_to_json(user, defaults),
        "ssh_key": None if user.ssh_key is None else HIDDEN,
        "active": not user.is_retired,
        **more,
    }


class TenantOrder(LeasingBody):
    """A tenant that is to be added."""

    name: Annotated[str, _without(partial(name_problem, NameKind.USER))]
    is_admin: bool | None = None
    ssh_key: PublicKeys = Field(description=_ABOUT_KEYS)
    node_quota: Quota | None = None
    session_lifetime: Lifetime | None = None
    session_lifetime_max: Lifetime | None = None


class TenantChange(LeasingBody):
    """Other values of a tenant, or its retirement (`active: false`); a limit of null is the pools' limit again."""

    active: bool | None = None
    ssh_key: PublicKeys | None = Field(None, description=_ABOUT_KEYS)
    api_key: UUID | Literal["reset"] | None = None
    node_quota: Quota | None = None
    session_lifetime: Lifetime | None = None
    session_lifetime_max: Lifetime | None = None

    @model_validator(mode="after")
    def _has_one_purpose(self) -> "TenantChange":
        """Refuse an empty change, and a change that retires the tenant and also has other values."""
        values = self.model_fields_set - {"active"}
        if not values and self.active is None:
            known = ", ".join(sorted(set(TenantChange.model_fields)))
            raise ValueError(f"expected at least one of {known}")
        if values and self.active is not None:
            raise ValueError("expected either active or other values, found both")
        return self

    def values(self) -> dict[str, Any]:
        """Return the new values of the user; the limits in the request may be null."""
        keys = {} if self.ssh_key is None else {"ssh_key": self.ssh_key.get_secret_value()}
        return keys | {name: getattr(self, name) for name in LIMITS if name in self.model_fields_set}


#: Properties that the nodes of a request must have, in their written form.
Properties = Annotated[tuple[str, ...], AfterValidator(lambda given: tuple(map(str, read_properties(given))))]


class NodesSpecBody(LeasingBody):
    """A number of nodes of a pool."""

    quantity: int = Field(ge=1)
    pool: str
    properties: Properties | None = Field(
        None,
        description="What the nodes must have: NAME=VALUE, NAME>=NUMBER or NAME<=NUMBER.",
        max_length=MOST_PROPERTIES,
    )

    def to_spec(self) -> NodesSpec:
        """Return the part of the request."""
        return NodesSpec(self.pool, self.quantity, read_properties(self.properties or ()))


class SessionOrder(LeasingBody):
    """A session that is requested; only admins request sessions of other tenants, by their id."""

    tenant_id: int | None = None
    nodes_specs: list[NodesSpecBody] = Field(max_length=100)
    ssh_key: PublicKeys | None = Field(
        None,
        description="The public keys that the nodes admit instead of the tenant's: at most 10, one in each line.",
    )


def _written_time(given: object) -> object:
    """Refuse a number, also as text, because it would be taken for seconds since 1970."""
    if not isinstance(given, str | datetime) or (
        isinstance(given, str) and given.strip().lstrip("+-.").isdecimal()
    ):
        raise ValueError("expected a time such as 2027-01-31T18:00:00Z, or a duration with a sign such as +1h30m")
    return given


def _utc(given: datetime) -> datetime:
    return given.replace(tzinfo=UTC) if given.tzinfo is None else given


class SessionUpdate(LeasingBody):
    """The end of a session (`active: false`), or another time of its end: a time, or a duration with a sign."""

    active: bool | None = None
    expires_at: Delta | Annotated[datetime, BeforeValidator(_written_time), AfterValidator(_utc)] | None = Field(
        None, union_mode="left_to_right"
    )


class SessionNodeBody(LeasingBody):
    """A node of a session; `state` is null after the end of the session."""

    id: int
    state: Annotated[str | None, _STATE]
    hostname: str | None
    ipaddr: str | None
    comment: str | None
    pool: str | None
    reusable: bool
    data: dict[str, Any]


class SessionBody(LeasingBody):
    """A session; `data` has the request that it was made for."""

    id: int
    tenant: TenantBody
    data: dict[str, Any]
    nodes: list[SessionNodeBody]
    created_at: Annotated[datetime, _TIME]
    expires_at: Annotated[datetime | None, _TIME]
    retired_at: Annotated[datetime | None, _TIME]
    active: bool


def session_values(details: SessionDetails, tenant: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a session.

    A node that the session no longer has may have another name by now, or be gone.
    """
    session, nodes = details.session, {node.id: node for node in details.nodes}

    def shown(number: int, leased: dict[str, Any]) -> object:
        node = nodes.get(number)
        if session.is_active and node is not None:
            return node
        known: dict[str, Any] = {"comment": None, "reusable": False, "data": {}}
        present = known if node is None else {name: getattr(node, name) for name in known}
        return {**present, **leased, "state": None}

    return {
        "id": session.id,
        "tenant": tenant,
        "data": {"nodes_specs": [spec.to_json() for spec in session.specs]},
        "nodes": [shown(leased.id, leased.to_json()) for leased in session.leased],
        "created_at": session.created_at,
        "expires_at": session.expires_at,
        "retired_at": session.retired_at,
        "active": session.is_active,
    }


class ListedPool(LeasingBody):
    """A pool, and how many nodes it keeps ready."""

    name: str
    fill_level: int = Field(serialization_alias="fill-level")


class PoolLevels(LeasingBody):
    """The number of nodes of a pool in each state."""

    provisioning: int
    ready: int
    contextualizing: int
    deployed: int
    deprovisioning: int


class ShownPool(ListedPool):
    """A pool with the number of its nodes in each state, and how many of them one tenant may have."""

    levels: PoolLevels
    node_quota: Omittable[int] = Field(None, serialization_alias="node-quota")


def pool_values(pool: NodePool, read: PoolSnapshot, away: Collection[str] = ()) -> dict[str, Any]:
    """Return the values of a pool with a level; nodes whose hosts are ``away`` are not ready."""
    own = [node for node in read.nodes.values() if node.pool == pool.name]
    states = Counter(node.state.value for node in own)
    levels = {name: states[name] for name in PoolLevels.model_fields}
    levels["ready"] = ready_by_pool(own, away)[pool.name]
    level = with_present_level(pool, read).fill_level
    return {"name": pool.name, "fill_level": level, "levels": levels, "node_quota": pool.node_quota}


class NodeBody(SessionNodeBody):
    """A node; `data` has the result of its provisioning, the last request that took it, and its failure."""

    state: Annotated[str, _STATE]
    created_at: Annotated[datetime, _TIME]
    retired_at: Annotated[datetime | None, _TIME]
    active: bool = Field(validation_alias="is_active")


#: The most bytes of the data of a new node: all nodes are read together.
_LONGEST_DATA = 64 << 10


def _size_problem(data: dict[str, Any]) -> str | None:
    length = len(json.dumps(data))
    return f"expected at most {_LONGEST_DATA} bytes of JSON, found {length}" if length > _LONGEST_DATA else None


class NewNodeBody(LeasingBody):
    """A machine that becomes an unused node."""

    hostname: Annotated[str, _without(partial(name_problem, NameKind.HOST_NAME))]
    ipaddr: IPvAnyAddress
    comment: Annotated[str, Field(max_length=1000), AfterValidator(sanitize)] | None = None
    pool: str | None = Field(None, description="Has no effect: a node belongs to the pool that takes it.")
    reusable: bool = True
    data: Annotated[dict[str, Any], _without(_size_problem)] = Field(default_factory=dict)


class PlaybookRunBody(LeasingBody):
    """A run of a playbook; `nodes` are the ids of all its nodes, `output` is the end of what Ansible printed."""

    id: int
    pool: str
    playbook: str
    nodes: list[int]
    begun: Annotated[datetime, _TIME]
    seconds: float
    succeeded: bool
    output: str


pools_router = APIRouter(prefix="/api/v1", responses=ERRORS)

PoolManager = Annotated[User, Depends(require(Right.MANAGE_POOLS))]
NodeId = Annotated[int, Path(description="The id of a node.")]


@pools_router.get(
    "/pools", tags=["pools"], response_model=result("get", "The pools that lend nodes.", pools=list[ListedPool])
)
def list_pools(adapters: ConnectedAdapters, _user: PoolReader) -> Any:
    """Return the pools that have a level; the others lend no nodes."""
    store = pool_adapters_of(adapters).store
    pools, read = sorted(store.configuration().pools.items()), store.read()
    return {"pools": [with_present_level(pool, read) for _, pool in pools if pool.lends]}


@pools_router.get(
    "/pools/{name}",
    tags=["pools"],
    response_model=result("get", "A pool.", pool=ShownPool),
    response_model_exclude_none=True,
)
def show_pool(
    adapters: ConnectedAdapters, _user: PoolReader, name: Annotated[str, Path(description="The name of a pool.")]
) -> Any:
    """Return a pool with the number of its nodes in each state; 422 for a pool without a level."""
    pools = pool_adapters_of(adapters)
    pool, read = service_requests.lending_pool(pools.store.configuration(), name), pools.store.read()
    return {"pool": pool_values(pool, read, away_hosts(read, pools))}


@pools_router.get(
    "/nodes", tags=["nodes"], response_model=result("get", "All nodes that are not done.", nodes=list[NodeBody])
)
def list_nodes(adapters: ConnectedAdapters, _user: PoolReader) -> Any:
    """Return all nodes that are not done."""
    return {"nodes": [node for _, node in sorted(pool_adapters_of(adapters).store.read().nodes.items())]}


@pools_router.get("/nodes/{number}", tags=["nodes"], response_model=result("get", "A node.", node=NodeBody))
def show_node(adapters: ConnectedAdapters, _user: PoolReader, number: NodeId) -> Any:
    """Return a node, which may be done."""
    return {"node": find_node(number, pool_adapters_of(adapters))}


@pools_router.get(
    "/nodes/{number}/log",
    tags=["nodes"],
    response_model=result("get", "The runs of playbooks for a node.", runs=list[PlaybookRunBody]),
)
def show_node_log(adapters: ConnectedAdapters, _user: PoolManager, number: NodeId) -> Any:
    """Return the runs of playbooks for a node with the end of their output, the last run last. Only admins may."""
    return {"runs": node_runs(number, pool_adapters_of(adapters))}


@pools_router.post(
    "/nodes", tags=["nodes"], status_code=201, response_model=result("post", "The new node.", node=NodeBody)
)
def create_node(adapters: ConnectedAdapters, user: PoolManager, body: NewNodeBody) -> Any:
    """Add a machine as an unused node; 409 if a node has its name or its address."""
    values = body.model_dump(include={"hostname", "comment", "reusable", "data"})
    new = NewPoolNode(ipaddr=str(body.ipaddr), **values)
    act = Actor.of_user(adapters, user).note(f"add node {new.hostname}")
    return {"node": add_node(new, pool_adapters_of(adapters), act)}


_routes = APIRouter()

SessionId = Annotated[int, Path(description="The id of a session.")]

_STATUSES = {
    RequestProblem.QUOTA: 403,
    RequestProblem.NO_PROPERTY: 400,
    RequestProblem.NOT_PREPARED: 503,
}


@_routes.get(
    "",
    response_model=result(
        "get", "The active sessions: a tenant's own, for admins all.", sessions=list[SessionBody]
    ),
)
def list_sessions(adapters: ConnectedAdapters, user: Tenant) -> Any:
    """Return the active sessions: a tenant's own, for admins all."""
    read, only = pool_adapters_of(adapters).store.read(), SessionActor.of_user(user).tenant
    listed = [
        SessionDetails(session, tuple(read.nodes[node] for node in session.nodes if node in read.nodes))
        for _, session in sorted(read.sessions.items())
        if only in {None, session.tenant}
    ]
    return {"sessions": _with_tenants(adapters, *listed)}


@_routes.get("/{number}", response_model=result("get", "A session.", session=SessionBody))
def show_session(adapters: ConnectedAdapters, user: Tenant, number: SessionId) -> Any:
    """Return a session, which may have ended; 403 for those of other tenants."""
    return _answer(adapters, find_session(number, pool_adapters_of(adapters), SessionActor.of_user(user)))


@_routes.post("", status_code=201, response_model=result("post", "The new session.", session=SessionBody))
async def create_session(request: Request, adapters: ConnectedAdapters, user: Tenant, order: SessionOrder) -> Any:
    """Request nodes, and answer when the session's keys are on all of them: those in `ssh_key`, else the tenant's.

    400 for a property that no node of the pool has, 403 above the quota, 422 if there are too few nodes, and 503
    if the nodes could not be prepared: the same request may then succeed with other nodes.
    """
    work = partial(_create, adapters, user, order)
    return await run_sync(work, limiter=request.app.state.session_requests, abandon_on_cancel=True)


@_routes.put("/{number}", response_model=result("put", "The session after the change.", session=SessionBody))
def change_session(adapters: ConnectedAdapters, user: Tenant, number: SessionId, change: SessionUpdate) -> Any:
    """End a session (`active: false`), or change when it ends; 422 if it has ended.

    A tenant reaches at most its longest lifetime after the creation of the session.
    """
    at, session = change.expires_at, (number, pool_adapters_of(adapters), SessionActor.of_user(user))
    details = find_active_session(*session)
    if isinstance(at, datetime):
        details = extend_session(*session, until=at.timestamp())
    elif at is not None:
        details = extend_session(*session, delta=at)
    return _answer(adapters, retire_session(*session) if change.active is False else details)


def _create(adapters: ServerAdapters, user: User, order: SessionOrder) -> dict[str, Any]:
    specs = tuple(spec.to_spec() for spec in order.nodes_specs)
    ssh_key = None if order.ssh_key is None else order.ssh_key.get_secret_value()
    outcome = service_requests.order_session(adapters, user, specs, order.tenant_id, ssh_key)
    if isinstance(outcome, RequestRefusal):
        status = _STATUSES.get(outcome.problem, 422)
        raise HTTPException(status, outcome.message, {"Retry-After": "0"} if status == 503 else None)
    return _answer(adapters, outcome)


def _answer(adapters: ServerAdapters, details: SessionDetails) -> dict[str, Any]:
    (session,) = _with_tenants(adapters, details)
    return {"session": session}


def _with_tenants(adapters: ServerAdapters, *listed: SessionDetails) -> list[dict[str, Any]]:
    """Return the values of sessions with their tenants."""
    if not listed:
        return []
    owners = service_requests.owners(adapters, [details.session for details in listed])
    defaults = _defaults(adapters)
    return [session_values(found, tenant_values(owners[found.session.tenant], defaults)) for found in listed]


sessions_router = APIRouter(tags=["sessions"], responses=ERRORS)
sessions_router.include_router(_routes, prefix="/api/v1/sessions")
sessions_router.include_router(_routes, prefix="/api/v1/session", include_in_schema=False)

usage_router = APIRouter(prefix="/api/v1", tags=["pools"], responses=ERRORS)

_MONTH = 30 * 86400.0


@usage_router.get("/pool-usage", response_model=answer("pool-usage", PoolUsage))
def show_pool_usage(
    adapters: ConnectedAdapters,
    user: Tenant,
    since: Annotated[
        Lifetime,
        Query(description="The time before now: seconds, or a duration such as 7d. A year at most counts."),
    ] = _MONTH,
    tenant: Annotated[str | None, Query(max_length=255, description="Only this tenant, by its name.")] = None,
    pool: Annotated[str | None, Query(max_length=255, description="Only this pool.")] = None,
) -> Response:
    """Return the use of pools by tenant and pool, the largest first: a tenant's own, for admins all."""
    wanted = service_requests.own_usage(user, UsageFilter(tenant, pool))
    uses, names = pool_adapters_of(adapters).uses(), {owner.id: owner.name for owner in adapters.users.users()}
    now = pool_adapters_of(adapters).clock.now()
    usage = pool_usage(uses, names, usage_window(now - since, now), wanted)
    return JSONResponse(with_schema("pool-usage", usage.to_json()))


tenants_router = APIRouter(prefix="/api/v1/tenants", tags=["tenants"], responses=ERRORS)

UserManager = Annotated[User, Depends(require(Right.MANAGE_USERS))]
TenantId = Annotated[int, Path(description="The id of a tenant.")]


@tenants_router.get(
    "", response_model=result("get", "Tenants by id, retired ones included.", tenants=list[TenantBody])
)
def list_tenants(adapters: ConnectedAdapters, user: Tenant) -> Any:
    """Return the tenant who asks; admins get all tenants, retired ones included."""
    shown = service_requests.tenants(adapters).values() if user.may(Right.MANAGE_USERS) else [user]
    defaults = _defaults(adapters)
    return {"tenants": [tenant_values(tenant, defaults) for tenant in shown]}


@tenants_router.get("/{number}", response_model=result("get", "A tenant.", tenant=TenantBody))
def show_tenant(adapters: ConnectedAdapters, user: Tenant, number: TenantId) -> Any:
    """Return a tenant; 403 for other tenants than the one who asks, except for admins."""
    found = service_requests.find_tenant(adapters, user, number)
    return {"tenant": tenant_values(found, _defaults(adapters))}


@tenants_router.post("", status_code=201, response_model=result("post", "The new tenant.", tenant=NewTenantBody))
def create_tenant(adapters: ConnectedAdapters, user: UserManager, order: TenantOrder) -> Any:
    """Add a tenant, and return its API key, which is shown only once; 409 if the name is or was in use."""
    new = NewUser(
        role=Role.ADMIN if order.is_admin else Role.TENANT,
        ssh_key=order.ssh_key.get_secret_value(),
        **order.model_dump(exclude={"is_admin", "ssh_key"}),
    )
    act = Actor.of_user(adapters, user).note(f"add user {new.name} ({new.role.value})")
    issued = adapters.users.add(new, act)
    shown = {"ssh_key": issued.user.ssh_key, "api_key": issued.key}
    return {"tenant": tenant_values(issued.user, _defaults(adapters), **shown)}


@tenants_router.put("/{number}", response_model=result("put", "The changed tenant.", tenant=ChangedTenantBody))
def change_tenant(adapters: ConnectedAdapters, user: Tenant, number: TenantId, change: TenantChange) -> Any:
    """Give a tenant other values or another API key, or retire it (`active: false`); only admins may.

    The sessions of a tenant end when it is retired. A retired tenant stays retired.
    """
    defaults = _defaults(adapters)
    if change.active is not None:
        tenant = service_requests.find_active_tenant(adapters, user, number)
        if not change.active:
            act = Actor.of_user(adapters, user).note(f"retire user {tenant}")
            tenant = retire_tenant(tenant, adapters.users, pool_adapters_of(adapters), act)
        return {"tenant": tenant_values(tenant, defaults, api_key=None)}
    given = None if change.api_key in {None, "reset"} else str(change.api_key)
    changed, made = service_requests.change_tenant(
        adapters, user, number, change.values(), resets_key=change.api_key == "reset", key=given
    )
    return {"tenant": tenant_values(changed, defaults, api_key=made or HIDDEN)}


def _defaults(adapters: ServerAdapters) -> TenantLimits:
    return pool_adapters_of(adapters).store.configuration().defaults


ROUTERS = (usage_router, pools_router, sessions_router, tenants_router)
