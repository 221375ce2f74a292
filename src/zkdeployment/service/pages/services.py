"""The pages of services: the list, and the page of one service."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.features import installed
from zkdeployment.base.publication import Targets
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.feed.fleet_assembly import CachedFleet
from zkdeployment.fleet.views.services import services_status
from zkdeployment.publishing.records import PublicationRecord
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters, ServerAdapters
from zkdeployment.service.pages.live_page import (
    FLEET_EVENTS,
    RECENT,
    Known,
    last_known,
    read_or,
    read_withheld,
    retry_acts,
    show_page,
)
from zkdeployment.service.places import ServicePlaces
from zkdeployment.service.views.service import (
    PagePart,
    lock_queue,
    page_hosts,
    service_condition,
    service_order,
    service_view,
    version_chart,
)
from zkdeployment.service.views.services import (
    ServiceHosts,
    find_services,
    services_view,
    withheld_of_service,
    withheld_services_view,
)

router = APIRouter(include_in_schema=False)

PageNumber = Annotated[int, Query(ge=1, le=100_000)]


@dataclass(frozen=True, slots=True)
class ServiceVisit:
    """A request for the page of a service.

    ``hosts`` are the ids of the hosts on the page, and ``deployed`` are the times of the last publications that
    hosts deployed successfully, by id, in seconds since the epoch.
    """

    adapters: ServerAdapters
    path: str
    hosts: Sequence[str]
    deployed: Mapping[str, float]
    now: float


def read_targets(request: Request, adapters: ServerAdapters) -> Targets:
    """Return the published targets; while ZooKeeper is away, the last known ones."""
    return last_known(request).read(Known.TARGETS, adapters.feed.targets, {})


@router.get("/services")
def show_services(
    request: Request, adapters: Adapters, user: Reader, text: str = "", page: PageNumber = 1
) -> Response:
    """Return the page that lists the services."""
    cached = adapters.feed.snapshot()
    services = find_services(cached.fleet, read_targets(request, adapters))
    view = services_view(services, cached.status, text=text.strip(), page=page)
    withheld = withheld_services_view(read_withheld(request, adapters), text.strip())
    return show_page(
        request,
        adapters,
        user,
        "services.html",
        events=FLEET_EVENTS,
        cached=cached,
        view=view,
        withheld=withheld,
    )


@router.get("/services/{path:path}")
def show_service(request: Request, adapters: Adapters, user: Reader, path: str, page: PageNumber = 1) -> Response:
    """Return the page of the service at a path of the tree."""
    feed, last, now = adapters.feed, last_known(request), adapters.clock.now()
    cached, targets = feed.snapshot(), read_targets(request, adapters)
    service = find_services(cached.fleet, targets).get(f"/{path}")
    withheld = withheld_of_service(read_withheld(request, adapters), f"/{path}")
    if service is None and withheld.services:
        service = ServiceHosts(f"/{path}", "", {})
    if service is None:
        raise HTTPException(404, f"the published tree deploys no service /{path}")
    records = last.read(Known.HISTORY, lambda: feed.history(RECENT), ())
    hosts = page_hosts(service, cached.status, page)
    subtree = read_or(lambda: feed.subtree(service.path), None)
    condition = service_condition(service, cached.fleet, cached.status, now)
    visit = ServiceVisit(adapters, service.path, [host.id for host in hosts.rows], _deployed(records), now)
    view = service_view(
        service,
        cached.status,
        hosts,
        read_or(lambda: feed.known_hosts(visit.hosts), ()),
        read_or(lambda: feed.providers([service.path]).get(service.path, {}), {}),
        {} if subtree is None else subtree.get(service.path, {}),
        versions=version_chart(records, service, now),
        queue=lock_queue(last.read(Known.LOCKS, feed.locks, ()), service.path, now),
        order=service_order(service, targets, cached.status),
        parts=tuple(_parts(visit)),
        condition=condition,
        down=read_or(lambda: _down(adapters, cached, service, targets), ""),
    )
    events = f"{FLEET_EVENTS} check intent"
    return show_page(
        request,
        adapters,
        user,
        "service.html",
        events=events,
        cached=cached,
        view=view,
        withheld=withheld,
        remedies=retry_acts(request, user, cached) if condition.problems else (),
    )


def _down(adapters: ServerAdapters, cached: CachedFleet, service: ServiceHosts, targets: Targets) -> str:
    """Return the sentence on the instances of a service that are down; empty if none of them registers."""
    providers = adapters.feed.providers([service.path])
    if not providers:
        return ""
    known = adapters.feed.known_hosts(service.assignments)
    found = services_status(cached.status, cached.fleet, targets, known, providers, path=service.path).services
    return next((each.down.sentence for each in found if each.path == service.path), "")


def _deployed(records: Sequence[PublicationRecord]) -> dict[str, float]:
    """Return when hosts last deployed a publication; ``records`` are sorted, the newest first."""
    found: dict[str, float] = {}
    for record in records:
        for host, result in record.results.items():
            if result.error is None:
                found.setdefault(host, result.time)
    return found


def _parts(visit: ServiceVisit) -> Iterator[PagePart]:
    """Yield the parts of features; while ZooKeeper is away, a feature may have none."""
    for places in installed(ServicePlaces):
        try:
            yield from places.service_page(visit)
        except UnreachableError:
            continue
