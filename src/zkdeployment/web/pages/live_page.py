"""Pages that stay current: the whole page for a visit, and only its parts when the page refreshes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from zkdeployment.errors import UnreachableError
from zkdeployment.web.access import cookies
from zkdeployment.web.pages.last_known import Known
from zkdeployment.web.pages.rendering import render
from zkdeployment.web.views.frame import page_frame
from zkdeployment.web.views.withheld import WithheldReading

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from fastapi import Request

    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.model.user import User
    from zkdeployment.planning.targets.withheld import ServiceTarget
    from zkdeployment.ports.server import ServerAdapters
    from zkdeployment.web.pages.last_known import LastKnown

    T = TypeVar("T")
    D = TypeVar("D")

#: How many publications are searched for the wanted revision and for results of a host.
RECENT = 20

#: The way in which htmx replaces a part of a page: with as few changes as possible.
_MORPH = Markup('hx-swap-oob="outerMorph"')

#: The kinds of events that concern a page which shows the fleet.
FLEET_EVENTS = "host publication rollout stop"


def is_fragment(request: Request) -> bool:
    """Return whether a page asks for its parts, to refresh itself."""
    return request.headers.get("HX-Request") == "true"


def changed_hosts(request: Request, extent: int) -> frozenset[str] | None:
    """Return the ids of the hosts that changed since the page was made; ``None`` if it needs the whole map.

    ``extent`` is the number of hosts on the present map.
    """
    if not is_fragment(request) or request.headers.get("X-Map-Extent") != str(extent):
        return None
    return frozenset(unquote(name) for name in request.headers.get("X-Changed-Hosts", "").split())


def show_page(
    request: Request,
    adapters: ServerAdapters,
    user: User,
    template: str,
    *,
    events: str = "",
    status: int = 200,
    **values: object,
) -> HTMLResponse:
    """Return a page, or its parts; ``events`` are the kinds of events after which it refreshes itself."""
    fragment = is_fragment(request)
    cached = adapters.feed.snapshot()
    frame = page_frame(
        request.url.path,
        user,
        now=adapters.clock.now(),
        events=events,
        token=cookies.form_token(request),
        connected=cached.connected,
        read_at=cached.read_at,
    )
    layout = {
        "layout": "fragment.html" if fragment else "page.html",
        "fragment": fragment,
        "oob": _MORPH if fragment else "",
        "frame": frame,
    }
    return HTMLResponse(render(template, **layout, **values), status)


def last_known(request: Request) -> LastKnown:
    """Return the memory of the application for the time when ZooKeeper is away."""
    memory: LastKnown = request.app.state.last_known
    return memory


def read_withheld(request: Request, adapters: ServerAdapters) -> WithheldReading:
    """Return the services that are withheld, the published intents, and the services that left governance."""
    nothing: frozenset[ServiceTarget] = frozenset()
    withheld = last_known(request).read(Known.WITHHELD, adapters.feed.withheld, nothing)
    none_left: tuple[LeftService, ...] = ()
    left = last_known(request).read(Known.LEFT, adapters.feed.left, none_left)
    intents = tuple(record.intent for record in adapters.feed.snapshot().reading.intents.values())
    return WithheldReading(withheld, intents, left)


def read_or(read: Callable[[], T], default: D) -> T | D:
    """Return what ``read`` returns, or ``default`` while ZooKeeper is away: the other parts stay useful."""
    try:
        return read()
    except UnreachableError:
        return default


def view_address(request: Request) -> str:
    """Return the path and the query of a page: the view to which the user returns after an act."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path
