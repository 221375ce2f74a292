"""``/pools/acts/NAME``: the forms of acts on pools, which show the effects, and the acts themselves."""

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from zkdeployment.errors import ZkdeploymentError
from zkdeployment.model.act import sanitize
from zkdeployment.model.user import User
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.web.access.rights import Tenant
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.error_responses import error_status
from zkdeployment.web.feed_progress import wait_for_reading
from zkdeployment.web.pages.acts.forms import FormFields, show_form
from zkdeployment.web.pages.acts.prepared_pools import PreparedPoolAct, prepare_pool_act
from zkdeployment.web.views.pools.links import PAGE

router = APIRouter(include_in_schema=False)


@router.get("/pools/acts/{name}")
def ask(request: Request, adapters: ConnectedAdapters, user: Tenant, name: str) -> Response:
    """Return the form of an act."""
    values = dict(request.query_params)
    prepared = _require_act(request, name, values, adapters, user)
    return show_form(request, adapters, user, prepared.form, values, back=PAGE)


@router.post("/pools/acts/{name}")
def act(request: Request, adapters: ConnectedAdapters, user: Tenant, name: str, values: FormFields) -> Response:
    """Perform an act, and return to the page of pools."""
    prepared = _require_act(request, name, values, adapters, user)
    show_again = partial(show_form, request, adapters, user, prepared.form, values, back=PAGE)
    if prepared.form.objection:
        return show_again(status=409)
    before = adapters.feed.snapshot().reading.number
    try:
        target = prepared.perform(sanitize(values.get("reason", "")))
    except ZkdeploymentError as error:
        return show_again(status=error_status(error), mistake=str(error))
    wait_for_reading(adapters.feed, lambda reading: reading.number != before)
    return RedirectResponse(target, 303)


def _require_act(
    request: Request, name: str, values: dict[str, str], adapters: ServerAdapters, user: User
) -> PreparedPoolAct:
    """Return the act that a form is for; answer 404 if it does not exist, and 403 if the user may not do it."""
    prepared = prepare_pool_act(name, values, adapters, user, request.app.state.page_requests)
    if prepared is None:
        raise HTTPException(404, f"there is no act {name}")
    return prepared
