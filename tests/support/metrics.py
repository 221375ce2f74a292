"""Metrics, as a Prometheus collector reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from zkdeployment.base.daemon.metrics import MetricKind, MetricsFile, Probe
from zkdeployment.base.machine.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from zkdeployment.base.daemon.metrics import Metric
    from zkdeployment.zookeeper.session import Session


def probe_of(session: Session, file: Path | None = None) -> Probe:
    """Return the probe of a daemon with this session."""
    return Probe(MetricsFile(file), SystemClock(), lambda: session.link, "1.2.3")


def read_metrics(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the samples by name, without the prefix ``zkdeployment_``, and by label values."""
    samples: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in {"gauge", "counter"}
        for sample in family.samples:
            name = sample.name.removeprefix("zkdeployment_")
            assert name != sample.name
            samples.setdefault(name, {})[tuple(sample.labels.values())] = sample.value
    return samples


def samples(metrics: Iterable[Metric]) -> dict[str, Any]:
    """Return the samples of valid metrics by their names, without the names of the project and of the daemon."""
    metrics = [*metrics]
    names = [metric.name for metric in metrics]
    assert len(set(names)) == len(names)
    assert all(metric.help for metric in metrics)
    assert all((metric.kind is MetricKind.COUNTER) == metric.name.endswith("_total") for metric in metrics)
    return {
        metric.name.removeprefix("zkdeployment_").partition("_")[2]: metric.samples.get((), metric.samples)
        for metric in metrics
    }
