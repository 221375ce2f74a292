"""``/fleets``: all fleets under promotion, and the history of revisions."""

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from zkdeployment.fleet.feed.fleet_assembly import CachedFleet
from zkdeployment.promotion.feed import PROMOTION_PART
from zkdeployment.promotion.user_acts import RIGHT, commit_acts, fleet_acts, group_acts, promotion_acts
from zkdeployment.promotion.views.page import PageActs, fleets_view, revision_view
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.pages.live_page import show_page
from zkdeployment.service.users.user import User
from zkdeployment.service.views.frame import MainPage

router = APIRouter(include_in_schema=False)

ROUTERS = (router,)
MAIN_PAGES = (MainPage("Promotion", "/fleets", "f", 60, is_used=lambda reading: reading.has(PROMOTION_PART)),)


@router.get("/fleets")
def show_fleets(request: Request, adapters: Adapters, user: Reader) -> Response:
    """Return the page of all fleets."""
    cached = adapters.feed.snapshot()
    reading = cached.reading.of(PROMOTION_PART)
    view = fleets_view(reading, adapters.clock.now(), _acts(cached, user))
    return show_page(request, adapters, user, "fleets.html", events="fleet promotion", cached=cached, view=view)


def _acts(cached: CachedFleet, user: User) -> PageActs:
    """Return the acts that a user may perform now."""
    reading = cached.reading.of(PROMOTION_PART)
    if not (cached.connected and user.may_act(RIGHT)):
        return PageActs()
    state = reading.state
    return PageActs(
        promotion_acts(reading),
        PageActs().group if state is None else partial(group_acts, state),
        fleet_acts,
        partial(commit_acts, reading),
    )


@router.get("/fleets/promotions/{promotion}")
def show_promotion(request: Request, adapters: Adapters, user: Reader, promotion: str) -> Response:
    """Return the page of a promotion in the history: when its revision reached which fleet."""
    cached = adapters.feed.snapshot()
    reading = cached.reading.of(PROMOTION_PART)
    entry = next((each for each in reading.history if each.id == promotion), None)
    if entry is None:
        raise HTTPException(404, f"the history has no promotion {promotion}")
    view = revision_view(reading, entry, adapters.clock.now(), _acts(cached, user))
    return show_page(
        request, adapters, user, "fleet_promotion.html", events="fleet promotion", cached=cached, view=view
    )
