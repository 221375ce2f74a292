"""``GET /metrics``: the metrics of this service for Prometheus."""

import time
from importlib.metadata import version

from fastapi import APIRouter, Request, Response

from zkdeployment.errors import UnreachableError
from zkdeployment.fleet.metrics.metric import DaemonProcess
from zkdeployment.fleet.metrics.server import ServerFacts, server_metrics
from zkdeployment.web.access.rights import Reader
from zkdeployment.web.dependencies import Adapters
from zkdeployment.web.request_counts import request_counts

router = APIRouter(tags=["service"])

_STARTED = time.time()

_TEXT: dict[int | str, dict[str, object]] = {
    200: {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/metrics", response_class=Response, responses=_TEXT)
async def read_metrics(request: Request, user: Reader, adapters: Adapters) -> Response:
    """Return the metrics of this service: requests, event streams, the age of the fleet that it shows; pools."""
    del user
    counts, hub = request_counts(request), request.app.state.event_hub
    try:
        cached = adapters.feed.snapshot()
    except UnreachableError:
        cached = None
    facts = ServerFacts(
        process=DaemonProcess(
            version=version("zkdeployment"),
            started=_STARTED,
            now=adapters.clock.now(),
            up=True,
            link=adapters.connection(),
        ),
        requests=dict(counts.requests),
        seconds=dict(counts.seconds),
        streams=hub.streams,
        lost=hub.lost,
        read_at=None if cached is None else cached.read_at,
        readings=0 if cached is None else cached.reading.number,
        connected=cached is not None and cached.connected,
        pools=None if cached is None else cached.reading.pools,
        stopped_groups=None if cached is None else len(cached.reading.fleet.group_stops),
    )
    return Response(adapters.render_metrics(server_metrics(facts)), media_type="text/plain; version=0.0.4")
