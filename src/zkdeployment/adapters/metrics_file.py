"""Writes metrics for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.late_imports import late_import
from zkdeployment.errors import RestartError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from prometheus_client.core import Metric as Family

    from zkdeployment.fleet.metrics.metric import Metric


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
            durable.replace(self._file, render(metrics), sync=False)
        except (OSError, RestartError) as error:
            if not self._failure_logged:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                get_logger().warning("metrics-not-written", file=str(self._file), reason=reason)
            self._failure_logged = True
        else:
            self._failure_logged = False


def render(metrics: Iterable[Metric]) -> bytes:
    """Return metrics in Prometheus' text format, version 0.0.4; a metric without samples has only a help text."""
    with late_import():  # metrics are optional, the import takes a megabyte
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
