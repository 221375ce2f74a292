"""``/acts/NAME``: the forms of operators' acts, which show the effects, and the acts themselves."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from zkdeployment.errors import ZkdeploymentError
from zkdeployment.model.act import sanitize
from zkdeployment.model.commits import CommitOutcome
from zkdeployment.model.user import User
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.web.access.local_paths import local_path
from zkdeployment.web.access.rights import Operator
from zkdeployment.web.acts import check_right
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.error_responses import error_status
from zkdeployment.web.feed_progress import wait_for_reading
from zkdeployment.web.pages.acts.forms import FormFields, show_form
from zkdeployment.web.pages.acts.prepared import prepare_act
from zkdeployment.web.pages.acts.prepared_act import PreparedAct
from zkdeployment.web.planner import planner_of
from zkdeployment.web.views.links import with_job

router = APIRouter(include_in_schema=False)


@router.get("/acts/{name}")
def ask(request: Request, adapters: ConnectedAdapters, user: Operator, name: str) -> Response:
    """Return the form of an act."""
    values = dict(request.query_params)
    prepared = _require_act(request, name, values, adapters, user)
    return show_form(request, adapters, user, prepared.shown_form(user), values, back=_page_before(values))


@router.post("/acts/{name}")
def act(request: Request, adapters: ConnectedAdapters, user: Operator, name: str, values: FormFields) -> Response:
    """Perform an act, and return to the page from which the form was opened."""
    prepared = _require_act(request, name, values, adapters, user)
    back = _page_before(values)

    def show_again(status: int, mistake: str = "") -> Response:
        form = prepared.shown_form(user)
        return show_form(request, adapters, user, form, values, back=back, status=status, mistake=mistake)

    reason = sanitize(values.get("reason", ""))
    if prepared.form.objection:
        return show_again(409)
    if prepared.form.reason_required and not reason:
        return show_again(422, "The reason is missing: expected a few words for everybody who asks later.")
    before = adapters.feed.snapshot().reading.number
    try:
        outcome = prepared.perform(user, reason)
    except ZkdeploymentError as error:
        return show_again(error_status(error), str(error))
    wait_for_reading(adapters.feed, lambda reading: reading.number != before)
    if prepared.shows_job and isinstance(outcome, CommitOutcome):
        back = with_job(back, outcome.commit or "")
    return RedirectResponse(back, 303)


def _require_act(
    request: Request, name: str, values: dict[str, str], adapters: ServerAdapters, user: User
) -> PreparedAct:
    """Return the act that a form is for; answer 404 if it does not exist, and 403 if the user may not do it."""
    prepared = prepare_act(name, values, adapters, planner_of(request))
    if prepared is None:
        raise HTTPException(404, f"there is no act {name}")
    check_right(user, prepared.kind, *prepared.paths)
    return prepared


def _page_before(values: dict[str, str]) -> str:
    """Return the address of the page from which a form was opened."""
    return local_path(values.get("back", "/"))
