"""``/``: the fleet at a glance; ``/map/PLACE``: the host at a place of the map."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from zkdeployment.model.user import Right
from zkdeployment.printable import printable
from zkdeployment.web.access.rights import PoolReader, require
from zkdeployment.web.dependencies import Adapters
from zkdeployment.web.pages.last_known import Known
from zkdeployment.web.pages.live_page import (
    FLEET_EVENTS,
    RECENT,
    changed_hosts,
    is_fragment,
    last_known,
    show_page,
    view_address,
)
from zkdeployment.web.views.acts import fleet_acts
from zkdeployment.web.views.fleet import FrontPageData, fleet_view
from zkdeployment.web.views.host_query import HostQuery
from zkdeployment.web.views.links import host_page

router = APIRouter(include_in_schema=False)


@router.get("/")
def show_fleet(request: Request, adapters: Adapters, user: PoolReader) -> Response:
    """Return the page of the fleet, or the parts of it that changed; tenants may see only the pools."""
    if not user.may(Right.READ_FLEET):
        return RedirectResponse("/pools", 303)
    feed, now = adapters.feed, adapters.clock.now()
    cached, known = feed.snapshot(), last_known(request)
    data = FrontPageData(
        snapshot=cached.fleet,
        status=cached.status,
        locks=known.read(Known.LOCKS, feed.locks, ()),
        records=known.read(Known.HISTORY, lambda: feed.history(RECENT), ()),
        syncer=cached.reading.syncer,
        stale=not cached.connected,
    )
    parameters = request.query_params
    query = HostQuery.of_parameters({name: parameters.getlist(name) for name in parameters})
    changed = changed_hosts(request, len(cached.status.hosts))
    view = fleet_view(data, query, now=now, changed=changed)
    acts = fleet_acts(cached.fleet, view_address(request), user)
    return show_page(
        request,
        adapters,
        user,
        "fleet.html",
        events=FLEET_EVENTS,
        view=view,
        acts=acts if cached.connected else (),
        whole_map=changed is None,
    )


@router.get("/map/{place}", dependencies=[Depends(require(Right.READ_FLEET))])
def show_place(request: Request, adapters: Adapters, place: Annotated[int, Path(ge=0)]) -> Response:
    """Redirect to the page of the host at a place of the map; a page that refreshes itself gets a line of text."""
    hosts = adapters.feed.snapshot().status.hosts
    if place >= len(hosts):
        raise HTTPException(404, f"the map has {len(hosts)} hosts, and no place {place}")
    host = hosts[place]
    if not is_fragment(request):
        return RedirectResponse(host_page(host.id), 303)
    detail = host.error or host.step or ""
    return PlainTextResponse(printable(f"{host.name}: {host.state.value}{f': {detail}' if detail else ''}"))
