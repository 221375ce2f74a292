"""``GET /healthz`` and ``GET /metrics``: for load balancers, probes and Prometheus."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from importlib.metadata import version
from typing import Literal

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict

from zkdeployment.base.daemon.metrics import (
    DaemonProcess,
    Metric,
    MetricKind,
    counter,
    gauge,
    labelled,
    process_metrics,
)
from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.features import installed
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.fleet.views.status import hosts_by_state
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters, ConnectedAdapters
from zkdeployment.service.places import ServicePlaces
from zkdeployment.service.responses import ERRORS
from zkdeployment.service.serving.request_log import request_counts

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


class ServiceHealth(BaseModel):
    """The service and its connection to ZooKeeper work."""

    model_config = ConfigDict(extra="forbid")

    zookeeper: Literal["reachable"] = "reachable"


@router.get("/healthz", responses={503: ERRORS[503]})
async def healthz(request: Request, adapters: ConnectedAdapters) -> ServiceHealth:
    """Answer 200 when ZooKeeper answers, else 503, within a second."""
    check: HealthCheck = request.app.state.health_check
    await check.ask(adapters.operator.fleet.syncer_report)
    return ServiceHealth()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The facts behind the metrics of a service.

    ``requests`` and ``seconds`` are the number and the whole duration of the requests by method, route and status;
    a route is a template such as ``/hosts/{host}``. ``streams`` are open event streams; ``lost`` counts streams
    whose client was too slow. ``read_at`` is when ZooKeeper last confirmed the fleet that the service shows, in
    seconds since the epoch, and ``readings`` is how often that fleet has changed; both are unknown at first, and
    so is the number of deployment intent groups that are stopped. ``hosts`` are the numbers of hosts by state.
    ``further`` are the metrics of the features.
    """

    process: DaemonProcess
    requests: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    seconds: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    streams: int = 0
    lost: int = 0
    read_at: float | None = None
    readings: int = 0
    connected: bool = False
    further: tuple[Metric, ...] = ()
    stopped_groups: int | None = None
    hosts: Mapping[str, float] = field(default_factory=dict)


def server_metrics(facts: ServerFacts) -> tuple[Metric, ...]:
    """Return the metrics of a service, ``zkdeployment_server_…``, and the further ones."""
    labels = ("method", "route", "status")
    age = None if facts.read_at is None else max(0.0, facts.process.now - facts.read_at)
    return (
        *process_metrics("server", facts.process),
        Metric(
            "zkdeployment_server_requests_total",
            "Answered requests, by method, route and status.",
            facts.requests,
            labels,
            MetricKind.COUNTER,
        ),
        Metric(
            "zkdeployment_server_request_seconds_total",
            "Seconds that answered requests took, by method, route and status.",
            facts.seconds,
            labels,
            MetricKind.COUNTER,
        ),
        gauge("server_event_streams", "Open event streams.", facts.streams),
        counter("server_event_streams_lost_total", "Event streams whose client was too slow.", facts.lost),
        gauge("server_feed_connected", "1 while the service follows the fleet in ZooKeeper.", facts.connected),
        gauge("server_feed_age_seconds", "Seconds since ZooKeeper confirmed the fleet that is shown.", age),
        counter("server_feed_readings_total", "Changes of the fleet that the service has read.", facts.readings),
        gauge("server_stopped_groups", "Deployment intent groups that are stopped.", facts.stopped_groups),
        labelled(
            "server_hosts", "Known hosts, by state; a host in maintenance has no other.", "state", facts.hosts
        ),
        *facts.further,
    )


def _metrics_of_features(reading: FleetReading) -> Iterator[Metric]:
    for places in installed(ServicePlaces):
        yield from places.metrics(reading)


metrics_router = APIRouter(tags=["service"])

_STARTED = time.time()

_TEXT: dict[int | str, dict[str, object]] = {
    200: {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@metrics_router.get("/metrics", response_class=Response, responses=_TEXT)
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
        further=() if cached is None else tuple(_metrics_of_features(cached.reading)),
        stopped_groups=None if cached is None else len(cached.reading.fleet.group_stops),
        hosts={} if cached is None else hosts_by_state(cached.status),
    )
    return Response(adapters.render_metrics(server_metrics(facts)), media_type="text/plain; version=0.0.4")
