"""``/fleets``: all fleets under promotion, and the history of revisions."""

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from zkdeployment.promotion.feed import PROMOTION_PART
from zkdeployment.promotion.user_acts import RIGHT, fleet_acts, group_acts, promotion_acts
from zkdeployment.promotion.views.page import PageActs, fleets_view, revision_view
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.pages.live_page import show_page
from zkdeployment.service.views.frame import MainPage

router = APIRouter(include_in_schema=False)

ROUTERS = (router,)
MAIN_PAGES = (MainPage("Promotion", "/fleets", "f", 60, is_used=lambda reading: reading.has(PROMOTION_PART)),)


@router.get("/fleets")
def show_fleets(request: Request, adapters: Adapters, user: Reader) -> Response:
    """Return the page of all fleets."""
    cached = adapters.feed.snapshot()
    reading, acts = cached.reading.of(PROMOTION_PART), PageActs()
    if cached.connected and user.may_act(RIGHT):
        state = reading.state
        acts = PageActs(
            () if state is None else promotion_acts(state),
            acts.group if state is None else partial(group_acts, state),
            fleet_acts,
        )
    view = fleets_view(reading, adapters.clock.now(), acts)
    return show_page(request, adapters, user, "fleets.html", events="fleet promotion", cached=cached, view=view)


@router.get("/fleets/promotions/{promotion}")
def show_promotion(request: Request, adapters: Adapters, user: Reader, promotion: str) -> Response:
    """Return the page of a promotion in the history: when its revision reached which fleet."""
    cached = adapters.feed.snapshot()
    reading = cached.reading.of(PROMOTION_PART)
    entry = next((each for each in reading.history if each.id == promotion), None)
    if entry is None:
        raise HTTPException(404, f"the history has no promotion {promotion}")
    view = revision_view(reading, entry, adapters.clock.now())
    return show_page(
        request, adapters, user, "fleet_promotion.html", events="fleet promotion", cached=cached, view=view
    )
