"""``/system``: the operating systems of hosts."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.pages.live_page import FLEET_EVENTS, read_or, show_page
from zkdeployment.service.views.frame import MainPage, host_page
from zkdeployment.system.opening import systems_of
from zkdeployment.system.views import HEADINGS, SystemsStatus, has_systems

router = APIRouter(include_in_schema=False)


@router.get("/system")
def show_systems(request: Request, adapters: Adapters, user: Reader) -> Response:
    """Return the page that lists the operating systems."""
    status = read_or(lambda: systems_of(adapters.feed), SystemsStatus())
    now = adapters.clock.now()
    rows = [(host_page(row.id), row.cells(now)) for row in status.hosts]
    headings = [heading.capitalize() for heading in HEADINGS]
    return show_page(
        request,
        adapters,
        user,
        "system.html",
        events=FLEET_EVENTS,
        summary=status.summary,
        headings=headings,
        rows=rows,
    )


ROUTERS = (router,)
MAIN_PAGES = (
    MainPage("System", "/system", "o", 65, is_used=lambda reading: has_systems(reading.services.targets)),
)
