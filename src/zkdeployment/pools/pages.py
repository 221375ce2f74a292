"""``/pools`` and ``/pools/acts/NAME``: the page of pools, and the forms of acts on them."""

from collections.abc import Sequence
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response

from zkdeployment.pools.feed import POOLS_PART, ended_sessions, pools_of
from zkdeployment.pools.opening import pool_adapters_of
from zkdeployment.pools.rules.snapshot import TenantSession
from zkdeployment.pools.rules.usage import SessionUse, UsageFilter, pool_usage, usage_window
from zkdeployment.pools.service_requests import own_usage
from zkdeployment.pools.user_acts import ACTS
from zkdeployment.pools.views.page import PAGE, pools_view, request_notice
from zkdeployment.pools.views.usage import usage_seconds, usage_view
from zkdeployment.service.access.identity import PoolReader, Tenant
from zkdeployment.service.act_routes import forms
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.pages.live_page import Known, last_known, show_page
from zkdeployment.service.users.user import Right
from zkdeployment.service.views.frame import MainPage, last_value, page_number

router = APIRouter(include_in_schema=False)

#: The kinds of events after which this page is no longer current.
_EVENTS = "pool node session"

_NO_SESSIONS: tuple[TenantSession, ...] = ()


@router.get("/pools")
def show_pools(request: Request, adapters: Adapters, user: PoolReader) -> Response:
    """Return the page of pools."""
    cached = adapters.feed.snapshot()
    parameters = {name: request.query_params.getlist(name) for name in request.query_params}
    ended = last_known(request).read(Known.SESSIONS, partial(ended_sessions, adapters.feed), _NO_SESSIONS)
    reading, now = cached.reading.of(POOLS_PART), adapters.clock.now()
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
        cached=cached,
        view=view,
        notice=notice,
        may_read_fleet=user.may(Right.READ_FLEET),
    )


usage_router = APIRouter(include_in_schema=False)

_NO_USES: Sequence[SessionUse] = ()


@usage_router.get("/pools/usage")
def show_usage(request: Request, adapters: Adapters, user: Tenant) -> Response:
    """Return the page of the use of pools: a tenant's own, for admins that of all tenants."""
    parameters = {name: request.query_params.getlist(name) for name in request.query_params}
    wanted = UsageFilter(last_value(parameters, "tenant") or None, last_value(parameters, "pool") or None)
    reading, now = pools_of(adapters.feed), pool_adapters_of(adapters).clock.now()
    uses = last_known(request).read(Known.USES, pool_adapters_of(adapters).uses, _NO_USES)
    window = usage_window(now - usage_seconds(parameters), now)
    usage = pool_usage(uses, reading.tenants, window, own_usage(user, wanted))
    shows_tenants = user.may(Right.READ_ALL_SESSIONS)
    lending = [pool.name for pool in reading.configuration.pools.values() if pool.lends]
    view = usage_view(usage, parameters, lending, shows_tenants=shows_tenants)
    return show_page(request, adapters, user, "pool_usage.html", view=view)


acts_router = forms(f"{PAGE}/acts", Tenant, lambda: ACTS, back=PAGE)


ROUTERS = (router, usage_router, acts_router)
MAIN_PAGES = (
    MainPage("Pools", "/pools", "p", 40, Right.READ_POOLS, lambda reading: reading.of(POOLS_PART).is_used),
)
