"""The application: the routers of the API and of the pages, static files, the adapters of routes, and HEAD."""

import asyncio
import mimetypes
from copy import copy, deepcopy
from functools import cache
from importlib.metadata import version
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import Response
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zkdeployment.base.features import installed
from zkdeployment.service.access.cookies import forbid_cross_site, site_of
from zkdeployment.service.access.headers import (
    BodyLimit,
    HostCheck,
    SecurityHeaders,
    check_json,
    check_parameters,
)
from zkdeployment.service.access.identity import KnownSessions, LoginTurns, ProxyClients
from zkdeployment.service.act_routes import act_operations, forms_router
from zkdeployment.service.api import events, fleet, health, publications
from zkdeployment.service.api.events import EventHub
from zkdeployment.service.api.fleet import EncodedStatus
from zkdeployment.service.dependencies import ServerAdapters, note_event
from zkdeployment.service.pages import fleet as pages
from zkdeployment.service.pages import login, services
from zkdeployment.service.pages.live_page import STATIC, LastKnown, render_page
from zkdeployment.service.places import ServicePlaces
from zkdeployment.service.planner import RevisionPlanner
from zkdeployment.service.responses import ERRORS, install_error_handlers
from zkdeployment.service.serving.request_log import AccessLog, CountedRequests, RequestCounts
from zkdeployment.service.site import Site
from zkdeployment.service.views.api_description import api_page

static_files = APIRouter(include_in_schema=False)

#: The addresses contain a digest of the content, so a file at an address never changes.
_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable"}

_FILES = {file.name: file.read_bytes() for file in STATIC.iterdir() if file.is_file()}


@static_files.get("/static/{name}")
async def show_file(name: str) -> Response:
    """Return a static file."""
    if name not in _FILES:
        raise HTTPException(404, f"there is no file {name}")
    kind, _ = mimetypes.guess_type(name)
    return Response(_FILES[name], media_type=kind or "text/plain", headers=_HEADERS)


@static_files.get("/docs")
def show_description(request: Request) -> Response:
    """Return the page that describes the API; it needs no login, as the description names no fleet's data."""
    page = api_page(request.app.openapi(), site_of(request).url)
    return render_page(request, "api_docs.html", page=page)


#: GET below this path hands work to a monitoring system. HEAD would lose that work, so its answer is 405.
_NOT_SAFE = "/deployments/"


class HeadRequests:
    """An ASGI application that answers HEAD as the wrapped one answers GET; the HTTP server omits the body."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request, HEAD as GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].startswith(_NOT_SAFE):
            await self._application(scope, receive, send)
            return
        # The server omits the body because its own scope still has the method HEAD.
        head, inner = _Head(send), {**scope, "method": "GET"}
        try:
            await self._application(inner, head.receive, head.send)
        finally:
            scope["route"] = inner.get("route")


class _Head:
    """A request without a body, whose client disconnects when the response has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._answered = asyncio.Event()
        self._asked = False

    async def receive(self) -> Message:
        """Return an empty body, and once the response has begun, the message that the client has disconnected."""
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._answered.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass on a part of the response."""
        await self._send(message)
        if message["type"] == "http.response.body":
            self._answered.set()


_DESCRIPTION = (
    "The state of a fleet, and acts on it. Programs log in with the name of a user and its key (HTTP Basic). Each"
    " error is one sentence in the key `detail`. Times that are numbers are in seconds since the epoch."
)

#: The routers of the fleet's operations that need a login; the features add theirs.
_API_ROUTERS = (
    fleet.audit_router,
    events.router,
    fleet.router,
    publications.jobs,
    health.metrics_router,
    publications.router,
)

#: The routers of the fleet's pages; the features add theirs.
_PAGE_ROUTERS = (
    login.router,
    pages.router,
    services.router,
    forms_router,
    static_files,
)


def api_routers() -> tuple[APIRouter, ...]:
    """Return the routers of all operations of the API that need a login."""
    return (
        *_API_ROUTERS,
        fleet.explanation_router(),
        publications.plan_router(),
        act_operations(),
        *(router for places in installed(ServicePlaces) for router in places.api_routers()),
    )


def page_routers() -> tuple[APIRouter, ...]:
    """Return the routers of all pages."""
    return (*_PAGE_ROUTERS, *(router for places in installed(ServicePlaces) for router in places.page_routers()))


#: The number of requests for sessions that may wait for a worker at the same time: other requests need threads,
#: too.
_WAITING = 200

#: The number of threads for all other requests. Requests that may wait for slow servers have fewer than half as
#: many places.
_THREADS = 300


class Threads:
    """An ASGI application that sets the number of threads of the wrapped application."""

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
    for places in installed(ServicePlaces):
        for name, value in places.state().items():
            setattr(application.state, name, value)
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
    for router in api_routers():
        application.include_router(router, responses=ERRORS, dependencies=[Depends(check_parameters)])
    for router in page_routers():
        application.include_router(router, dependencies=[Depends(note_event)])
    return application
