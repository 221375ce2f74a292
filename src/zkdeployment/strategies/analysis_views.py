"""The analyses of groups as operators see them: verdicts in words, sparklines, and the geometry of plots."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.records import OMITTED, Key, Record
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.strategies.analysis import (
    AnalysisMetric,
    GroupAnalysis,
    Measurement,
    MetricProgress,
    MetricStage,
    MetricValue,
    Outcome,
    describe_measurement,
    number_text,
)
from zkdeployment.strategies.queries import UnresolvedError, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.strategies.strategy import Group

_WORDS = {
    MetricStage.UNPROVEN: "measuring",
    MetricStage.PROVEN: "passes so far",
    MetricStage.GAP: "passes so far",
    MetricStage.SILENT: "passed, but has no data now",
    MetricStage.WAITING: "waits for a measurement that passes",
    MetricStage.STALE: "passed, but waits for data",
    MetricStage.PASSED: "passed",
    MetricStage.FAILED: "failed",
    MetricStage.OVERDUE: "waits for an operator",
}

#: The limit of metrics that a sentence names.
_NAMED = 4


@dataclass(frozen=True, slots=True)
class MetricStatus(Record):
    """A metric of a group with its measurements; ``verdict`` is the verdict so far in words.

    ``query`` has the values of its variables at the last measurement. ``passed``, ``failed`` and ``no_data`` count
    all measurements. ``bake_time`` is in seconds. ``graph`` is the address of the server's own graph of the query.
    """

    name: str
    verdict: str
    stage: MetricStage
    query: str
    passes: Annotated[str, Key("pass")]
    passed: int
    failed: int
    no_data: int
    bake_time: float
    dry_run: Annotated[bool, OMITTED] = False
    before: MetricValue = None
    graph: Annotated[str, OMITTED] = ""
    measurements: tuple[Measurement, ...] = ()

    @property
    def counts(self) -> str:
        """The numbers of measurements by outcome."""
        numbers = {"passed": self.passed, "failed": self.failed, "without data": self.no_data}
        return ", ".join(f"{number} {outcome}" for outcome, number in numbers.items() if number) or "not measured"

    @property
    def last(self) -> str:
        """The last measurement in words."""
        return describe_measurement(self.passes, self.measurements[-1]) if self.measurements else ""


def metric_statuses(state: RolloutState, group: Group) -> tuple[MetricStatus, ...]:
    """Return the status of each metric of a group."""
    analysis = state.analyses.get(group.name, GroupAnalysis())
    return tuple(_status(metric, analysis, group.pace.bake_time) for metric in group.pace.analysis)


def _status(metric: AnalysisMetric, analysis: GroupAnalysis, bake_time: float) -> MetricStatus:
    progress = analysis.progress(metric)
    query = _query(metric, analysis, progress)
    server = progress.measurements[-1].server if progress.measurements else ""
    return MetricStatus(
        name=metric.name,
        verdict=describe_metric(metric, progress),
        stage=progress.stage,
        query=query,
        passes=metric.passes.text,
        passed=progress.passed,
        failed=progress.failed,
        no_data=progress.no_data,
        bake_time=bake_time,
        dry_run=metric.dry_run,
        before=progress.before,
        graph=analysis.graphs.get(server, ""),
        measurements=tuple(replace(each, variables=None) for each in progress.measurements),
    )


def _query(metric: AnalysisMetric, analysis: GroupAnalysis, progress: MetricProgress) -> str:
    """Return the query with the values of the last measurement, or else with its variables."""
    variables = analysis.variables_of(progress.measurements[-1]) if progress.measurements else None
    try:
        return metric.query if variables is None else resolve(metric.query, variables)
    except UnresolvedError:
        return metric.query


def describe_metric(metric: AnalysisMetric, progress: MetricProgress) -> str:
    """Return the verdict on a metric so far in words."""
    if metric.dry_run:
        return "only shown"
    if progress.stage is MetricStage.UNPROVEN and progress.failed:
        return "has not passed yet"
    return _WORDS[progress.stage]


def summarize_metrics(state: RolloutState, group: Group) -> str:
    """Return a sentence on the metrics of a group; empty before its first measurement."""
    analysis = state.analyses.get(group.name)
    if analysis is None or not analysis.metrics:
        return ""
    statuses = metric_statuses(state, group)
    return listing([f"{status.name} {status.verdict} ({status.counts})" for status in statuses], _NAMED)


#: The blocks of a sparkline, the smallest value first, and the sign of a gap.
_BLOCKS = "▁▂▃▄▅▆▇█"
_GAP = "·"


def sparkline(measurements: Sequence[Measurement], most: int = 40) -> Iterator[tuple[str, bool]]:
    """Yield the last ``most`` measurements as characters, each with whether the measurement failed."""
    shown = measurements[-most:]
    share = _scale([measurement.value for measurement in shown if measurement.value is not None])
    for measurement in shown:
        block = _GAP
        if measurement.value is not None:
            block = _BLOCKS[min(len(_BLOCKS) - 1, int(share(measurement.value) * len(_BLOCKS)))]
        yield block, measurement.outcome is Outcome.FAILED


def _scale(values: Sequence[float]) -> Callable[[float], float]:
    """Return the function from a value to its share of the span of all finite ones, from 0 to 1.

    Infinities are at the ends.
    """
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    unit = max(abs(low), abs(high)) or 1.0  # a span may be larger than every number
    span = high / unit - low / unit

    def share(value: float) -> float:
        if math.isinf(value):
            return float(value > 0)
        return (value / unit - low / unit) / span if span else 0.0

    return share


#: The size of a plot, its border, and the most points of its lines.
WIDTH, HEIGHT = 320, 72
_BORDER = 6
_MOST_POINTS = 60


@dataclass(frozen=True, slots=True)
class MetricPlot:
    """The geometry of a plot over the bake time: paths of SVG, and the places of failed measurements.

    A missing value is a gap in the path. ``low`` and ``high`` are the values at the lower and the upper border;
    infinities are there.
    """

    value: str
    limit: str
    others: str
    failed: tuple[tuple[float, float], ...]
    missing: tuple[float, ...]
    low: str
    high: str


def plot(status: MetricStatus) -> MetricPlot | None:
    """Return the plot of a metric; ``None`` before its first measurement."""
    points = _fewer(status.measurements)
    if not points:
        return None
    numbers = [
        number for point in points for number in (point.value, point.limit, point.others) if number is not None
    ] or [0.0]
    share, end = _scale(numbers), max(status.bake_time, points[-1].at) or 1.0

    def x(point: Measurement) -> float:
        return round(_BORDER + point.at / end * (WIDTH - 2 * _BORDER), 1)

    def y(number: float) -> float:
        return round(HEIGHT - _BORDER - share(number) * (HEIGHT - 2 * _BORDER), 1)

    def path(number_of: Callable[[Measurement], float | None]) -> str:
        return _path([(x(point), None if (n := number_of(point)) is None else y(n)) for point in points])

    return MetricPlot(
        value=path(lambda point: point.value),
        limit=path(lambda point: point.limit),
        others=path(lambda point: point.others),
        failed=tuple(
            (x(point), y(point.value))
            for point in points
            if point.outcome is Outcome.FAILED and point.value is not None
        ),
        missing=tuple(x(point) for point in points if point.outcome is Outcome.NO_DATA),
        low=number_text(min(numbers), 3),
        high=number_text(max(numbers), 3),
    )


def _fewer(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return evenly chosen measurements, the last one and all failed ones."""
    step = -(-len(measurements) // _MOST_POINTS) or 1
    last = len(measurements) - 1
    return [
        measurement
        for number, measurement in enumerate(measurements)
        if number % step == 0 or number == last or measurement.outcome is Outcome.FAILED
    ]


def _path(points: Iterable[tuple[float, float | None]]) -> str:
    """Return the path through points; a point alone between gaps is a short line."""
    parts = []
    for is_gap, run in groupby(points, lambda point: point[1] is None):
        if not is_gap:
            places = [f"{x:g} {y:g}" for x, y in run]
            parts.append(f"M{'L'.join(places)}" if places[1:] else f"M{places[0]}h1")
    return "".join(parts)
