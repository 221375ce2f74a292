"""``/locks``: the locks of services, of roles and of the syncer."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from zkdeployment.model.user import Right
from zkdeployment.web.access.rights import Reader
from zkdeployment.web.dependencies import Adapters
from zkdeployment.web.pages.last_known import Known
from zkdeployment.web.pages.live_page import FLEET_EVENTS, last_known, show_page
from zkdeployment.web.views.locks import lock_rows

router = APIRouter(include_in_schema=False)


@router.get("/locks")
def show_locks(request: Request, adapters: Adapters, user: Reader) -> Response:
    """Return the page of the locks."""
    cached = adapters.feed.snapshot()
    may_act = cached.connected and user.may(Right.ACT_ON_FLEET)
    rows = lock_rows(
        last_known(request).read(Known.LOCKS, adapters.feed.locks, ()),
        cached.fleet.hosts,
        now=adapters.clock.now(),
        user=user if may_act else None,
    )
    return show_page(request, adapters, user, "locks.html", events=FLEET_EVENTS, rows=rows, may_act=may_act)
