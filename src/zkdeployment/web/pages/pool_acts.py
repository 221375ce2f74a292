"""``/pools/acts/NAME``: the forms of acts on pools, which show the effects, and the acts themselves."""

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
from zkdeployment.web.pages.form_fields import FormFields
from zkdeployment.web.pages.live_page import show_page
from zkdeployment.web.pages.prepared_pool_acts import PreparedPoolAct, prepare_pool_act
from zkdeployment.web.views.pools.links import PAGE

router = APIRouter(include_in_schema=False)


@router.get("/pools/acts/{name}")
def ask(request: Request, adapters: ConnectedAdapters, user: Tenant, name: str) -> Response:
    """Return the form of an act."""
    values = dict(request.query_params)
    return _show(request, adapters, user, _require_act(request, name, values, adapters, user), values)


@router.post("/pools/acts/{name}")
def act(request: Request, adapters: ConnectedAdapters, user: Tenant, name: str, values: FormFields) -> Response:
    """Perform an act, and return to the page of pools."""
    prepared = _require_act(request, name, values, adapters, user)
    if prepared.form.objection:
        return _show(request, adapters, user, prepared, values, status=409)
    before = adapters.feed.snapshot().reading.number
    try:
        target = prepared.perform(sanitize(values.get("reason", "")))
    except ZkdeploymentError as error:
        return _show(request, adapters, user, prepared, values, status=error_status(error), mistake=str(error))
    wait_for_reading(adapters.feed, lambda reading: reading.number != before)
    return RedirectResponse(target, 303)


def _require_act(
    request: Request, name: str, values: dict[str, str], adapters: ServerAdapters, user: User
) -> PreparedPoolAct:
    """Return the act that a form is for; answer 404 if there is none, and 403 if the user may not do it."""
    prepared = prepare_pool_act(name, values, adapters, user, request.app.state.page_requests)
    if prepared is None:
        raise HTTPException(404, f"there is no act {name}")
    return prepared


def _show(  # noqa: PLR0913  what the page of a form is made of
    request: Request,
    adapters: ServerAdapters,
    user: User,
    prepared: PreparedPoolAct,
    values: dict[str, str],
    *,
    status: int = 200,
    mistake: str = "",
) -> Response:
    return show_page(
        request,
        adapters,
        user,
        "act.html",
        status=status,
        form=prepared.form,
        action=request.url.path,
        back=PAGE,
        given=values,
        reason=values.get("reason", ""),
        mistake=mistake,
    )
