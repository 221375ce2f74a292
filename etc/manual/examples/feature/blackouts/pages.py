"""``/blackouts``: the page of the published blackouts."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from blackouts.documents import BLACKOUT
from zkdeployment.publishing.store.documents import read_published_documents
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.pages.live_page import show_page
from zkdeployment.service.views.frame import MainPage

router = APIRouter(include_in_schema=False)


@router.get("/blackouts")
def show_blackouts(request: Request, adapters: Adapters, user: Reader) -> Response:
    """Return the page of the published blackouts."""
    published = read_published_documents(adapters.operator.session, [BLACKOUT.name]).of(BLACKOUT)
    return show_page(request, adapters, user, "blackouts.html", blackouts=[*published.values()])


ROUTERS = (router,)
MAIN_PAGES = (MainPage("Blackouts", "/blackouts", "b", 65),)
