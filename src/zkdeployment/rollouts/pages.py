"""``/rollout``: the rollout of the published revision."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from zkdeployment.rollouts.acts import DirectRollout
from zkdeployment.rollouts.views import rollout_view
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.pages.live_page import retry_acts, show_page
from zkdeployment.service.views.frame import MainPage

router = APIRouter(include_in_schema=False)


@router.get("/rollout")
def show_rollout(request: Request, adapters: Adapters, user: Reader) -> Response:
    """Return the page of the rollout."""
    cached = adapters.feed.snapshot()
    may_act = cached.connected and user.may_act(DirectRollout.RIGHT)
    view = rollout_view(cached.fleet, cached.status, now=adapters.clock.now(), may_act=may_act)
    return show_page(
        request,
        adapters,
        user,
        "rollout.html",
        events="rollout publication stop",
        cached=cached,
        view=view,
        remedies=retry_acts(request, user, cached),
    )


ROUTERS = (router,)
MAIN_PAGES = (
    MainPage("Rollout", "/rollout", "r", 50, is_used=lambda reading: reading.fleet.strategy is not None),
)
