"""Waits until a worker has prepared the nodes of a reserved session, or undoes the reservation."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from zkdeployment.errors import ConflictError, WaitTimeoutError
from zkdeployment.pools.node import NodeEvent, NodeState
from zkdeployment.pools.reservation import RequestProblem, RequestRefusal
from zkdeployment.pools.snapshot import PoolChange
from zkdeployment.pools.tenant_session import retire

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.pools.tenant_session import TenantSession
    from zkdeployment.ports.pools import PoolAdapters

#: Seconds within which a worker has to prepare the nodes of a request, or to work on them.
ANSWERING = 75.0

#: Seconds after which a request no longer waits for a worker, even if the worker works on the nodes.
LONGEST = 300.0

#: Attempts to end a reservation while others change it.
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
    """Undo a reservation that no worker took, and return whether that was possible.

    The claims exclude a worker that takes the nodes at the same moment.
    """
    read, now = adapters.store.read(), adapters.clock.now()
    session = read.sessions.get(number)
    if session is None:
        return False
    nodes = [node for node in read.nodes.values() if node.session == number]
    ids = frozenset(node.id for node in nodes)
    if ids & read.claimed or any(node.state is not NodeState.CONTEXTUALIZING for node in nodes):
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
