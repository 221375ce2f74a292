"""Reserves nodes for a session: other nodes if other requests were faster, and only once if answers are lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.errors import ConflictError, UnreachableError
from zkdeployment.pools.requests.queue import request_queue
from zkdeployment.pools.reservation import RequestProblem, RequestRefusal, Reservation, reserve
from zkdeployment.pools.snapshot import PoolChange

if TYPE_CHECKING:
    from zkdeployment.documents.pools.values import PoolConfiguration
    from zkdeployment.pools.requests.queue import RequestQueue
    from zkdeployment.pools.reservation import SessionRequest
    from zkdeployment.pools.snapshot import PoolSnapshot
    from zkdeployment.ports.pools import PoolAdapters

#: Seconds for which a reservation is tried again while other requests overtake it, and again after an answer of
#: ZooKeeper was lost.
RESERVING = 10.0


def reserve_nodes(request: SessionRequest, adapters: PoolAdapters) -> Reservation | RequestRefusal:
    """Reserve nodes for a new request, whose id is 0.

    Raises ``UnreachableError`` if it remains unknown whether the nodes are reserved.

    All attempts write the same session, so that at most one of them succeeds, even one whose answer was lost and
    that ZooKeeper executes later than the next one.
    """
    store, clock = adapters.store, adapters.clock
    configuration = adapters.store.configuration()
    deadline, attempt = clock.monotonic() + RESERVING, 0
    lost: UnreachableError | None = None
    while True:
        try:
            read = store.read()
            found = _find(request.id, adapters) if lost else None
            tenant = request.tenant.id
            wanted = replace(request, held=read.held(tenant), held_by_pool=read.held_by_pool(tenant))
            given = found or _choose(wanted, configuration, adapters, read, attempt)
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
    """Return why there is no session after the last attempt; raises the error if an answer was lost."""
    if lost is not None:
        raise lost
    message = "can't reserve nodes: other requests were faster every time; try again"
    return RequestRefusal(RequestProblem.TOO_FEW, message)


def _choose(
    request: SessionRequest,
    configuration: PoolConfiguration,
    adapters: PoolAdapters,
    read: PoolSnapshot,
    attempt: int,
) -> Reservation | RequestRefusal:
    """Return what a request gets; ids are taken only for requests that nodes are ready for.

    A request does not overtake those that wait for nodes of its pools.
    """
    given = reserve(
        request,
        configuration,
        read.nodes.values(),
        adapters.clock.now(),
        offset=attempt and request.id,
        absent=_absent(read, adapters),
    )
    awaited = _awaited(read, configuration, adapters) & request.wanted.keys()
    if isinstance(given, Reservation) and awaited:
        message = f"can't reserve nodes: other requests wait for nodes of {', '.join(sorted(awaited))}; wait, too"
        return RequestRefusal(RequestProblem.TOO_FEW, message)
    if isinstance(given, RequestRefusal) or request.id:
        return given
    number = adapters.store.take_ids(1)[0]
    return Reservation(
        replace(given.session, id=number), tuple(replace(node, session=number) for node in given.nodes)
    )


def _find(number: int, adapters: PoolAdapters) -> Reservation | None:
    """Return the session that an earlier attempt has written, which may have ended since."""
    session = adapters.store.session(number)
    if session is None:
        return None
    nodes = map(adapters.store.node, session.nodes)
    return Reservation(session, tuple(node for node in nodes if node is not None))


def queue_now(read: PoolSnapshot, configuration: PoolConfiguration, adapters: PoolAdapters) -> RequestQueue:
    """Return the present queue of requests, with the present users and quotas."""
    users = {user.id: user for user in adapters.users.users()}
    return request_queue(read, configuration, users, adapters.clock.now())


def _awaited(read: PoolSnapshot, configuration: PoolConfiguration, adapters: PoolAdapters) -> frozenset[str]:
    """Return the pools that requests in the queue wait for."""
    return queue_now(read, configuration, adapters).awaited_pools() if read.waiting else frozenset()


def _absent(read: PoolSnapshot, adapters: PoolAdapters) -> frozenset[str]:
    """Return the hosts of the fleet that are nodes of pools and not registered now."""
    hosts = {node.host for node in read.nodes.values() if node.host is not None}
    return frozenset(hosts.difference(adapters.present_hosts()) if hosts else hosts)
