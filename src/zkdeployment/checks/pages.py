"""``/checks``: the monitoring systems, and the findings of all checks."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from zkdeployment.checks.feed import check_reading_of
from zkdeployment.checks.rules.findings import CheckReading
from zkdeployment.checks.views.page import checks_view
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.pages.live_page import read_or, show_page

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


ROUTERS = (router,)
