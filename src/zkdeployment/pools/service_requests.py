"""Tenants, sessions and nodes of pools, as the API and the pages read and change them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import (
    BusyError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    RetiredError,
    TreeError,
    WaitTimeoutError,
    ZkdeploymentError,
)
from zkdeployment.base.log import get_logger
from zkdeployment.pools.acts.sessions import SessionDetails, request_session
from zkdeployment.pools.opening import PoolAdapters, pool_adapters_of
from zkdeployment.pools.rules.queue import RequestRefusal
from zkdeployment.service.act import Actor
from zkdeployment.service.users.user import Right, Role, User

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.pools.documents import NodePool, PoolConfiguration
    from zkdeployment.pools.rules.snapshot import NodesSpec, TenantSession
    from zkdeployment.pools.rules.usage import UsageFilter
    from zkdeployment.service.dependencies import ServerAdapters


def lending_pool(configuration: PoolConfiguration, name: str) -> NodePool:
    """Return a pool that lends nodes; raises ``NotFoundError``, and ``TreeError`` for a pool without a level."""
    pool = configuration.pools.get(name)
    if pool is None:
        known = ", ".join(sorted(configuration.pools)) or "none"
        raise NotFoundError(f"there is no pool {name!a}; the pools are: {known}")
    if not pool.lends:
        raise TreeError(f"the pool {name} lends no nodes: it has no fill-level")
    return pool


def tenants(adapters: ServerAdapters) -> dict[int, User]:
    """Return all users that are tenants, by id, retired ones included."""
    return {user.id: user for user in adapters.users.users() if user.is_tenant}


def owners(adapters: ServerAdapters, sessions: Iterable[TenantSession]) -> dict[int, User]:
    """Return the owners of sessions, by id, with any present roles.

    A user whose record can no longer be read is shown as retired.
    """
    users = {user.id: user for user in adapters.users.users()}
    return {
        session.tenant: users.get(session.tenant)
        or User(id=session.tenant, name="unknown", role=Role.TENANT, created_at=0.0, retired_at=0.0)
        for session in sessions
    }


def own_usage(user: User, wanted: UsageFilter) -> UsageFilter:
    """Return a filter limited to the use of pools that a user may see: a tenant's own use, for admins all use.

    Raises ``ForbiddenError`` if a tenant requests the use of another tenant.
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
    return request_session(owner, specs, pool_adapters_of(adapters), by=user.name, ssh_key=ssh_key)


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
    """Change values of a tenant; return the tenant, and its new key if ``resets_key``.

    ``key`` is a key that the admin chose. Raises what ``find_active_tenant`` raises.
    """
    tenant = find_active_tenant(adapters, user, number)
    if changes:
        act = Actor.of_user(adapters, user).note(f"change user {tenant}: {', '.join(sorted(changes))}")
        tenant = adapters.users.update(tenant.name, lambda present: replace(present, **changes), act)
    if not resets_key and key is None:
        return tenant, None
    act = Actor.of_user(adapters, user).note(f"reset the key of user {tenant}")
    issued = adapters.users.reset_key(tenant.name, act, key=key)
    return issued.user, issued.key if resets_key else None


#: Seconds to wait for a reservation; the preparation of the nodes takes longer.
_RESERVED = 20.0

#: Requests that wait for a reservation at a time; further ones are refused.
_AT_ONCE = 8

#: The limit of remembered failed requests.
_REMEMBERED = 500


class SessionRequests:
    """The requests that this process has begun.

    A failed request is remembered with the reason, to be shown to the tenant. All methods may be called from any
    thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self._failures: OrderedDict[tuple[int, int], str] = OrderedDict()  # by session and tenant

    def begin(self, tenant: User, specs: tuple[NodesSpec, ...], adapters: PoolAdapters) -> int:
        """Return the id of the session as soon as its nodes are reserved.

        Raises ``RefusedError`` if no nodes can be reserved, and ``BusyError`` if too many requests wait.
        """
        if not self._places.acquire(blocking=False):
            raise BusyError("the service is busy with other requests for sessions; try again")
        reserved: Future[int] = Future()
        work = threading.Thread(
            target=self._follow, args=(reserved, tenant, specs, adapters), name="session-request", daemon=True
        )
        try:
            work.start()
            return reserved.result(_RESERVED)
        except TimeoutError as error:
            raise WaitTimeoutError(
                f"no nodes were reserved within {_RESERVED:g} s; the list of sessions shows whether they are later"
            ) from error
        finally:
            self._places.release()

    def failure(self, number: int, tenant: User) -> str:
        """Return the reason why a session of a tenant did not begin; empty if unknown."""
        with self._lock:
            return self._failures.get((number, tenant.id), "")

    def _follow(
        self, reserved: Future[int], tenant: User, specs: tuple[NodesSpec, ...], adapters: PoolAdapters
    ) -> None:
        """Request a session, and wait until it has begun or failed; ``reserved`` becomes its id."""

        def note(details: SessionDetails) -> None:
            if not reserved.done():
                reserved.set_result(details.session.id)

        failure = ""
        try:
            outcome = request_session(tenant, specs, adapters, by=tenant.name, progress=note)
            if isinstance(outcome, RequestRefusal):
                failure = outcome.message
            else:
                note(outcome)
        except ZkdeploymentError as error:
            failure = str(error)
        except Exception:  # noqa: BLE001  the tenant gets an answer in any case
            get_logger().exception("session-request-failed")
            failure = "the service failed; its log has the details"
        if failure and not reserved.done():
            reserved.set_exception(RefusedError(failure))
        elif failure:
            with self._lock:
                self._failures[reserved.result(), tenant.id] = failure
                while len(self._failures) > _REMEMBERED:
                    self._failures.popitem(last=False)


def service_state() -> dict[str, SessionRequests]:
    """Return the requests for sessions that the service remembers for its pages."""
    return {"page_requests": SessionRequests()}
