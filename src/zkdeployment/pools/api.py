"""``/api/v1/pools``, ``nodes``, ``sessions`` and ``tenants``, as in Duffy 3."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from zkdeployment.base.json_values import with_schema
from zkdeployment.pools import service_requests
from zkdeployment.pools.acts.nodes import add_node, find_node, node_runs
from zkdeployment.pools.acts.sessions import (
    SessionActor,
    SessionDetails,
    extend_session,
    find_active_session,
    find_session,
    retire_session,
    retire_tenant,
)
from zkdeployment.pools.models import (
    HIDDEN,
    ChangedTenantBody,
    Lifetime,
    ListedPool,
    NewNodeBody,
    NewTenantBody,
    NodeBody,
    PlaybookRunBody,
    SessionBody,
    SessionOrder,
    SessionUpdate,
    ShownPool,
    TenantBody,
    TenantChange,
    TenantOrder,
    pool_values,
    result,
    session_values,
    tenant_values,
)
from zkdeployment.pools.opening import pool_adapters_of
from zkdeployment.pools.rules.node import NewPoolNode
from zkdeployment.pools.rules.queue import RequestProblem, RequestRefusal
from zkdeployment.pools.rules.usage import PoolUsage, UsageFilter, pool_usage, usage_window
from zkdeployment.service.access.identity import PoolReader, Tenant, require
from zkdeployment.service.act import Actor
from zkdeployment.service.bodies import answer
from zkdeployment.service.dependencies import ConnectedAdapters, ServerAdapters
from zkdeployment.service.error_responses import ERRORS
from zkdeployment.service.users.user import NewUser, Right, Role, TenantLimits, User

pools_router = APIRouter(prefix="/api/v1", responses=ERRORS)

PoolManager = Annotated[User, Depends(require(Right.MANAGE_POOLS))]
NodeId = Annotated[int, Path(description="The id of a node.")]


@pools_router.get(
    "/pools", tags=["pools"], response_model=result("get", "The pools that lend nodes.", pools=list[ListedPool])
)
def list_pools(adapters: ConnectedAdapters, _user: PoolReader) -> Any:
    """Return the pools that have a level; the others lend no nodes."""
    pools = sorted(pool_adapters_of(adapters).store.configuration().pools.items())
    return {"pools": [pool for _, pool in pools if pool.fill_level is not None]}


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
    store = pool_adapters_of(adapters).store
    pool = service_requests.lending_pool(store.configuration(), name)
    return {"pool": pool_values(pool, store.read().nodes.values())}


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
