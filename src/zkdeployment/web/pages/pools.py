"""``/pools``: the levels of pools, who has which nodes until when, and all nodes."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from zkdeployment.model.user import Right
from zkdeployment.pools.tenant_session import TenantSession
from zkdeployment.web.access.rights import PoolReader
from zkdeployment.web.dependencies import Adapters
from zkdeployment.web.pages.last_known import Known
from zkdeployment.web.pages.live_page import last_known, show_page
from zkdeployment.web.views.parameters import last_value, page_number
from zkdeployment.web.views.pools.notice import request_notice
from zkdeployment.web.views.pools.page import pools_view

router = APIRouter(include_in_schema=False)

#: The kinds of events after which this page is no longer current.
_EVENTS = "pool node session"

_NO_SESSIONS: tuple[TenantSession, ...] = ()


@router.get("/pools")
def show_pools(request: Request, adapters: Adapters, user: PoolReader) -> Response:
    """Return the page of pools."""
    cached = adapters.feed.snapshot()
    parameters = {name: request.query_params.getlist(name) for name in request.query_params}
    ended = last_known(request).read(Known.SESSIONS, adapters.feed.ended_sessions, _NO_SESSIONS)
    reading, now = cached.reading.pools, adapters.clock.now()
    view = pools_view(reading, ended, user, parameters, now, connected=cached.connected)
    notice = None
    if last_value(parameters, "session"):
        number = page_number(parameters, "session")
        failure = request.app.state.page_requests.failure(number, user)
        notice = request_notice(number, reading, user, failure)
    return show_page(
        request,
        adapters,
        user,
        "pools.html",
        events=_EVENTS,
        view=view,
        notice=notice,
        may_read_fleet=user.may(Right.READ_FLEET),
    )
