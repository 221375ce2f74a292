"""Whether a request may wait: a request that can never get its nodes does not, and the queue is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.pools.requests.quotas import quotas_of
from zkdeployment.pools.reservation import RequestProblem, RequestRefusal, size_problem

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.documents.pools.values import NodePool, PoolConfiguration
    from zkdeployment.pools.requests.waiting_request import WaitingRequest
    from zkdeployment.pools.reservation import SessionRequest

#: The most requests in the queue, and those of one tenant; requests that begin at the same moment may exceed this.
MOST_WAITING = 1000
MOST_OF_TENANT = 50


def queueing_problem(
    request: SessionRequest, configuration: PoolConfiguration, present: Collection[WaitingRequest]
) -> RequestRefusal | None:
    """Return why a request cannot wait, or ``None``; ``present`` are the records of the queue."""
    wanted = request.wanted
    unknown = sorted(wanted.keys() - configuration.pools.keys())
    if unknown:
        known = ", ".join(sorted(configuration.pools)) or "none"
        return RequestRefusal(RequestProblem.NO_POOL, f"there is no pool {unknown[0]!a}; the pools are: {known}")
    excess = quotas_of(request.tenant, configuration).problem(0, {}, wanted)
    if excess is not None:
        return RequestRefusal(RequestProblem.QUOTA, excess)
    too_many = size_problem(request, wanted.total())
    if too_many is not None:
        return RequestRefusal(RequestProblem.TOO_MANY, f"can't reserve nodes: {too_many}")
    for pool, quantity in wanted.items():
        most = _largest_level(configuration.pools[pool])
        if quantity > most:
            message = (
                f"can't wait for nodes: {quantity} of {pool} requested, but the pool keeps at most {most} ready"
            )
            return RequestRefusal(RequestProblem.TOO_MANY, message)
    return _full(request, [found for found in present if found.is_waiting])


def _full(request: SessionRequest, waiting: Collection[WaitingRequest]) -> RequestRefusal | None:
    own = sum(found.tenant == request.tenant.id for found in waiting)
    if own >= MOST_OF_TENANT:
        message = (
            f"{own} requests of the tenant {request.tenant} wait already, at most {MOST_OF_TENANT} may; cancel one"
        )
    elif len(waiting) >= MOST_WAITING:
        message = f"{len(waiting)} requests wait already, at most {MOST_WAITING} may; try again later"
    else:
        return None
    return RequestRefusal(RequestProblem.QUEUE_FULL, message)


def _largest_level(pool: NodePool) -> int:
    return max((pool.fill_level or 0, *(entry.level for entry in pool.schedule)))
