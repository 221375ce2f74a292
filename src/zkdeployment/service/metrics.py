"""The metrics of a service: its requests, its event streams, the age of and the fleet that it shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.metrics import Metric, MetricKind, counter, gauge, process_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.daemon.metrics import DaemonProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The facts behind the metrics of a service.

    ``requests`` and ``seconds`` are the number and the whole duration of the requests by method, route and status;
    a route is a template such as ``/hosts/{host}``. ``streams`` are open event streams; ``lost`` counts streams
    whose client was too slow. ``read_at`` is when ZooKeeper last confirmed the fleet that the service shows, in
    seconds since the epoch, and ``readings`` is how often that fleet has changed; both are unknown at first, and
    so is the number of deployment intent groups that are stopped. ``further`` are the metrics of the features.
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
        *facts.further,
    )
