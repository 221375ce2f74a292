"""Requests, extends and ends sessions of tenants, and queues requests, for verbs, the API and the pages.

A request reserves nodes, at once or from the queue, and waits until a worker has prepared them. If the requesting
process dies, the worker continues, and the tenant finds the session or the request in the list.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.act import Act
from zkdeployment.base.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    RetiredError,
    UnreachableError,
    WaitTimeoutError,
)
from zkdeployment.base.values import dataclass
from zkdeployment.pools.rules.node import NodeEvent, NodeState, PoolNode
from zkdeployment.pools.rules.queue import (
    LendingFacts,
    RequestPlace,
    RequestProblem,
    RequestRefusal,
    Reservation,
    grant_at_once,
    queueing_problem,
    ready_by_pool,
    request_queue,
)
from zkdeployment.pools.rules.snapshot import (
    NodesSpec,
    PoolChange,
    PoolSnapshot,
    SessionRequest,
    TenantSession,
    new_expiry,
    retire,
)
from zkdeployment.service.users.user import Right, User

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.pools.documents import PoolConfiguration
    from zkdeployment.pools.opening import PoolAdapters
    from zkdeployment.service.users.user_store import ZooKeeperUsers


#: Seconds for which a reservation is repeated while other requests overtake it, or after an answer of ZooKeeper
#: was lost.
RESERVING = 10.0


def reserve_nodes(request: SessionRequest, tenant: User, adapters: PoolAdapters) -> Reservation | RequestRefusal:
    """Reserve nodes for a new request of a tenant, ranked among the requests that wait.

    Raises ``UnreachableError`` if it remains unknown whether the nodes are reserved. All attempts write the same
    session, so at most one of them succeeds, even if ZooKeeper executes an attempt whose answer was lost after a
    later attempt.
    """
    store, clock = adapters.store, adapters.clock
    configuration = adapters.store.configuration()
    deadline, attempt = clock.monotonic() + RESERVING, 0
    lost: UnreachableError | None = None
    while True:
        try:
            read = store.read()
            found = _find(request.id, adapters) if lost else None
            given = found or _choose(request, tenant, configuration, adapters, read, attempt)
        except UnreachableError:
            if lost is None or clock.monotonic() >= deadline:
                raise
            continue
        if given is found or isinstance(given, RequestRefusal):
            return given
        if attempt and clock.monotonic() >= deadline:
            return _without_success(lost)
        request = replace(request, id=given.session.id)
        attempt += 1
        try:
            store.commit(PoolChange(nodes=given.nodes, sessions=(given.session,)), read)
        except ConflictError:
            continue
        except UnreachableError as error:
            if lost is None:
                lost, deadline = error, clock.monotonic() + RESERVING
        else:
            return given


def _without_success(lost: UnreachableError | None) -> RequestRefusal:
    """Return why the last attempt made no session; raises the error if an answer was lost."""
    if lost is not None:
        raise lost
    message = "can't reserve nodes: other requests were faster every time; try again"
    return RequestRefusal(RequestProblem.TOO_FEW, message)


def _choose(
    request: SessionRequest,
    tenant: User,
    configuration: PoolConfiguration,
    adapters: PoolAdapters,
    read: PoolSnapshot,
    attempt: int,
) -> Reservation | RequestRefusal:
    """Return the reservation or the refusal of a request; ids are taken only if nodes are ready."""
    tenants = (_users(adapters) if read.waiting else {}) | {tenant.id: tenant}
    facts = LendingFacts(read, configuration, tenants, adapters.clock.now(), away_hosts(read, adapters))
    given = grant_at_once(request, facts, offset=attempt and request.id)
    if isinstance(given, RequestRefusal) or request.id:
        return given
    number = adapters.store.take_ids(1)[0]
    return Reservation(
        replace(given.session, id=number), tuple(replace(node, session=number) for node in given.nodes)
    )


def _find(number: int, adapters: PoolAdapters) -> Reservation | None:
    """Return the session that an earlier attempt has written, even if it has ended in the meantime."""
    session = adapters.store.session(number)
    return None if session is None else Reservation(session, _nodes(session, adapters))


def _users(adapters: PoolAdapters) -> dict[int, User]:
    """Return the present users, by id."""
    return {user.id: user for user in adapters.users.users()}


def away_hosts(read: PoolSnapshot, adapters: PoolAdapters) -> frozenset[str]:
    """Return the hosts of the fleet that are nodes of pools and are not registered now, or in maintenance."""
    hosts = {node.host for node in read.nodes.values() if node.host is not None}
    return frozenset(hosts.difference(adapters.available_hosts()) if hosts else hosts)


#: Seconds within which a worker has to prepare the nodes of a request, or to work on them.
ANSWERING = 75.0

#: Seconds after which a request no longer waits for a worker, even if the worker works on the nodes.
LONGEST = 300.0

#: Attempts to end a reservation that other processes change concurrently.
_ATTEMPTS = 20

#: The shortest and the longest time in seconds between two reads of a request in which nothing has changed, and
#: their share of the time so far.
_LOOKS = (0.05, 1.0)
_SHARE = 0.1


def await_worker(
    reserved: TenantSession, adapters: PoolAdapters, progress: Callable[[], object]
) -> TenantSession | RequestRefusal:
    """Return the session when its nodes are prepared, or the reason why it did not begin.

    ``progress`` is called at once, and again at least once a second. Raises ``WaitTimeoutError`` if a worker works
    on the nodes for too long.
    """
    clock, number = adapters.clock, reserved.id
    begin = clock.monotonic()
    deadline = begin + ANSWERING
    while True:
        session = adapters.store.session(number)
        if session is None:
            why = _why_not_prepared(reserved, adapters)
            return RequestRefusal(RequestProblem.NOT_PREPARED, why, others_may_do=True)
        if not session.is_active:
            return RequestRefusal(RequestProblem.RETIRED, f"session {number} was retired before it began")
        if _has_begun(session, adapters):
            return session
        if adapters.is_ending():
            return RequestRefusal(RequestProblem.NOT_PREPARED, _abandon(session, adapters))
        progress()
        now = clock.monotonic()
        if now >= deadline:
            if _take_back(number, adapters):
                message = (
                    f"no worker prepared the nodes within {ANSWERING:g} s, and they are ready again; is"
                    " 'zkdeployment pools' running?"
                )
                return RequestRefusal(RequestProblem.NOT_PREPARED, message)
            if now >= begin + LONGEST:
                raise WaitTimeoutError(
                    f"the nodes of session {number} are still being prepared after {LONGEST:g} s; the list of"
                    " sessions shows when the session begins"
                )
            deadline = now + ANSWERING
        adapters.wait(min(max((now - begin) * _SHARE, _LOOKS[0]), _LOOKS[1]))


def _abandon(session: TenantSession, adapters: PoolAdapters) -> str:
    """End a reservation because this process ends; return the message for the tenant.

    The nodes are ready again, or are deprovisioned if a worker has begun to prepare them.
    """
    for _ in range(_ATTEMPTS):
        if _take_back(session.id, adapters):
            break
        read = adapters.store.read()
        if session.id not in read.sessions:
            break
        present, now = read.sessions[session.id], adapters.clock.now()
        ended, released = retire(present, read.nodes.values(), now, present.requested_by)
        with suppress(ConflictError):
            adapters.store.commit(PoolChange(nodes=released, sessions=(ended,)), read)
            break
    return f"the service ends, and session {session.id} with it, before its nodes were prepared; try again"


def _has_begun(session: TenantSession, adapters: PoolAdapters) -> bool:
    """Whether the nodes of a session are prepared; they all change in one transaction.

    A node that the session no longer has does not count: the session has ended since it was read.
    """
    first = adapters.store.node(session.nodes[0])
    return first is not None and first.session == session.id and first.state is NodeState.DEPLOYED


def _take_back(number: int, adapters: PoolAdapters) -> bool:
    """Undo a reservation that no worker took up, and return whether that was possible.

    The claims exclude a worker that takes the nodes at the same moment. A node that a worker has begun to prepare
    may have the tenant's key, even if that worker is gone.
    """
    read, now = adapters.store.read(), adapters.clock.now()
    session = read.sessions.get(number)
    if session is None:
        return False
    nodes = [node for node in read.nodes.values() if node.session == number]
    ids = frozenset(node.id for node in nodes)
    if ids & read.claimed or any(node.begun or node.state is not NodeState.CONTEXTUALIZING for node in nodes):
        return False
    cleaned = tuple(node.after(NodeEvent.CLEANED, now) for node in nodes)
    try:
        adapters.store.commit(PoolChange(nodes=cleaned, dropped=(session,), claimed=ids, released=ids), read)
    except ConflictError:
        return False
    return True


def _why_not_prepared(reserved: TenantSession, adapters: PoolAdapters) -> str:
    """Return the message for a tenant whose nodes a worker could not prepare."""
    nodes = [node for node in map(adapters.store.node, reserved.nodes) if node is not None]
    failed = [node for node in nodes if node.state is NodeState.FAILED]
    names = ", ".join(node.hostname or str(node.id) for node in failed) or "some of them"
    return f"contextualization of nodes failed: {names}; request the session again, with other nodes"


#: Attempts of a request with other nodes after some have failed: a request must not use up a whole pool.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class SessionActor:
    """The actor in a request about sessions: a user of the service, or an operator (``USER@HOST``).

    ``tenant`` is the id of the only tenant whose sessions the actor may see and change; ``None``: all tenants.
    """

    by: str
    tenant: int | None = None

    @classmethod
    def of_user(cls, user: User) -> SessionActor:
        """Return a user as one who asks for sessions: a tenant asks for its own ones, an admin for all."""
        return cls(user.name, None if user.may(Right.MANAGE_POOLS) else user.id)


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
    nodes for too long; the session may then still begin later. Raises ``UnreachableError`` if it is not known
    whether the session exists; the list of sessions shows it later.
    """
    request = new_request(tenant, specs, adapters, by=by, ssh_key=ssh_key)
    refusal = unfit(request, tenant)
    if refusal is not None:
        return refusal
    failed = _request_once(request, tenant, adapters, progress)
    for _ in range(_TRIES - 1):
        if isinstance(failed, SessionDetails) or not failed.others_may_do:
            break
        outcome = _request_once(request, tenant, adapters, progress)
        if isinstance(outcome, RequestRefusal) and not outcome.others_may_do:
            break  # the failure is more specific than a lack of other nodes
        failed = outcome
    return failed


def _request_once(
    request: SessionRequest, tenant: User, adapters: PoolAdapters, progress: Callable[[SessionDetails], object]
) -> SessionDetails | RequestRefusal:
    """Reserve nodes and wait until a worker has prepared them, or until one of them has failed."""
    reserved = reserve_nodes(request, tenant, adapters)
    if isinstance(reserved, RequestRefusal):
        return reserved
    number = reserved.session.id
    current = adapters.users.user(tenant.name)
    if current is None or current.is_retired:
        _retire(number, adapters, SessionActor(request.requested_by or ""))
        return _tenant_retired(tenant)
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
            limits = limits.of(owner)
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


def new_request(
    tenant: User,
    specs: tuple[NodesSpec, ...],
    adapters: PoolAdapters,
    *,
    by: str,
    ssh_key: str | None,
    wait: float = 0.0,
) -> SessionRequest:
    """Return a new request without an id, which may wait for ``wait`` seconds."""
    now = adapters.clock.now()
    return SessionRequest(
        id=0,
        tenant=tenant.id,
        specs=specs,
        created_at=now,
        expires_at=now + wait,
        requested_by=by,
        ssh_key=ssh_key,
    )


def unfit(request: SessionRequest, tenant: User) -> RequestRefusal | None:
    """Return why a request can never get a session; ``None`` if it can."""
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

    def decide(read: PoolSnapshot) -> PoolChange:
        find_active_session(number, adapters, actor)
        if number not in read.sessions:
            raise ConflictError(f"session {number} has just ended, which the next read finds")
        return change(read.sessions[number], read)

    adapters.commit(f"session {number}", decide)
    return find_session(number, adapters, actor)


def _nodes(session: TenantSession, adapters: PoolAdapters) -> tuple[PoolNode, ...]:
    nodes = map(adapters.store.node, session.nodes)
    return tuple(node for node in nodes if node is not None)


def _record(adapters: PoolAdapters, actor: SessionActor, what: str) -> None:
    """Record an act of an operator or an admin; the acts of a tenant are in the records of its sessions."""
    if actor.tenant is None:
        adapters.acts.record(Act(by=actor.by, what=what, reason="", time=adapters.clock.now()))


def retire_tenant(user: User, users: ZooKeeperUsers, adapters: PoolAdapters, act: Act) -> User:
    """End all sessions of a user, retire it permanently, and return it.

    The sessions end first, so that after a crash of this process the user still exists and can be retired again.
    Sessions that began in the meantime end after the retirement; later requests find a retired user. Raises
    ``RefusedError`` if the user is retired already.
    """
    actor = SessionActor(act.by)
    retire_sessions_of(user.id, adapters, actor)
    retired = users.retire(user.name, act)
    retire_sessions_of(user.id, adapters, actor)
    return retired


#: Reads of a request that was found neither in the queue nor as a session: it may move between two reads.
_READINGS = 3

#: Seconds between two readings of a request.
_LOOK = 1.0

#: Seconds after its limit at which the client itself ends a request that no worker has ended.
_GRACE = 5.0


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A request: ``request`` while it is in the queue or after it ended without a session, else its ``session``.

    ``place`` is the place in the queue, while the request waits.
    """

    request: SessionRequest | None = None
    place: RequestPlace | None = None
    session: SessionDetails | None = None


def queue_request(
    tenant: User,
    specs: tuple[NodesSpec, ...],
    adapters: PoolAdapters,
    *,
    wait: float,
    by: str,
    ssh_key: str | None = None,
) -> SessionRequest | RequestRefusal:
    """Put a request into the queue for ``wait`` seconds and return it, or return why it cannot wait.

    ``ssh_key`` is as for ``request_session``. Raises ``UnreachableError`` if it is not known whether the request
    is in the queue; the list of waiting requests shows it later.
    """
    request = new_request(tenant, specs, adapters, by=by, ssh_key=ssh_key, wait=wait)
    refusal = unfit(request, tenant)
    if refusal is None:
        present = adapters.store.read().waiting.values()
        refusal = queueing_problem(request, tenant, adapters.store.configuration(), present)
    if refusal is not None:
        return refusal
    request = replace(request, id=adapters.store.take_ids(1)[0])
    _write_new(request, adapters)
    return request


def await_request(
    number: int, adapters: PoolAdapters, actor: SessionActor, progress: Callable[[QueuedRequest], object]
) -> SessionDetails | RequestRefusal:
    """Return the session of a request when its nodes are prepared, or why the request ended.

    ``progress`` is called at least once a second. Raises what ``find_request`` raises.
    """
    while True:
        state = find_request(number, adapters, actor)
        if state.session is not None:
            session = state.session.session
            if not session.is_active:
                return RequestRefusal(RequestProblem.RETIRED, f"session {number} was retired before it began")
            if all(node.state is NodeState.DEPLOYED for node in state.session.nodes):
                return state.session
        if state.request is not None and not state.request.is_waiting:
            return RequestRefusal(RequestProblem.NOT_SERVED, _end(state.request))
        if state.request is not None and state.request.expires_at + _GRACE <= adapters.clock.now():
            _end_request(number, adapters, "no worker of the pools gave it nodes in time")
            continue
        progress(state)
        adapters.wait(_LOOK)


def find_request(number: int, adapters: PoolAdapters, actor: SessionActor) -> QueuedRequest:
    """Return a request that waits or ended recently, or its session.

    Raises ``NotFoundError`` and ``ForbiddenError``.
    """
    for _ in range(_READINGS):
        request = adapters.store.waiting(number)
        if request is not None:
            _check_owner(request, actor)
            return QueuedRequest(request, _place(request, adapters) if request.is_waiting else None)
        if adapters.store.session(number) is not None:
            return QueuedRequest(session=find_session(number, adapters, actor))
    raise NotFoundError(f"there is no request {number}; expected the id of a waiting request, as lists show it")


def cancel_request(number: int, adapters: PoolAdapters, actor: SessionActor) -> SessionRequest:
    """End the wait of a request and return it; the request reserves nothing.

    Raises ``NotFoundError``, ``ForbiddenError``, ``RetiredError`` if its wait has ended without a session, and
    ``RefusedError`` if it has a session.
    """
    state = find_request(number, adapters, actor)
    if state.request is not None and not state.request.is_waiting:
        raise RetiredError(_end(state.request))
    ended = _end_request(number, adapters, f"{actor.by} cancelled it") if state.request is not None else None
    if ended is None:
        raise RefusedError(f"request {number} waits no more: session {number} has its nodes; retire the session")
    _record(adapters, actor, f"cancel request {number}")
    return ended


def waiting_requests(adapters: PoolAdapters, actor: SessionActor) -> tuple[RequestPlace, ...]:
    """Return the waiting requests that the actor may see, in the order in which they get nodes."""
    read = adapters.store.read()
    if not read.waiting:
        return ()
    places = _places(read, adapters)
    return tuple(place for place in places.values() if actor.tenant in {None, place.request.tenant})


def _place(request: SessionRequest, adapters: PoolAdapters) -> RequestPlace | None:
    read = adapters.store.read()
    return _places(read, adapters).get(request.id)


def _places(read: PoolSnapshot, adapters: PoolAdapters) -> Mapping[int, RequestPlace]:
    """Return the places of the waiting requests, by id."""
    away, now = away_hosts(read, adapters), adapters.clock.now()
    facts = LendingFacts(read, adapters.store.configuration(), _users(adapters), now, away)
    return request_queue(facts).places(ready_by_pool(read.nodes.values(), away))


def _check_owner(request: SessionRequest, actor: SessionActor) -> None:
    if actor.tenant not in {None, request.tenant}:
        raise ForbiddenError(f"request {request.id} belongs to another tenant")


def _end(request: SessionRequest) -> str:
    return f"request {request.id} ended without a session: {request.outcome}"


def _end_request(number: int, adapters: PoolAdapters, outcome: str) -> SessionRequest | None:
    """End a request that waits, and return it; ``None`` if it does not wait."""
    ended: SessionRequest | None = None

    def decide(read: PoolSnapshot) -> PoolChange | None:
        nonlocal ended
        request = read.waiting.get(number)
        ended = (
            request.ended(outcome, adapters.clock.now()) if request is not None and request.is_waiting else None
        )
        return None if ended is None else PoolChange(waiting=(ended,))

    return ended if adapters.commit(f"request {number}", decide) else None


def _write_new(request: SessionRequest, adapters: PoolAdapters) -> None:
    """Write a new request exactly once, even if answers of ZooKeeper are lost."""
    deadline = adapters.clock.monotonic() + RESERVING
    while True:
        try:
            adapters.store.commit(PoolChange(waiting=(request,)), PoolSnapshot())
        except ConflictError:  # an attempt whose answer was lost has written it
            return
        except UnreachableError:
            if adapters.clock.monotonic() >= deadline:
                raise
        else:
            return
