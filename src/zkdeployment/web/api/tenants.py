"""``/api/v1/tenants``: the users who are tenants, as in Duffy 3."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path

from zkdeployment.model.user import NewUser, Right, Role, TenantLimits, User
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.web import pool_acts
from zkdeployment.web.access.rights import Tenant, require
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.models.tenants import (
    ChangedTenantBody,
    ChangedTenantResult,
    NewTenantBody,
    NewTenantResult,
    TenantBody,
    TenantChange,
    TenantOrder,
    TenantResult,
    TenantsResult,
)

router = APIRouter(prefix="/api/v1/tenants", tags=["tenants"], responses=ERRORS)

UserManager = Annotated[User, Depends(require(Right.MANAGE_USERS))]
TenantId = Annotated[int, Path(description="The id of a tenant.")]


@router.get("")
def list_tenants(adapters: ConnectedAdapters, user: Tenant) -> TenantsResult:
    """Return the tenant who asks; admins get all tenants, retired ones included."""
    shown = pool_acts.tenants(adapters).values() if user.may(Right.MANAGE_USERS) else [user]
    defaults = _defaults(adapters)
    return TenantsResult(tenants=[TenantBody.of(tenant, defaults) for tenant in shown])


@router.get("/{number}")
def show_tenant(adapters: ConnectedAdapters, user: Tenant, number: TenantId) -> TenantResult:
    """Return a tenant; 403 for other tenants than the one who asks, except for admins."""
    return TenantResult(tenant=TenantBody.of(pool_acts.find_tenant(adapters, user, number), _defaults(adapters)))


@router.post("", status_code=201)
def create_tenant(adapters: ConnectedAdapters, user: UserManager, order: TenantOrder) -> NewTenantResult:
    """Add a tenant, and return its API key, which is shown only once; 409 if the name is or was in use."""
    new = NewUser(
        name=order.name,
        role=Role.ADMIN if order.is_admin else Role.TENANT,
        ssh_key=order.ssh_key.get_secret_value(),
        node_quota=order.node_quota,
        session_lifetime=order.session_lifetime,
        session_lifetime_max=order.session_lifetime_max,
    )
    issued = pool_acts.add_tenant(adapters, user, new)
    return NewTenantResult(tenant=NewTenantBody.created(issued, _defaults(adapters)))


@router.put("/{number}")
def change_tenant(
    adapters: ConnectedAdapters, user: Tenant, number: TenantId, change: TenantChange
) -> ChangedTenantResult:
    """Give a tenant other values or another API key, or retire it (`active: false`); only admins may.

    The sessions of a tenant end when it is retired. A retired tenant stays retired.
    """
    defaults = _defaults(adapters)
    if change.active is False:
        retired = pool_acts.end_tenant(adapters, user, number)
        return ChangedTenantResult(tenant=ChangedTenantBody.retired(retired, defaults))
    if change.active:
        tenant = pool_acts.find_active_tenant(adapters, user, number)
        return ChangedTenantResult(tenant=ChangedTenantBody.retired(tenant, defaults))
    values = change.limits()
    if change.ssh_key is not None:
        values["ssh_key"] = change.ssh_key.get_secret_value()
    given = None if change.api_key in {None, "reset"} else str(change.api_key)
    changed, made = pool_acts.change_tenant(
        adapters, user, number, values, resets_key=change.api_key == "reset", key=given
    )
    return ChangedTenantResult(tenant=ChangedTenantBody.changed(changed, defaults, made))


def _defaults(adapters: ServerAdapters) -> TenantLimits:
    return adapters.pools.store.configuration().defaults
