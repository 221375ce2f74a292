"""``/checks``: the monitoring systems, and the findings of all checks."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from zkdeployment.checks.feed import CHECKS_PART, check_reading_of
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.checks.rules.findings import CheckReading
from zkdeployment.checks.views.page import checks_view, service_part
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.pages.live_page import read_or, show_page
from zkdeployment.service.pages.services import ServiceVisit
from zkdeployment.service.views.frame import MainPage
from zkdeployment.service.views.service import PagePart

router = APIRouter(include_in_schema=False)

#: The kinds of events after which this page is no longer current.
_EVENTS = "check publication"


@router.get("/checks")
def show_checks(request: Request, adapters: Adapters, user: Reader) -> Response:
    """Return the page that lists the checks."""
    reading, query = read_or(lambda: check_reading_of(adapters.feed), CheckReading()), request.query_params
    parameters = {name: query.getlist(name) for name in query}
    view = checks_view(reading.summary, reading.findings, parameters, adapters.clock.now())
    return show_page(request, adapters, user, "checks.html", events=_EVENTS, view=view)


def service_page(visit: ServiceVisit) -> tuple[PagePart, ...]:
    """Return the part with the checks of a service on the hosts of its page."""
    feed, checks = visit.adapters.feed, check_adapters_of(visit.adapters)
    changes = feed.snapshot().reading.of(CHECKS_PART)
    key = ("service checks", visit.path, *visit.hosts, 0 if changes is None else changes.number)
    found = feed.read(key, lambda _session: checks.findings(visit.hosts, visit.now, visit.path))
    return service_part(found, visit.deployed)


ROUTERS = (router,)
MAIN_PAGES = (MainPage("Checks", "/checks", "c", 30, is_used=lambda reading: reading.has(CHECKS_PART)),)
