"""``/pools/usage``: who held how many nodes when, and how long requests waited for them."""

from collections.abc import Sequence

from fastapi import APIRouter, Request
from fastapi.responses import Response

from zkdeployment.model.user import Right
from zkdeployment.pools.usage.pool_usage import SessionUse, UsageFilter, pool_usage, usage_window
from zkdeployment.web.access.rights import Tenant
from zkdeployment.web.dependencies import Adapters
from zkdeployment.web.pages.last_known import Known
from zkdeployment.web.pages.live_page import last_known, show_page
from zkdeployment.web.pool_acts import own_usage
from zkdeployment.web.views.parameters import last_value
from zkdeployment.web.views.pools.usage import usage_seconds, usage_view

router = APIRouter(include_in_schema=False)

_NO_USES: Sequence[SessionUse] = ()


@router.get("/pools/usage")
def show_usage(request: Request, adapters: Adapters, user: Tenant) -> Response:
    """Return the page of the use of pools: a tenant's own, for admins that of all tenants."""
    parameters = {name: request.query_params.getlist(name) for name in request.query_params}
    wanted = UsageFilter(last_value(parameters, "tenant") or None, last_value(parameters, "pool") or None)
    reading, now = adapters.feed.snapshot().reading.pools, adapters.pools.clock.now()
    uses = last_known(request).read(Known.USES, adapters.pools.uses, _NO_USES)
    window = usage_window(now - usage_seconds(parameters), now)
    usage = pool_usage(uses, reading.tenants, window, own_usage(user, wanted))
    shows_tenants = user.may(Right.READ_ALL_SESSIONS)
    lending = [pool.name for pool in reading.configuration.pools.values() if pool.fill_level is not None]
    view = usage_view(usage, parameters, lending, shows_tenants=shows_tenants)
    return show_page(request, adapters, user, "pool_usage.html", view=view)
