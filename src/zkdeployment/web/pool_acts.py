"""Tenants, sessions and nodes of pools, as the API and the pages read and change them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.acts.pools.sessions import (
    SessionActor,
    SessionDetails,
    extend_session,
    find_active_session,
    request_session,
    retire_session,
)
from zkdeployment.acts.pools.tenants import retire_tenant
from zkdeployment.errors import ForbiddenError, NotFoundError, RetiredError, TreeError
from zkdeployment.model.user import Right, Role, User
from zkdeployment.web.acts import new_act

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.documents.pools.values import NodePool, PoolConfiguration
    from zkdeployment.model.user import IssuedKey, NewUser
    from zkdeployment.pools.reservation import RequestRefusal
    from zkdeployment.pools.tenant_session import NodesSpec, TenantSession
    from zkdeployment.pools.usage.pool_usage import UsageFilter
    from zkdeployment.ports.server import ServerAdapters


def actor(user: User) -> SessionActor:
    """Return a user as one who asks for sessions: a tenant asks for its own ones, an admin for all."""
    return SessionActor(user.name, None if user.may(Right.MANAGE_POOLS) else user.id)


def lending_pool(configuration: PoolConfiguration, name: str) -> NodePool:
    """Return a pool that lends nodes; raises ``NotFoundError``, and ``TreeError`` for a pool without a level."""
    pool = configuration.pools.get(name)
    if pool is None:
        known = ", ".join(sorted(configuration.pools)) or "none"
        raise NotFoundError(f"there is no pool {name!a}; the pools are: {known}")
    if pool.fill_level is None:
        raise TreeError(f"the pool {name} lends no nodes: it has no fill-level")
    return pool


def tenants(adapters: ServerAdapters) -> dict[int, User]:
    """Return all users that are tenants, by id, retired ones included."""
    return {user.id: user for user in adapters.users.users() if user.is_tenant}


def owners(adapters: ServerAdapters, sessions: Iterable[TenantSession]) -> dict[int, User]:
    """Return the users whose sessions these are, by id, whatever their roles are now.

    A user whose record cannot be read any more is shown as retired.
    """
    users = {user.id: user for user in adapters.users.users()}
    return {
        session.tenant: users.get(session.tenant)
        or User(id=session.tenant, name="unknown", role=Role.TENANT, created_at=0.0, retired_at=0.0)
        for session in sessions
    }


def own_usage(user: User, wanted: UsageFilter) -> UsageFilter:
    """Return a filter limited to the use of pools that a user may see: a tenant's own, for admins all.

    Raises ``ForbiddenError`` if a tenant asks for another one's.
    """
    if user.may(Right.READ_ALL_SESSIONS):
        return wanted
    if wanted.tenant not in {None, user.name}:
        raise ForbiddenError(
            f"the user {user} may not {Right.READ_ALL_SESSIONS.value}: its role is {user.role.value}; leave the"
            f" parameter tenant out, or set it to {user}"
        )
    return replace(wanted, tenant=user.name)


def find_tenant(adapters: ServerAdapters, user: User, number: int) -> User:
    """Return a tenant that a user may see; raises ``NotFoundError`` and ``ForbiddenError``."""
    found = tenants(adapters).get(number)
    if found is None:
        raise NotFoundError(f"there is no tenant {number}; expected the id of a user who is a tenant or an admin")
    if found.id != user.id and not user.may(Right.MANAGE_USERS):
        raise ForbiddenError(f"the user {user} may not see the tenant {number}")
    return found


def order_session(
    adapters: ServerAdapters,
    user: User,
    specs: tuple[NodesSpec, ...],
    tenant: int | None,
    ssh_key: str | None = None,
) -> SessionDetails | RequestRefusal:
    """Request a session, of another tenant if an admin requests it; blocks until the session begins or is refused.

    ``ssh_key`` are the public keys for this session; ``None``: those of the tenant.
    """
    owner = user
    if tenant not in {None, user.id}:
        if not user.may(Right.MANAGE_POOLS):
            raise ForbiddenError("can't create session for other tenant")
        found = tenants(adapters).get(tenant or 0)
        if found is None:
            raise TreeError(f"can't find tenant with id {tenant}")
        owner = found
    return request_session(owner, specs, adapters.pools, by=user.name, ssh_key=ssh_key)


def change_session(
    adapters: ServerAdapters,
    user: User,
    number: int,
    *,
    ends: bool,
    until: float | None = None,
    delta: float | None = None,
) -> SessionDetails:
    """Change the end of a session, or end it, and return it; raises what ``find_active_session`` raises."""
    details = find_active_session(number, adapters.pools, actor(user))
    if until is not None or delta is not None:
        details = extend_session(number, adapters.pools, actor(user), until=until, delta=delta or 0.0)
    return retire_session(number, adapters.pools, actor(user)) if ends else details


def add_tenant(adapters: ServerAdapters, user: User, new: NewUser) -> IssuedKey:
    """Add a tenant; raises ``RefusedError`` if there is, or was, a user of this name."""
    return adapters.users.add(new, new_act(adapters, user, f"add user {new.name} ({new.role.value})", ""))


def end_tenant(adapters: ServerAdapters, user: User, number: int) -> User:
    """Retire a tenant, whose sessions end at once; raises what ``find_active_tenant`` raises."""
    tenant = find_active_tenant(adapters, user, number)
    act = new_act(adapters, user, f"retire user {tenant}", "")
    return retire_tenant(tenant, adapters.users, adapters.pools, act)


def find_active_tenant(adapters: ServerAdapters, user: User, number: int) -> User:
    """Return a tenant; raises ``NotFoundError``, ``ForbiddenError`` and, if it is retired, ``RetiredError``."""
    tenant = find_tenant(adapters, user, number)
    if not user.may(Right.MANAGE_USERS):
        raise ForbiddenError(f"the user {user} may not {Right.MANAGE_USERS.value}: its role is {user.role.value}")
    if tenant.is_retired:
        raise RetiredError(f"tenant {tenant} (id={number}) is retired")
    return tenant


def change_tenant(
    adapters: ServerAdapters,
    user: User,
    number: int,
    changes: dict[str, Any],
    *,
    resets_key: bool = False,
    key: str | None = None,
) -> tuple[User, str | None]:
    """Give a tenant other values; return it, and the key that was made for it if ``resets_key``.

    ``key`` is a key that the admin chose. Raises what ``find_active_tenant`` raises.
    """
    tenant = find_active_tenant(adapters, user, number)
    if changes:
        act = new_act(adapters, user, f"change user {tenant}: {', '.join(sorted(changes))}", "")
        tenant = adapters.users.update(tenant.name, lambda present: replace(present, **changes), act)
    if not resets_key and key is None:
        return tenant, None
    act = new_act(adapters, user, f"reset the key of user {tenant}", "")
    issued = adapters.users.reset_key(tenant.name, act, key=key)
    return issued.user, issued.key if resets_key else None
