"""``/checks``: the monitoring systems, and the findings of all checks."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from zkdeployment.checks.reading import CheckReading
from zkdeployment.web.access.rights import Reader
from zkdeployment.web.dependencies import Adapters
from zkdeployment.web.pages.live_page import read_or, show_page
from zkdeployment.web.views.checks import checks_view

router = APIRouter(include_in_schema=False)

#: The kinds of events after which this page is no longer current.
_EVENTS = "check publication"


@router.get("/checks")
def show_checks(request: Request, adapters: Adapters, user: Reader) -> Response:
    """Return the page that lists the checks."""
    reading, query = read_or(adapters.feed.checks, CheckReading()), request.query_params
    parameters = {name: query.getlist(name) for name in query}
    view = checks_view(reading.summary, reading.findings, parameters, adapters.clock.now())
    return show_page(request, adapters, user, "checks.html", events=_EVENTS, view=view)
