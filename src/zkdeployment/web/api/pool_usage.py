"""``GET /api/v1/pool-usage``: how many nodes each tenant held, and how long its requests waited."""

from typing import Annotated

from fastapi import APIRouter, Query

from zkdeployment.pools.usage.pool_usage import UsageFilter, pool_usage, usage_window
from zkdeployment.web.access.rights import Tenant
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.models.leasing import Lifetime
from zkdeployment.web.models.pool_usage import PoolUsageAnswer
from zkdeployment.web.pool_acts import own_usage

router = APIRouter(prefix="/api/v1", tags=["pools"], responses=ERRORS)

_MONTH = 30 * 86400.0


@router.get("/pool-usage")
def show_pool_usage(
    adapters: ConnectedAdapters,
    user: Tenant,
    since: Annotated[
        Lifetime,
        Query(description="The time before now: seconds, or a duration such as 7d. A year at most counts."),
    ] = _MONTH,
    tenant: Annotated[str | None, Query(max_length=255, description="Only this tenant, by its name.")] = None,
    pool: Annotated[str | None, Query(max_length=255, description="Only this pool.")] = None,
) -> PoolUsageAnswer:
    """Return the use of pools by tenant and pool, the largest first: a tenant's own, for admins all."""
    wanted = own_usage(user, UsageFilter(tenant, pool))
    uses, names = adapters.pools.uses(), {owner.id: owner.name for owner in adapters.users.users()}
    now = adapters.pools.clock.now()
    return PoolUsageAnswer.of(pool_usage(uses, names, usage_window(now - since, now), wanted))
