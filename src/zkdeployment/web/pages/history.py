"""``/history`` and ``/history/SEQUENCE``: the publications and their outcome."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from zkdeployment.errors import SourceError
from zkdeployment.model.cluster import Revision
from zkdeployment.model.user import ActKind
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.web.access.rights import Reader
from zkdeployment.web.dependencies import Adapters
from zkdeployment.web.pages.live_page import RECENT, read_or, show_page
from zkdeployment.web.planner import planner_of
from zkdeployment.web.views.history import (
    PAGE_SIZE,
    TreeDifference,
    history_view,
    previous_record,
    publication_view,
)

router = APIRouter(include_in_schema=False)

PageNumber = Annotated[int, Query(ge=1, le=1000)]


@router.get("/history")
def show_history(request: Request, adapters: Adapters, user: Reader, page: PageNumber = 1) -> Response:
    """Return the page that lists the publications, newest first."""
    records = adapters.feed.history(page * PAGE_SIZE + 1)
    view = history_view(records, page, adapters.clock.now())
    return show_page(request, adapters, user, "history.html", events="publication host", view=view)


@router.get("/history/{sequence}")
def show_publication(
    request: Request,
    adapters: Adapters,
    user: Reader,
    sequence: Annotated[int, Path(ge=0, lt=2**53)],
    page: PageNumber = 1,
    changes: str = "",
) -> Response:
    """Return the page of one publication; ``changes`` asks for what it changed in the tree."""
    feed = adapters.feed
    records = feed.publication(sequence)
    if not records:
        raise HTTPException(404, f"the history has no publication {sequence}")
    before = previous_record(read_or(lambda: feed.history(RECENT), ()), sequence)
    difference = None
    if changes and before is not None:
        difference = _difference(request, adapters, before.revision, records[-1].revision)
    view = publication_view(
        records,
        records[-1],
        feed.acts(),
        feed.rollouts(sequence),
        difference,
        page=page,
        now=adapters.clock.now(),
        may_roll_back=adapters.commits is not None
        and user.may_act(ActKind.ROLL_BACK)
        and isinstance(records[-1].revision, str),
        may_compare=adapters.read_revision is not None and before is not None,
    )
    return show_page(request, adapters, user, "publication.html", events="publication host", view=view)


def _difference(request: Request, adapters: ServerAdapters, before: Revision, after: Revision) -> TreeDifference:
    try:
        return TreeDifference(planner_of(request).changes(adapters, before, after))
    except SourceError as error:
        return TreeDifference(unknown=str(error))
