"""Metrics, as a Prometheus collector reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from zkdeployment.base.daemon.metrics import MetricsFile, Probe
from zkdeployment.base.machine.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

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
