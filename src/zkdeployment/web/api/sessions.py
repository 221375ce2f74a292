"""``/api/v1/sessions``: requests for sessions, their extension and their end, as in Duffy 3."""

from datetime import datetime
from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Request
from starlette.exceptions import HTTPException

from zkdeployment.acts.pools.sessions import SessionDetails, find_session
from zkdeployment.model.user import User
from zkdeployment.pools.reservation import RequestProblem, RequestRefusal
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.web import pool_acts
from zkdeployment.web.access.rights import Tenant
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.models.sessions import (
    ChangedSessionResult,
    NewSessionResult,
    SessionBody,
    SessionOrder,
    SessionResult,
    SessionsResult,
    SessionUpdate,
)
from zkdeployment.web.models.tenants import TenantBody

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
    read, only = adapters.pools.store.read(), pool_acts.actor(user).tenant
    listed = [
        SessionDetails(session, tuple(read.nodes[node] for node in session.nodes if node in read.nodes))
        for _, session in sorted(read.sessions.items())
        if only in {None, session.tenant}
    ]
    return SessionsResult(sessions=_bodies(adapters, listed))


@_routes.get("/{number}")
def show_session(adapters: ConnectedAdapters, user: Tenant, number: SessionId) -> SessionResult:
    """Return a session, which may have ended; 403 for those of other tenants."""
    return SessionResult(session=_body(adapters, find_session(number, adapters.pools, pool_acts.actor(user))))


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
    details = pool_acts.change_session(
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
    outcome = pool_acts.order_session(adapters, user, specs, order.tenant_id, ssh_key)
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
    owners = pool_acts.owners(adapters, [details.session for details in listed])
    defaults = adapters.pools.store.configuration().defaults
    return [SessionBody.of(details, TenantBody.of(owners[details.session.tenant], defaults)) for details in listed]


router = APIRouter(tags=["sessions"], responses=ERRORS)
router.include_router(_routes, prefix="/api/v1/sessions")
router.include_router(_routes, prefix="/api/v1/session", include_in_schema=False)
