"""``GET /healthz``: for load balancers and probes; needs no login."""

import asyncio
from collections.abc import Callable

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, Request

from zkdeployment.errors import UnreachableError
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.models.health import ServiceHealth

router = APIRouter(tags=["service"])

#: Seconds in which probes get their answer.
_LIMIT = 0.7


class HealthCheck:
    """Asks ZooKeeper in a thread of its own, one request at a time, whose answer all waiting probes share."""

    def __init__(self) -> None:
        self._thread = CapacityLimiter(1)
        self._asking: asyncio.Future[object] | None = None

    async def ask(self, ask: Callable[[], object]) -> None:
        """Return when ZooKeeper has answered; raises ``UnreachableError`` if it does not in time."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(run_sync(ask, limiter=self._thread))
            self._asking.add_done_callback(_take_error)
        done, _ = await asyncio.wait({self._asking}, timeout=_LIMIT)
        if not done:
            raise UnreachableError(f"ZooKeeper has not answered for {_LIMIT:g} s")
        done.pop().result()


def _take_error(asking: asyncio.Future[object]) -> None:
    """Take the error of a request that no probe waits for any more; else asyncio logs it."""
    if not asking.cancelled():
        asking.exception()


@router.get("/healthz", responses={503: ERRORS[503]})
async def healthz(request: Request, adapters: ConnectedAdapters) -> ServiceHealth:
    """Answer 200 when ZooKeeper answers, else 503, within a second."""
    check: HealthCheck = request.app.state.health_check
    await check.ask(adapters.operator.fleet.syncer_report)
    return ServiceHealth()
