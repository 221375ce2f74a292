"""A metric, the functions that make metrics, and the metrics that all daemons have.

The metrics of a single kind of daemon are in the module of that daemon. A value that is not known has no sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.connection_status import ConnectionStatus


class MetricKind(Enum):
    """The kind of a metric: a gauge rises and falls, a counter only rises while the process runs."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric with its full name, its meaning, and its samples by the values of its ``labels``."""

    name: str
    help: str
    samples: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()
    kind: MetricKind = MetricKind.GAUGE


@dataclass(frozen=True, slots=True)
class DaemonProcess:
    """The facts of a daemon's process: the program's version, times, and the connection to ZooKeeper.

    Times are in seconds since the epoch; ``now`` is the time of all these facts.
    """

    version: str
    started: float
    now: float
    up: bool
    link: ConnectionStatus


def process_metrics(daemon: str, process: DaemonProcess) -> tuple[Metric, ...]:
    """Return the metrics that all daemons have, ``zkdeployment_DAEMON_…``."""
    link = process.link
    return (
        gauge(f"{daemon}_up", "1 while the daemon runs, 0 after an orderly end.", process.up),
        info(f"{daemon}_build_info", "The version of the program, as the label.", process.version, "version"),
        gauge(f"{daemon}_start_timestamp_seconds", "When the daemon started.", process.started),
        gauge(f"{daemon}_alive_timestamp_seconds", "When the daemon last wrote its metrics.", process.now),
        gauge(f"{daemon}_zookeeper_connected", "1 while the daemon is connected to ZooKeeper.", link.connected),
        counter(f"{daemon}_zookeeper_connections_total", "Connections made to ZooKeeper.", link.connections),
        counter(
            f"{daemon}_zookeeper_sessions_total",
            "Sessions with ZooKeeper; each session after the first replaces a lost session.",
            link.sessions,
        ),
    )


def gauge(name: str, description: str, value: float | None) -> Metric:
    """Return a gauge without labels; ``None`` is a value that is not known."""
    return Metric(f"zkdeployment_{name}", description, {} if value is None else {(): float(value)})


def counter(name: str, description: str, value: int) -> Metric:
    """Return a counter without labels."""
    return Metric(f"zkdeployment_{name}", description, {(): value}, kind=MetricKind.COUNTER)


def labelled(
    name: str, description: str, label: str, values: Mapping[str, float], kind: MetricKind = MetricKind.GAUGE
) -> Metric:
    """Return a metric with one label, from its values by the values of the label."""
    samples: dict[tuple[str, ...], float] = {(key,): value for key, value in values.items()}
    return Metric(f"zkdeployment_{name}", description, samples, (label,), kind)


def info(name: str, description: str, value: object, label: str = "revision") -> Metric:
    """Return a metric that has a text as the value of its label; ``None`` is a text that is not known."""
    return Metric(f"zkdeployment_{name}", description, {} if value is None else {(str(value),): 1}, (label,))
