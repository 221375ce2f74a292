"""``/services`` and ``/services/PATH``: the services that the published tree deploys."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from zkdeployment.checks.findings import CheckFinding
from zkdeployment.fleet.host_status import HostStatus
from zkdeployment.model.publication import Targets
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.web.access.rights import Reader
from zkdeployment.web.dependencies import Adapters
from zkdeployment.web.pages.last_known import Known
from zkdeployment.web.pages.live_page import FLEET_EVENTS, last_known, read_or, read_withheld, show_page
from zkdeployment.web.views.services import (
    ServiceHosts,
    find_services,
    page_hosts,
    service_view,
    services_view,
)
from zkdeployment.web.views.withheld import withheld_of_service, withheld_services_view

router = APIRouter(include_in_schema=False)

PageNumber = Annotated[int, Query(ge=1, le=100_000)]


@router.get("/services")
def show_services(
    request: Request, adapters: Adapters, user: Reader, text: str = "", page: PageNumber = 1
) -> Response:
    """Return the page that lists the services."""
    cached = adapters.feed.snapshot()
    services = find_services(cached.fleet, _targets(request, adapters))
    view = services_view(services, cached.status, text=text.strip(), page=page)
    withheld = withheld_services_view(read_withheld(request, adapters), text.strip())
    return show_page(request, adapters, user, "services.html", events=FLEET_EVENTS, view=view, withheld=withheld)


@router.get("/services/{path:path}")
def show_service(request: Request, adapters: Adapters, user: Reader, path: str, page: PageNumber = 1) -> Response:
    """Return the page of the service at a path of the tree."""
    feed = adapters.feed
    cached = feed.snapshot()
    service = find_services(cached.fleet, _targets(request, adapters)).get(f"/{path}")
    withheld = withheld_of_service(read_withheld(request, adapters), f"/{path}")
    if service is None and withheld.services:
        service = ServiceHosts(f"/{path}", "", {})
    if service is None:
        raise HTTPException(404, f"the published tree deploys no service /{path}")
    hosts = page_hosts(service, cached.status, page)
    subtree = read_or(lambda: feed.subtree(service.path), None)
    view = service_view(
        service,
        cached.status,
        hosts,
        read_or(lambda: feed.known_hosts([host.id for host in hosts]), ()),
        read_or(lambda: feed.providers([service.path]).get(service.path, {}), {}),
        {} if subtree is None else subtree.get(service.path, {}),
        checks=read_or(lambda: _findings(adapters, service.path, hosts), ()),
        page=page,
    )
    return show_page(request, adapters, user, "service.html", events=FLEET_EVENTS, view=view, withheld=withheld)


def _findings(adapters: ServerAdapters, path: str, hosts: Sequence[HostStatus]) -> tuple[CheckFinding, ...]:
    return adapters.operator_checks.findings([host.id for host in hosts], adapters.clock.now(), path)


def _targets(request: Request, adapters: ServerAdapters) -> Targets:
    return last_known(request).read(Known.TARGETS, adapters.feed.targets, {})
