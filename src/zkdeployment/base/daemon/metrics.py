"""Metrics: their values, the metrics that all daemons have, and the file for Prometheus' node exporter.

The metrics of a single kind of daemon are in the module of that daemon. A value that is not known has no sample.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.base.errors import RestartError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files
from zkdeployment.base.machine.program import late_import
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from prometheus_client.core import Metric as Family

    from zkdeployment.base.daemon.connection_status import ConnectionStatus
    from zkdeployment.base.machine.clock import Clock


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


#: The least seconds between two writes of metrics during an operation.
PACE = 10.0


class Probe:
    """Reads the facts about this process.

    ``version`` is the version of the program, ``link`` returns the status of the connection to ZooKeeper.
    """

    def __init__(
        self, file: MetricsFile, clock: Clock, link: Callable[[], ConnectionStatus], version: str
    ) -> None:
        self._link = link
        self._version = version
        self._started = clock.now()
        self.file = file
        self.clock = clock

    def process(self, *, up: bool) -> DaemonProcess:
        """Return the facts about the process now."""
        return DaemonProcess(self._version, self._started, self.clock.now(), up, self._link())


class CycleTelemetry:
    """Counts the cycles of a ``daemon`` by their ``outcomes``, and writes its metrics."""

    def __init__(self, daemon: str, probe: Probe, outcomes: Iterable[str]) -> None:
        self.daemon = daemon
        self.probe = probe
        self.cycles = dict.fromkeys(outcomes, 0)
        self._due = 0.0

    def count(self, outcome: str) -> None:
        """Record the outcome of a cycle."""
        self.cycles[outcome] += 1

    def is_due(self) -> bool:
        """Whether the last write was at least ``PACE`` seconds ago."""
        return self.probe.clock.monotonic() >= self._due

    def write(self, metrics: Iterable[Metric], *, up: bool = True) -> None:
        """Write these metrics and those of the process and its cycles; ``up``: whether the daemon continues."""
        self._due = self.probe.clock.monotonic() + PACE
        process = self.probe.process(up=up)
        self.probe.file.write((*cycle_metrics(self.daemon, process, self.cycles), *metrics))


def cycle_metrics(daemon: str, process: DaemonProcess, cycles: Mapping[str, int]) -> tuple[Metric, ...]:
    """Return the metrics of a daemon that works in cycles, which are counted by outcome."""
    meaning = "Cycles of this process, by outcome."
    looks = labelled(f"{daemon}_looks_total", meaning, "result", cycles, MetricKind.COUNTER)
    return (*process_metrics(daemon, process), looks)


class MetricsFile:
    """Replaces ``file`` atomically; without a file, no metrics are written.

    A failure is logged once, and again only after a successful write; it has no other effect.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._failure_logged = False

    def write(self, metrics: Iterable[Metric]) -> None:
        """Replace all published metrics."""
        if self._file is None:
            return
        try:
            # The collector reads every file that ends in .prom; the temporary file does not.
            files.replace(self._file, render(metrics), sync=False)
        except (OSError, RestartError) as error:
            if not self._failure_logged:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                get_logger().warning("metrics-not-written", file=str(self._file), reason=reason)
            self._failure_logged = True
        else:
            self._failure_logged = False


def render(metrics: Iterable[Metric]) -> bytes:
    """Return metrics in Prometheus' text format, version 0.0.4; a metric without samples has only a help text."""
    with late_import():  # metrics are optional, and the import takes a megabyte
        from prometheus_client import generate_latest  # noqa: PLC0415
        from prometheus_client.core import Metric as Family  # noqa: PLC0415

    return generate_latest(_Collector(metrics, Family))


class _Collector:
    """The metrics as a collector of prometheus_client."""

    def __init__(self, metrics: Iterable[Metric], family: type[Family]) -> None:
        self._metrics = metrics
        self._family = family

    def collect(self) -> Iterator[Family]:
        """Yield each metric with its samples."""
        for metric in self._metrics:
            family = self._family(metric.name.removesuffix("_total"), metric.help, metric.kind.value)
            for values, number in metric.samples.items():
                labels = dict(zip(metric.labels, map(_encodable, values), strict=True))
                family.add_sample(metric.name, labels, number)
            yield family


def _encodable(text: str) -> str:
    """Return the text with lone surrogates escaped; JSON from ZooKeeper may contain them."""
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")
