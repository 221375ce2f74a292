"""``/api/v1/pools``, ``nodes``, ``sessions`` and ``tenants``, as in Duffy 3."""

from datetime import datetime
from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from zkdeployment.base.json_values import with_schema
from zkdeployment.pools import service_requests
from zkdeployment.pools.acts.nodes import add_node, find_node, node_runs
from zkdeployment.pools.acts.sessions import SessionActor, SessionDetails, find_session
from zkdeployment.pools.models import (
    ChangedSessionResult,
    ChangedTenantBody,
    ChangedTenantResult,
    Lifetime,
    ListedPool,
    NewNodeBody,
    NewNodeResult,
    NewSessionResult,
    NewTenantBody,
    NewTenantResult,
    NodeBody,
    NodeLogResult,
    NodeResult,
    NodesResult,
    PlaybookRunBody,
    PoolLevels,
    PoolResult,
    PoolsResult,
    SessionBody,
    SessionOrder,
    SessionResult,
    SessionsResult,
    SessionUpdate,
    ShownPool,
    TenantBody,
    TenantChange,
    TenantOrder,
    TenantResult,
    TenantsResult,
)
from zkdeployment.pools.opening import pool_adapters_of
from zkdeployment.pools.rules.node import NewPoolNode
from zkdeployment.pools.rules.queue import RequestProblem, RequestRefusal
from zkdeployment.pools.rules.usage import PoolUsage, UsageFilter, pool_usage, usage_window
from zkdeployment.pools.service_requests import lending_pool, own_usage
from zkdeployment.service.access.identity import PoolReader, Tenant, require
from zkdeployment.service.act import Actor
from zkdeployment.service.bodies import answer
from zkdeployment.service.dependencies import ConnectedAdapters, ServerAdapters
from zkdeployment.service.error_responses import ERRORS
from zkdeployment.service.users.user import NewUser, Right, Role, TenantLimits, User

pools_router = APIRouter(prefix="/api/v1", responses=ERRORS)

PoolManager = Annotated[User, Depends(require(Right.MANAGE_POOLS))]


@pools_router.get("/pools", tags=["pools"])
def list_pools(adapters: ConnectedAdapters, _user: PoolReader) -> PoolsResult:
    """Return the pools that have a level; the others lend no nodes."""
    pools = sorted(pool_adapters_of(adapters).store.configuration().pools.items())
    return PoolsResult(pools=[ListedPool.of(pool) for _, pool in pools if pool.fill_level is not None])


@pools_router.get("/pools/{name}", tags=["pools"], response_model_exclude_none=True)
def show_pool(
    adapters: ConnectedAdapters, _user: PoolReader, name: Annotated[str, Path(description="The name of a pool.")]
) -> PoolResult:
    """Return a pool with the number of its nodes in each state; 422 for a pool without a level."""
    pool = lending_pool(pool_adapters_of(adapters).store.configuration(), name)
    levels = PoolLevels.of(pool, pool_adapters_of(adapters).store.read().nodes.values())
    shown = ShownPool(name=pool.name, fill_level=pool.fill_level or 0, levels=levels, node_quota=pool.node_quota)
    return PoolResult(pool=shown)


@pools_router.get("/nodes", tags=["nodes"])
def list_nodes(adapters: ConnectedAdapters, _user: PoolReader) -> NodesResult:
    """Return all nodes that are not done."""
    nodes = pool_adapters_of(adapters).store.read().nodes
    return NodesResult(nodes=[NodeBody.of(node) for _, node in sorted(nodes.items())])


@pools_router.get("/nodes/{number}", tags=["nodes"])
def show_node(
    adapters: ConnectedAdapters, _user: PoolReader, number: Annotated[int, Path(description="The id of a node.")]
) -> NodeResult:
    """Return a node, which may be done."""
    return NodeResult(node=NodeBody.of(find_node(number, pool_adapters_of(adapters))))


@pools_router.get("/nodes/{number}/log", tags=["nodes"])
def show_node_log(
    adapters: ConnectedAdapters, _user: PoolManager, number: Annotated[int, Path(description="The id of a node.")]
) -> NodeLogResult:
    """Return the runs of playbooks for a node with the end of their output, the last run last. Only admins may."""
    return NodeLogResult(runs=[PlaybookRunBody.of(run) for run in node_runs(number, pool_adapters_of(adapters))])


@pools_router.post("/nodes", tags=["nodes"], status_code=201)
def create_node(adapters: ConnectedAdapters, user: PoolManager, body: NewNodeBody) -> NewNodeResult:
    """Add a machine as an unused node; 409 if a node has its name or its address."""
    new = NewPoolNode(
        hostname=body.hostname,
        ipaddr=str(body.ipaddr),
        comment=body.comment,
        reusable=body.reusable,
        data=body.data,
    )
    node = add_node(
        new, pool_adapters_of(adapters), Actor.of_user(adapters, user).note(f"add node {new.hostname}")
    )
    return NewNodeResult(node=NodeBody.of(node))


_routes = APIRouter()

SessionId = Annotated[int, Path(description="The id of a session.")]

_STATUSES = {
    RequestProblem.QUOTA: 403,
    RequestProblem.NO_PROPERTY: 400,
    RequestProblem.NOT_PREPARED: 503,
}


@_routes.get("")
def list_sessions(adapters: ConnectedAdapters, user: Tenant) -> SessionsResult:
    """Return the active sessions: a tenant's own, for admins all."""
    read, only = pool_adapters_of(adapters).store.read(), SessionActor.of_user(user).tenant
    listed = [
        SessionDetails(session, tuple(read.nodes[node] for node in session.nodes if node in read.nodes))
        for _, session in sorted(read.sessions.items())
        if only in {None, session.tenant}
    ]
    return SessionsResult(sessions=_bodies(adapters, listed))


@_routes.get("/{number}")
def show_session(adapters: ConnectedAdapters, user: Tenant, number: SessionId) -> SessionResult:
    """Return a session, which may have ended; 403 for those of other tenants."""
    return SessionResult(
        session=_body(adapters, find_session(number, pool_adapters_of(adapters), SessionActor.of_user(user)))
    )


@_routes.post("", status_code=201)
async def create_session(
    request: Request, adapters: ConnectedAdapters, user: Tenant, order: SessionOrder
) -> NewSessionResult:
    """Request nodes, and answer when the session's keys are on all of them: those in `ssh_key`, else the tenant's.

    400 for a property that no node of the pool has, 403 above the quota, 422 if there are too few nodes, and 503
    if the nodes could not be prepared: the same request may then succeed with other nodes.
    """
    work = partial(_create, adapters, user, order)
    return await run_sync(work, limiter=request.app.state.session_requests, abandon_on_cancel=True)


@_routes.put("/{number}")
def change_session(
    adapters: ConnectedAdapters, user: Tenant, number: SessionId, change: SessionUpdate
) -> ChangedSessionResult:
    """End a session (`active: false`), or change when it ends; 422 if it has ended.

    A tenant reaches at most its longest lifetime after the creation of the session.
    """
    at = change.expires_at
    details = service_requests.change_session(
        adapters,
        user,
        number,
        ends=change.active is False,
        until=at.timestamp() if isinstance(at, datetime) else None,
        delta=at if isinstance(at, float) else None,
    )
    return ChangedSessionResult(session=_body(adapters, details))


def _create(adapters: ServerAdapters, user: User, order: SessionOrder) -> NewSessionResult:
    specs = tuple(spec.to_spec() for spec in order.nodes_specs)
    ssh_key = None if order.ssh_key is None else order.ssh_key.get_secret_value()
    outcome = service_requests.order_session(adapters, user, specs, order.tenant_id, ssh_key)
    if isinstance(outcome, RequestRefusal):
        status = _STATUSES.get(outcome.problem, 422)
        raise HTTPException(status, outcome.message, {"Retry-After": "0"} if status == 503 else None)
    return NewSessionResult(session=_body(adapters, outcome))


def _body(adapters: ServerAdapters, details: SessionDetails) -> SessionBody:
    (body,) = _bodies(adapters, [details])
    return body


def _bodies(adapters: ServerAdapters, listed: list[SessionDetails]) -> list[SessionBody]:
    """Return sessions with their tenants."""
    if not listed:
        return []
    owners = service_requests.owners(adapters, [details.session for details in listed])
    defaults = pool_adapters_of(adapters).store.configuration().defaults
    return [SessionBody.of(details, TenantBody.of(owners[details.session.tenant], defaults)) for details in listed]


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
    wanted = own_usage(user, UsageFilter(tenant, pool))
    uses, names = pool_adapters_of(adapters).uses(), {owner.id: owner.name for owner in adapters.users.users()}
    now = pool_adapters_of(adapters).clock.now()
    usage = pool_usage(uses, names, usage_window(now - since, now), wanted)
    return JSONResponse(with_schema("pool-usage", usage.to_json()))


tenants_router = APIRouter(prefix="/api/v1/tenants", tags=["tenants"], responses=ERRORS)

UserManager = Annotated[User, Depends(require(Right.MANAGE_USERS))]
TenantId = Annotated[int, Path(description="The id of a tenant.")]


@tenants_router.get("")
def list_tenants(adapters: ConnectedAdapters, user: Tenant) -> TenantsResult:
    """Return the tenant who asks; admins get all tenants, retired ones included."""
    shown = service_requests.tenants(adapters).values() if user.may(Right.MANAGE_USERS) else [user]
    defaults = _defaults(adapters)
    return TenantsResult(tenants=[TenantBody.of(tenant, defaults) for tenant in shown])


@tenants_router.get("/{number}")
def show_tenant(adapters: ConnectedAdapters, user: Tenant, number: TenantId) -> TenantResult:
    """Return a tenant; 403 for other tenants than the one who asks, except for admins."""
    return TenantResult(
        tenant=TenantBody.of(service_requests.find_tenant(adapters, user, number), _defaults(adapters))
    )


@tenants_router.post("", status_code=201)
def create_tenant(adapters: ConnectedAdapters, user: UserManager, order: TenantOrder) -> NewTenantResult:
    """Add a tenant, and return its API key, which is shown only once; 409 if the name is or was in use."""
    new = NewUser(
        name=order.name,
        role=Role.ADMIN if order.is_admin else Role.TENANT,
        ssh_key=order.ssh_key.get_secret_value(),
        node_quota=order.node_quota,
        session_lifetime=order.session_lifetime,
        session_lifetime_max=order.session_lifetime_max,
    )
    issued = service_requests.add_tenant(adapters, user, new)
    return NewTenantResult(tenant=NewTenantBody.created(issued, _defaults(adapters)))


@tenants_router.put("/{number}")
def change_tenant(
    adapters: ConnectedAdapters, user: Tenant, number: TenantId, change: TenantChange
) -> ChangedTenantResult:
    """Give a tenant other values or another API key, or retire it (`active: false`); only admins may.

    The sessions of a tenant end when it is retired. A retired tenant stays retired.
    """
    defaults = _defaults(adapters)
    if change.active is False:
        retired = service_requests.end_tenant(adapters, user, number)
        return ChangedTenantResult(tenant=ChangedTenantBody.retired(retired, defaults))
    if change.active:
        tenant = service_requests.find_active_tenant(adapters, user, number)
        return ChangedTenantResult(tenant=ChangedTenantBody.retired(tenant, defaults))
    values = change.limits()
    if change.ssh_key is not None:
        values["ssh_key"] = change.ssh_key.get_secret_value()
    given = None if change.api_key in {None, "reset"} else str(change.api_key)
    changed, made = service_requests.change_tenant(
        adapters, user, number, values, resets_key=change.api_key == "reset", key=given
    )
    return ChangedTenantResult(tenant=ChangedTenantBody.changed(changed, defaults, made))


def _defaults(adapters: ServerAdapters) -> TenantLimits:
    return pool_adapters_of(adapters).store.configuration().defaults
