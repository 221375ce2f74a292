"""Puts requests for nodes into the queue, follows and cancels them, for verbs and the service.

A worker gives nodes to the requests in the queue. If a client dies, its request stays in the queue until it gets
nodes or expires.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.act import Act
from zkdeployment.base.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    RetiredError,
    UnreachableError,
)
from zkdeployment.pools.acts.sessions import RESERVING, SessionDetails, find_session, queue_now, unfit
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.queue import queueing_problem, ready_by_pool
from zkdeployment.pools.rules.reservation import RequestProblem, RequestRefusal, SessionRequest
from zkdeployment.pools.rules.snapshot import PoolChange, PoolSnapshot
from zkdeployment.pools.rules.tenant_session import WaitingRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.pools.acts.sessions import SessionActor
    from zkdeployment.pools.ports import PoolAdapters
    from zkdeployment.pools.rules.queue import RequestPlace
    from zkdeployment.pools.rules.tenant_session import NodesSpec
    from zkdeployment.service.users.user import User

#: Attempts to change a request that a worker changes concurrently.
_ATTEMPTS = 20

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

    request: WaitingRequest | None = None
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
) -> WaitingRequest | RequestRefusal:
    """Put a request into the queue for ``wait`` seconds and return it, or return why it cannot wait.

    ``ssh_key`` is as for ``request_session``. Raises ``UnreachableError`` if it is not known whether the request
    is in the queue; the list of waiting requests shows it later.
    """
    asked = SessionRequest(0, tenant, specs, 0, by, ssh_key)
    refusal = unfit(asked)
    if refusal is None:
        refusal = queueing_problem(asked, adapters.store.configuration(), adapters.store.read().waiting.values())
    if refusal is not None:
        return refusal
    now = adapters.clock.now()
    request = WaitingRequest(
        id=adapters.store.take_ids(1)[0],
        tenant=tenant.id,
        specs=specs,
        created_at=now,
        expires_at=now + wait,
        requested_by=by,
        ssh_key=ssh_key,
    )
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


def cancel_request(number: int, adapters: PoolAdapters, actor: SessionActor) -> WaitingRequest:
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
    if actor.tenant is None:
        adapters.acts.record(
            Act(by=actor.by, what=f"cancel request {number}", reason="", time=adapters.clock.now())
        )
    return ended


def waiting_requests(adapters: PoolAdapters, actor: SessionActor) -> tuple[RequestPlace, ...]:
    """Return the waiting requests that the actor may see, in the order in which they get nodes."""
    read = adapters.store.read()
    if not read.waiting:
        return ()
    places = queue_now(read, adapters.store.configuration(), adapters).places(ready_by_pool(read.nodes.values()))
    return tuple(place for place in places.values() if actor.tenant in {None, place.request.tenant})


def _place(request: WaitingRequest, adapters: PoolAdapters) -> RequestPlace | None:
    read = adapters.store.read()
    queue = queue_now(read, adapters.store.configuration(), adapters)
    return queue.places(ready_by_pool(read.nodes.values())).get(request.id)


def _check_owner(request: WaitingRequest, actor: SessionActor) -> None:
    if actor.tenant not in {None, request.tenant}:
        raise ForbiddenError(f"request {request.id} belongs to another tenant")


def _end(request: WaitingRequest) -> str:
    return f"request {request.id} ended without a session: {request.outcome}"


def _end_request(number: int, adapters: PoolAdapters, outcome: str) -> WaitingRequest | None:
    """End a request that waits, and return it; ``None`` if it does not wait."""
    for _ in range(_ATTEMPTS):
        request = adapters.store.waiting(number)
        if request is None or not request.is_waiting:
            return None
        ended = request.ended(outcome, adapters.clock.now())
        try:
            adapters.store.commit(PoolChange(waiting=(ended,)), PoolSnapshot())
        except ConflictError:
            continue
        return ended
    raise ConflictError(f"request {number} is changed all the time; try again")


def _write_new(request: WaitingRequest, adapters: PoolAdapters) -> None:
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
