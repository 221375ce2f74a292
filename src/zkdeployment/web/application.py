"""The application: the routers of the API and of the pages, the adapters they use, and the handlers of errors."""

from __future__ import annotations

from copy import copy, deepcopy
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from anyio import CapacityLimiter
from anyio.to_thread import current_default_thread_limiter
from fastapi import Depends, FastAPI
from starlette.datastructures import State
from starlette.middleware.gzip import GZipMiddleware

from zkdeployment.web.access.body_limit import BodyLimit, check_json
from zkdeployment.web.access.cross_site import forbid_cross_site
from zkdeployment.web.access.headers import SecurityHeaders
from zkdeployment.web.access.hosts import HostCheck
from zkdeployment.web.access.known_sessions import KnownSessions
from zkdeployment.web.access.login_turns import LoginTurns
from zkdeployment.web.access.proxies import ProxyClients
from zkdeployment.web.access.query_parameters import check_parameters
from zkdeployment.web.access_log import AccessLog
from zkdeployment.web.api import (
    acts,
    audit,
    checks,
    deployments,
    events,
    fleet,
    health,
    intent_clusters,
    intent_groups,
    intents,
    jobs,
    metrics,
    pool_usage,
    pools,
    publications,
    releases,
    rollback,
    sessions,
    tenants,
)
from zkdeployment.web.encoded_status import EncodedStatus
from zkdeployment.web.error_responses import ERRORS, install_error_handlers
from zkdeployment.web.head_requests import HeadRequests
from zkdeployment.web.intent_resources import IntentResources
from zkdeployment.web.pages.last_known import LastKnown
from zkdeployment.web.pages.routers import PAGE_ROUTERS
from zkdeployment.web.planner import RevisionPlanner
from zkdeployment.web.request_counts import CountedRequests, RequestCounts
from zkdeployment.web.session_requests import SessionRequests
from zkdeployment.web.streams.event_hub import EventHub

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from zkdeployment.ports.server import ServerAdapters
    from zkdeployment.web.site import Site

_DESCRIPTION = (
    "The state of a fleet, and acts on it. Programs log in with the name of a user and its key (HTTP Basic). Each"
    " error is one sentence in the key `detail`."
)

#: The routers of operations that need a login.
_API_ROUTERS = (
    acts.router,
    audit.router,
    checks.router,
    deployments.router,
    events.router,
    fleet.router,
    intent_clusters.router,
    releases.router,
    intent_groups.router,
    intents.router,
    jobs.router,
    metrics.router,
    pool_usage.router,
    pools.router,
    publications.router,
    rollback.router,
    sessions.router,
    tenants.router,
)

#: The requests for sessions that wait for a worker at once: they must not take the threads of all other requests.
_WAITING = 200

#: The threads of all other requests. Those that may wait for slow servers have places for fewer than half of them.
_THREADS = 300


class Threads:
    """An ASGI application that gives another one its threads."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request."""
        current_default_thread_limiter().total_tokens = _THREADS
        await self._application(scope, receive, send)


def build_application(adapters: ServerAdapters, site: Site) -> ASGIApp:
    """Return the ASGI application of the service."""
    application = copy(_routed_application())
    application.state = State()
    application.state.adapters = adapters
    application.state.site = site
    application.state.known_sessions = KnownSessions()
    application.state.login_turns = LoginTurns()
    application.state.event_hub = EventHub(adapters.feed)
    application.state.health_check = health.HealthCheck()
    application.state.last_known = LastKnown()
    application.state.encoded_status = EncodedStatus()
    application.state.intent_resources = IntentResources()
    application.state.page_requests = SessionRequests()
    application.state.planner = RevisionPlanner()
    application.state.request_counts = RequestCounts()
    application.state.session_requests = CapacityLimiter(_WAITING)
    counted = CountedRequests(HeadRequests(BodyLimit(application)), application.state.request_counts)
    compressed = GZipMiddleware(counted, minimum_size=1000, compresslevel=5)
    guarded = SecurityHeaders(HostCheck(compressed, site), site)
    return Threads(ProxyClients(AccessLog(guarded), site))


def api_description() -> dict[str, Any]:
    """Return the description of the API, as ``/openapi.json`` answers it."""
    return deepcopy(_routed_application().openapi())


@cache
def _routed_application() -> FastAPI:
    """Return the application without its state: FastAPI analyses the routes once in a process."""
    application = FastAPI(
        title="zkdeployment",
        description=_DESCRIPTION,
        version=version("zkdeployment"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(forbid_cross_site), Depends(check_json)],
    )
    install_error_handlers(application)
    # Probes of load balancers may add parameters of their own.
    application.include_router(health.router)
    for router in _API_ROUTERS:
        application.include_router(router, responses=ERRORS, dependencies=[Depends(check_parameters)])
    for router in PAGE_ROUTERS:
        application.include_router(router)
    return application
