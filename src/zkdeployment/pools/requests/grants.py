"""Decisions of workers about requests that wait: which ones end, and which one gets nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.pools.requests.queue import ready_by_pool, request_queue
from zkdeployment.pools.requests.waiting_request import KEPT
from zkdeployment.pools.reservation import RequestRefusal, Reservation, SessionRequest, reserve, size_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from zkdeployment.documents.pools.values import PoolConfiguration
    from zkdeployment.model.user import User
    from zkdeployment.pools.requests.waiting_request import WaitingRequest
    from zkdeployment.pools.snapshot import PoolSnapshot


def ended_waits(
    read: PoolSnapshot, configuration: PoolConfiguration, tenants: Mapping[int, User], now: float
) -> Iterator[WaitingRequest]:
    """Yield the requests whose wait ends now without nodes, with their outcomes."""
    for request in read.waiting.values():
        outcome = _end(request, configuration, tenants.get(request.tenant), now) if request.is_waiting else ""
        if outcome:
            yield request.ended(outcome, now)


def outdated_waits(read: PoolSnapshot, now: float) -> Iterator[WaitingRequest]:
    """Yield the requests that ended so long ago that their records are removed."""
    for request in read.waiting.values():
        if request.ended_at is not None and request.ended_at + KEPT <= now:
            yield request


def next_due_wait(read: PoolSnapshot) -> Iterator[float]:
    """Yield when requests expire, and when the records of those that ended are removed."""
    for request in read.waiting.values():
        yield request.expires_at if request.ended_at is None else request.ended_at + KEPT


def grant_next(
    read: PoolSnapshot,
    configuration: PoolConfiguration,
    tenants: Mapping[int, User],
    present_hosts: Collection[str],
    now: float,
) -> tuple[WaitingRequest, Reservation] | None:
    """Return the next request of the queue that gets nodes, with its reservation; ``None`` if none does now."""
    absent = {node.host for node in read.nodes.values() if node.host is not None}.difference(present_hosts)
    ready = ready_by_pool(read.nodes.values(), absent)

    def answer(request: WaitingRequest) -> Reservation | RequestRefusal:
        asked = _asked(request, tenants[request.tenant], read)
        return reserve(asked, configuration, read.nodes.values(), now, absent=absent)

    def is_ready(request: WaitingRequest) -> bool:
        return request.wanted <= ready and isinstance(answer(request), Reservation)

    request = request_queue(read, configuration, tenants, now).next_grant(is_ready)
    given = None if request is None else answer(request)
    return (request, given) if request is not None and isinstance(given, Reservation) else None


def _asked(request: WaitingRequest, tenant: User, read: PoolSnapshot) -> SessionRequest:
    return SessionRequest(
        request.id,
        tenant,
        request.specs,
        read.held(tenant.id),
        request.requested_by,
        request.ssh_key,
        read.held_by_pool(tenant.id),
        at=request.created_at,
        waited=request,
    )


def _end(request: WaitingRequest, configuration: PoolConfiguration, tenant: User | None, now: float) -> str:
    """Return why the wait of a request ends now; empty if the request goes on waiting."""
    if tenant is not None and tenant.is_retired:
        return f"the tenant {tenant} is retired"
    if tenant is not None and tenant.ssh_key is None and request.ssh_key is None:
        return f"the tenant {tenant} has no SSH key"
    asked = (
        None if tenant is None else SessionRequest(request.id, tenant, request.specs, 0, ssh_key=request.ssh_key)
    )
    problem = None if asked is None else size_problem(asked, asked.wanted.total())
    if problem is not None:
        return problem
    missing = sorted(request.wanted.keys() - configuration.pools.keys())
    if missing:
        return f"there is no pool {missing[0]!a} any more"
    if request.expires_at <= now:
        return f"the nodes did not become ready within {request.expires_at - request.created_at:g} s"
    return ""
