"""Sessions of tenants: how verbs, the service and its pages request, extend and end them.

A request reserves nodes and waits until a worker has prepared them. A requester that dies changes nothing: the
worker continues, and the tenant finds the session in the list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.acts.pools.await_worker import await_worker
from zkdeployment.acts.pools.reserving import reserve_nodes
from zkdeployment.errors import ConflictError, ForbiddenError, NotFoundError, RetiredError
from zkdeployment.model.act import Act
from zkdeployment.pools.reservation import RequestProblem, RequestRefusal, SessionRequest
from zkdeployment.pools.snapshot import PoolChange
from zkdeployment.pools.tenant_session import effective_limits, new_expiry, retire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zkdeployment.model.user import User
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.snapshot import PoolSnapshot
    from zkdeployment.pools.tenant_session import NodesSpec, TenantSession
    from zkdeployment.ports.pools import PoolAdapters

#: Attempts to change a session while others change it.
_ATTEMPTS = 20

#: Attempts of a request with other nodes after some have failed: a request must not use up a whole pool.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class SessionActor:
    """Who asks for a session: a user of the service, or an operator (``USER@HOST``).

    ``tenant`` is the id of the tenant whose sessions alone the actor may see and change; ``None``: all sessions.
    """

    by: str
    tenant: int | None = None


@dataclass(frozen=True, slots=True)
class SessionDetails:
    """A session, and the present state of its nodes."""

    session: TenantSession
    nodes: tuple[PoolNode, ...]


def find_session(number: int, adapters: PoolAdapters, actor: SessionActor) -> SessionDetails:
    """Return a session with its nodes, whether or not it has ended.

    Raises ``NotFoundError`` if it does not exist, and ``ForbiddenError`` if it is another tenant's.
    """
    session = adapters.store.session(number)
    if session is None:
        raise NotFoundError(f"there is no session {number}; expected the id of a session, as lists show it")
    if actor.tenant not in {None, session.tenant}:
        raise ForbiddenError(f"session {number} belongs to another tenant")
    return SessionDetails(session, _nodes(session, adapters))


def find_active_session(number: int, adapters: PoolAdapters, actor: SessionActor) -> SessionDetails:
    """Return a session that has not ended; raises what ``find_session`` raises, and ``RetiredError``."""
    details = find_session(number, adapters, actor)
    if not details.session.is_active:
        raise RetiredError(f"session {number} is retired")
    return details


def request_session(
    tenant: User,
    specs: tuple[NodesSpec, ...],
    adapters: PoolAdapters,
    *,
    by: str,
    ssh_key: str | None = None,
    progress: Callable[[SessionDetails], object] = lambda _: None,
) -> SessionDetails | RequestRefusal:
    """Return the session of a tenant when a worker has prepared its nodes, or the reason why it did not begin.

    If nodes fail, the request is tried again with other ready nodes. ``ssh_key`` are valid public keys, one in
    each line, that the nodes admit instead of the tenant's.

    ``progress`` is called with the reservation, and again at least once a second while the nodes are prepared. If
    no worker takes the nodes, the reservation is undone. Raises ``WaitTimeoutError`` if a worker works on the
    nodes for too long; the session may begin later then. Raises ``UnreachableError`` if it is not known whether
    there is a session; its list shows that later.
    """
    request = SessionRequest(0, tenant, specs, 0, by, ssh_key, at=adapters.clock.now())
    refusal = unfit(request)
    if refusal is not None:
        return refusal
    failed = _request_once(request, adapters, progress)
    for _ in range(_TRIES - 1):
        if isinstance(failed, SessionDetails) or not failed.others_may_do:
            break
        outcome = _request_once(request, adapters, progress)
        if isinstance(outcome, RequestRefusal) and not outcome.others_may_do:
            break  # the failure is more specific than a lack of other nodes
        failed = outcome
    return failed


def _request_once(
    request: SessionRequest, adapters: PoolAdapters, progress: Callable[[SessionDetails], object]
) -> SessionDetails | RequestRefusal:
    """Reserve nodes and wait until a worker has prepared them, or until one of them has failed."""
    reserved = reserve_nodes(request, adapters)
    if isinstance(reserved, RequestRefusal):
        return reserved
    number = reserved.session.id
    current = adapters.users.user(request.tenant.name)
    if current is None or current.is_retired:
        _retire(number, adapters, SessionActor(request.by or ""))
        return _tenant_retired(request.tenant)
    details = SessionDetails(reserved.session, reserved.nodes)
    begun = await_worker(details.session, adapters, lambda: progress(details))
    return begun if isinstance(begun, RequestRefusal) else SessionDetails(begun, _nodes(begun, adapters))


def extend_session(
    number: int, adapters: PoolAdapters, actor: SessionActor, *, until: float | None = None, delta: float = 0.0
) -> SessionDetails:
    """Change the end of a session, to ``until`` or by ``delta`` seconds, and return the session afterwards.

    ``until`` is in seconds since the epoch. Tenants reach at most their longest lifetime; other actors have no
    limit. Raises ``NotFoundError``, ``ForbiddenError`` and ``RetiredError``.
    """

    def change(session: TenantSession, _: PoolSnapshot) -> PoolChange:
        limits = adapters.store.configuration().defaults
        owner = next((user for user in adapters.users.users() if user.id == session.tenant), None)
        if owner is not None:
            limits = effective_limits(owner, limits)
        end = new_expiry(session, limits, until=until, delta=delta, is_admin=actor.tenant is None)
        return PoolChange(sessions=(replace(session, expires_at=end),))

    details = _change(number, adapters, actor, change)
    _record(adapters, actor, f"change the end of session {number}")
    return details


def retire_session(number: int, adapters: PoolAdapters, actor: SessionActor) -> SessionDetails:
    """End a session; its nodes are to be deprovisioned from now on. Return the session afterwards.

    Raises ``NotFoundError``, ``ForbiddenError`` and ``RetiredError``.
    """
    details = _retire(number, adapters, actor)
    _record(adapters, actor, f"retire session {number}")
    return details


def retire_sessions_of(tenant: int, adapters: PoolAdapters, actor: SessionActor) -> None:
    """End all active sessions of a tenant."""
    for session in adapters.store.read().sessions.values():
        if session.tenant == tenant:
            try:
                _retire(session.id, adapters, actor)
            except (NotFoundError, RetiredError):
                continue


def unfit(request: SessionRequest) -> RequestRefusal | None:
    """Return why a request cannot have any session, or ``None``."""
    tenant = request.tenant
    if tenant.is_retired:
        return _tenant_retired(tenant)
    if tenant.ssh_key is None and request.ssh_key is None:
        message = (
            f"the tenant {tenant} has no SSH key, so that it cannot log in to the nodes; an admin sets one with"
            f" PUT /api/v1/tenants/{tenant.id}, or the request brings one"
        )
        return RequestRefusal(RequestProblem.NO_KEY, message)
    if not request.specs:
        message = "can't reserve nodes: expected at least one pool and a number of nodes, found none"
        return RequestRefusal(RequestProblem.TOO_FEW, message)
    return None


def _tenant_retired(tenant: User) -> RequestRefusal:
    return RequestRefusal(RequestProblem.RETIRED, f"tenant '{tenant}' isn't active")


def _retire(number: int, adapters: PoolAdapters, actor: SessionActor) -> SessionDetails:
    def change(session: TenantSession, read: PoolSnapshot) -> PoolChange:
        ended, released = retire(session, read.nodes.values(), adapters.clock.now(), actor.by)
        return PoolChange(nodes=released, sessions=(ended,))

    return _change(number, adapters, actor, change)


def _change(
    number: int,
    adapters: PoolAdapters,
    actor: SessionActor,
    change: Callable[[TenantSession, PoolSnapshot], PoolChange],
) -> SessionDetails:
    """Change an active session that the actor may change; return it afterwards."""
    for attempt in range(1, _ATTEMPTS + 1):
        find_active_session(number, adapters, actor)
        read = adapters.store.read()
        if number not in read.sessions:
            continue  # it has just ended: the next read finds that
        try:
            adapters.store.commit(change(read.sessions[number], read), read)
        except ConflictError:
            if attempt == _ATTEMPTS:
                raise
        else:
            return find_session(number, adapters, actor)
    raise ConflictError(f"session {number} is changed all the time; try again")


def _nodes(session: TenantSession, adapters: PoolAdapters) -> tuple[PoolNode, ...]:
    return tuple(_present(map(adapters.store.node, session.nodes)))


def _present(nodes: Iterable[PoolNode | None]) -> Iterable[PoolNode]:
    return (node for node in nodes if node is not None)


def _record(adapters: PoolAdapters, actor: SessionActor, what: str) -> None:
    """Record an act on a session of any tenant; a tenant's own acts are in the records of its sessions."""
    if actor.tenant is None:
        adapters.acts.record(Act(by=actor.by, what=what, reason="", time=adapters.clock.now()))
