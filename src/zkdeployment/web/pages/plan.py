"""``/plan``: what hosts would do if a branch or a commit were published."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from zkdeployment.errors import SourceError, TreeError
from zkdeployment.web.access.rights import Reader
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.pages.live_page import show_page
from zkdeployment.web.planner import planner_of
from zkdeployment.web.views.plan import plan_view, refused_plan

router = APIRouter(include_in_schema=False)

#: The longest name of a branch that is read.
_MOST_CHARACTERS = 200


@router.get("/plan")
def show_plan(
    request: Request,
    adapters: ConnectedAdapters,
    user: Reader,
    revision: Annotated[str, Query(max_length=_MOST_CHARACTERS)] = "",
) -> Response:
    """Return the page with the plan of a branch or a commit, or with the form that asks for one."""
    revision, view, mistake, status = revision.strip(), None, "", 200
    if adapters.read_revision is None:
        mistake = "The service knows no repository: expected url and tree-directory in [sync]."
    elif revision:
        try:
            prediction, checks = planner_of(request).plan(adapters, revision)
            view = plan_view(prediction.forecast, prediction.warnings, prediction.packages, checks)
        except TreeError as error:
            view = refused_plan(str(error))
        except SourceError as error:
            mistake, status = str(error), 404
    return show_page(
        request, adapters, user, "plan.html", status=status, revision=revision, view=view, mistake=mistake
    )
