"""The analysis of a group: measurements of metrics decide whether the group is healthy.

``ANALYSIS_TRANSITIONS`` is the whole state machine of a metric. The counts of outcomes are kept apart from the
measurements, so that the verdict does not depend on measurements that were thinned out.

The clock of an analysis starts when all hosts of the group are done. Times on this clock are seconds; they do not
count a halt or a time without a coordinator. Queries and their variables belong to ``queries``.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import Annotated, Any, Literal

from zkdeployment.base.durations import age
from zkdeployment.base.records import OMITTED, Key, Record, codec, invalid
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.strategies.queries import QueryVariables

#: The default of ``interval``: seconds between two measurements.
INTERVAL = 60.0

#: The decimals of seconds on the clock of an analysis: three intervals of 0.1 s are 0.3 s.
_DECIMALS = 6

#: The measurements of a metric that are kept.
MOST_MEASUREMENTS = 200

#: Seconds after the bake time, and after the deadline, in which the answer to the last measurement may still come.
LATE = 60.0

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_BOUND = rf"(?:{_NUMBER})(?:\s*\*\s*(?:before|others))?"
_PASS = re.compile(rf"\s*(?:(<=|>=|<|>|==)\s*({_BOUND})|(between)\s+({_BOUND})\s+and\s+({_BOUND}))\s*", re.ASCII)

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


class Outcome(Enum):
    """The outcome of one measurement."""

    PASSED = "passed"
    FAILED = "failed"
    NO_DATA = "no data"


class NoData(Enum):
    """The effect of a measurement without data: it counts as passed, as failed or, with ``WAITS``, as neither."""

    WAITS = "wait"
    PASSES = "pass"
    FAILS = "fail"


@dataclass(frozen=True, slots=True)
class Bound:
    """A number, or a multiple of the value ``before`` the deployment or of the ``others``."""

    factor: float
    of: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison that the value of a metric has to pass; ``text`` is its form in documents."""

    text: str
    operator: str
    bounds: tuple[Bound, ...]

    def uses(self, name: str) -> bool:
        """Whether a bound is a multiple of ``before`` or ``others``."""
        return any(bound.of == name for bound in self.bounds)

    def limits(self, references: Mapping[str, float | None]) -> tuple[float, ...] | None:
        """Return the bounds as numbers; ``None`` if a bound has no value."""
        found = [references.get(bound.of) if bound.of else 1.0 for bound in self.bounds]
        limits = tuple(
            math.nan if value is None else bound.factor * value
            for bound, value in zip(self.bounds, found, strict=True)
        )
        return None if any(map(math.isnan, limits)) else limits

    def holds(self, value: float, limits: Sequence[float]) -> bool:
        """Whether a value passes the comparison with these limits."""
        if self.operator == "between":
            return min(limits) <= value <= max(limits)  # multiples of a negative number are in the other order
        return _OPERATORS[self.operator](value, limits[0])


def parse_comparison(text: str) -> Comparison:
    """Parse the value of ``pass``; raises ``ValueError`` for anything but a comparison."""
    match = _PASS.fullmatch(text)
    if match is None:
        raise ValueError(
            f"expected a comparison as in '<= 0.01', 'between 1 and 2' or '<= 1.2 * others', found {text!r}"
        )
    comparison, bound, between, low, high = match.groups()
    bounds = tuple(_bound(text) for text in ((bound,) if between is None else (low, high)))
    if not all(math.isfinite(each.factor) for each in bounds):
        raise ValueError(f"expected finite numbers, found {text!r}")
    if between and bounds[0].of == bounds[1].of == "" and bounds[0].factor > bounds[1].factor:
        raise ValueError(f"no value passes {text!r}; expected the smaller number first")
    return Comparison(text, comparison or between, bounds)


def _bound(text: str) -> Bound:
    factor, _, name = (part.strip() for part in text.partition("*"))
    return Bound(float(factor), name)


@dataclass(frozen=True, slots=True)
class AnalysisMetric:
    """A metric of a group's analysis. Times are in seconds. ``server`` is empty if there is only one.

    ``compare`` is ``others`` or ``before`` if that value is measured even if ``passes`` does not use it.
    """

    name: str
    query: str
    passes: Comparison
    interval: float = INTERVAL
    initial_delay: float = 0.0
    failure_limit: int = 0
    no_data: NoData = NoData.WAITS
    compare: str = ""
    dry_run: bool = False
    server: str = ""

    def uses(self, name: str) -> bool:
        """Whether the metric is compared with ``before`` or ``others``, or shows it."""
        return self.compare == name or self.passes.uses(name)

    def due(self, number: int) -> float:
        """Return when a measurement (numbered from 0) is due, on the clock of the analysis."""
        return round(self.initial_delay + number * self.interval, _DECIMALS)


@dataclass(frozen=True, slots=True)
class AnalysisClock:
    """The times of a group's analysis in seconds: measurements end with ``bake_time``.

    Metrics that wait are measured until ``deadline`` seconds after that.
    """

    bake_time: float
    deadline: float

    @property
    def ends(self) -> tuple[float, ...]:
        """The times at which stages change although no measurement is taken, on the clock of the analysis."""
        return tuple(end + late for end in (self.bake_time, self.end) for late in (0.0, LATE))

    @property
    def end(self) -> float:
        """The end of all measurements, on the clock of the analysis."""
        return round(self.bake_time + self.deadline, _DECIMALS)


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer of a server about a metric; without a ``value``, ``problem`` states the reason.

    ``others`` is the value of the hosts that do not have the revision, ``others_problem`` why it is missing.
    """

    value: float | None = None
    problem: str = ""
    others: float | None = None
    others_problem: str = ""


#: The significant digits of values, also of kept ones: a rollout may have ten thousand measurements in one node.
_DIGITS = 6

#: The infinities as text, as Prometheus writes them: JSON has none.
_INFINITIES = {math.inf: "+Inf", -math.inf: "-Inf"}
_FROM_TEXT = {text: value for value, text in _INFINITIES.items()}


def number_text(value: float, digits: int = _DIGITS) -> str:
    """Return a number for people with so many significant digits; infinities as ``+Inf`` and ``-Inf``."""
    return _INFINITIES.get(value) or f"{value:.{digits}g}"


def _read_number(value: Any) -> float | None:
    if isinstance(value, str) and value in _FROM_TEXT:
        return _FROM_TEXT[value]
    if value is None or (type(value) in {int, float} and math.isfinite(value)):
        return value if value is None else float(value)
    raise invalid("a number, +Inf or -Inf", value)


def _write_number(value: float | None) -> float | str | None:
    return None if value is None else _INFINITIES.get(value, value)


#: A value of a metric in records: a number of any size, or an infinity; ``None`` without a value.
MetricValue = Annotated[
    float | None,
    Key(omit=True, read=_read_number, write=_write_number, form=float | Literal["+Inf", "-Inf"]),
]


@dataclass(frozen=True, slots=True)
class Measurement(Record):
    """One measurement: ``at`` on the clock of the analysis, at ``time`` in seconds since the epoch.

    ``limit`` is the bound, or the upper bound, with which the value was compared. ``problem`` is the reason for
    missing data. ``variables`` is the number of the variables with which the query was resolved.
    """

    at: float
    time: float
    outcome: Outcome
    value: MetricValue = None
    limit: MetricValue = None
    others: MetricValue = None
    problem: Annotated[str, OMITTED] = ""
    server: Annotated[str, OMITTED] = ""
    variables: Annotated[int | None, OMITTED] = None


#: The column that is a list also if it has only one value.
_LIST = "at"


def _to_columns(measurements: Sequence[Measurement]) -> dict[str, Any]:
    """Return the values of each field in one list; a value that all measurements have stands for its list.

    A rollout may have ten thousand measurements, and all of them are written with each new one: as objects, they
    take several times as long.
    """
    columns = {}
    for form in codec(Measurement).fields:
        values = [getattr(measurement, form.name) for measurement in measurements]
        is_alike = bool(values) and form.key != _LIST and values.count(values[0]) == len(values)
        kept = values[:1] if is_alike else values
        if form.omit and (not kept or (is_alike and kept[0] == form.default)):
            continue
        written = kept if form.write is None else [*map(form.write, kept)]
        columns[form.key] = written[0] if is_alike else written
    return columns


def _from_columns(columns: Any) -> tuple[Measurement, ...]:
    """Return the measurements in their columns; raises ``ValueError`` if the columns are invalid."""
    if not isinstance(columns, dict) or not isinstance(columns.get(_LIST), list):
        raise invalid("the columns of measurements", columns)
    count = len(columns[_LIST])
    fields = []
    for form in codec(Measurement).fields:
        column = columns.get(form.key, form.default if form.omit else None)
        fields.append([*map(form.read, column)] if isinstance(column, list) else [form.read(column)] * count)
    return tuple(itertools.starmap(Measurement, zip(*fields, strict=True)))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def measure(
    metric: AnalysisMetric, reading: Reading, before: float | None, *, at: float, time: float
) -> Measurement:
    """Return the measurement with the outcome of a reading."""
    value, others = comparable(reading.value), comparable(reading.others)
    limits = metric.passes.limits({"before": comparable(before), "others": others})
    if value is None:
        outcome, problem = Outcome.NO_DATA, reading.problem or _not_comparable(reading.value)
    elif limits is None:
        outcome, problem = Outcome.NO_DATA, _no_limit(metric, reading, before)
    else:
        outcome, problem = Outcome.PASSED if metric.passes.holds(value, limits) else Outcome.FAILED, ""
    limit = None if limits is None else limits[-1]
    return Measurement(
        round(at, 3), round(time, 1), outcome, _rounded(value), _rounded(limit), _rounded(others), problem
    )


def comparable(value: float | None) -> float | None:
    """Return a value that can be compared, which an infinity can; ``None`` for NaN and no value."""
    return None if value is None or math.isnan(value) else value


def _not_comparable(value: float | None) -> str:
    return "the server has no value" if value is None else "the value is NaN"


def _no_limit(metric: AnalysisMetric, reading: Reading, before: float | None) -> str:
    if metric.passes.uses("others") and comparable(reading.others) is None:
        return f"no value of the others: {reading.others_problem or _not_comparable(reading.others)}"
    if metric.passes.uses("before") and comparable(before) is None:
        return f"no value before the deployment: {_not_comparable(before)}"
    return "the limit is NaN"


class MetricStage(Enum):
    """The stage of a metric; ``PASSED``, ``FAILED`` and ``OVERDUE`` are final."""

    UNPROVEN = "unproven"  # no measurement passed yet
    PROVEN = "proven"  # a measurement passed, and the last one has data
    GAP = "gap"  # a measurement passed, and the last one has no data
    SILENT = "silent"  # a measurement passed, and the last two have no data
    WAITING = "waiting"  # the bake time is over, and no measurement passed
    STALE = "stale"  # the bake time is over, a measurement passed, and the last two have no data
    PASSED = "passed"
    FAILED = "failed"
    OVERDUE = "overdue"  # the metric waited in vain: an operator decides


class MetricEvent(Enum):
    """An event that may change the stage of a metric."""

    PASSED = "a measurement passed"
    TOLERATED = "a measurement failed, within the limit of failures"
    EXCEEDED = "a measurement failed, above the limit of failures"
    NO_DATA = "a measurement has no data"
    BAKED = "the bake time is over"
    DEADLINE = "the progress deadline is over"


#: The stage of a metric after an event; other events do not occur in a stage.
ANALYSIS_TRANSITIONS: Mapping[tuple[MetricStage, MetricEvent], MetricStage] = {
    (MetricStage.UNPROVEN, MetricEvent.PASSED): MetricStage.PROVEN,
    (MetricStage.UNPROVEN, MetricEvent.TOLERATED): MetricStage.UNPROVEN,
    (MetricStage.UNPROVEN, MetricEvent.EXCEEDED): MetricStage.FAILED,
    (MetricStage.UNPROVEN, MetricEvent.NO_DATA): MetricStage.UNPROVEN,
    (MetricStage.UNPROVEN, MetricEvent.BAKED): MetricStage.WAITING,
    (MetricStage.PROVEN, MetricEvent.PASSED): MetricStage.PROVEN,
    (MetricStage.PROVEN, MetricEvent.TOLERATED): MetricStage.PROVEN,
    (MetricStage.PROVEN, MetricEvent.EXCEEDED): MetricStage.FAILED,
    (MetricStage.PROVEN, MetricEvent.NO_DATA): MetricStage.GAP,
    (MetricStage.PROVEN, MetricEvent.BAKED): MetricStage.PASSED,
    (MetricStage.GAP, MetricEvent.PASSED): MetricStage.PROVEN,
    (MetricStage.GAP, MetricEvent.TOLERATED): MetricStage.PROVEN,
    (MetricStage.GAP, MetricEvent.EXCEEDED): MetricStage.FAILED,
    (MetricStage.GAP, MetricEvent.NO_DATA): MetricStage.SILENT,
    (MetricStage.GAP, MetricEvent.BAKED): MetricStage.PASSED,
    (MetricStage.SILENT, MetricEvent.PASSED): MetricStage.PROVEN,
    (MetricStage.SILENT, MetricEvent.TOLERATED): MetricStage.PROVEN,
    (MetricStage.SILENT, MetricEvent.EXCEEDED): MetricStage.FAILED,
    (MetricStage.SILENT, MetricEvent.NO_DATA): MetricStage.SILENT,
    (MetricStage.SILENT, MetricEvent.BAKED): MetricStage.STALE,
    (MetricStage.WAITING, MetricEvent.PASSED): MetricStage.PASSED,
    (MetricStage.WAITING, MetricEvent.TOLERATED): MetricStage.WAITING,
    (MetricStage.WAITING, MetricEvent.EXCEEDED): MetricStage.FAILED,
    (MetricStage.WAITING, MetricEvent.NO_DATA): MetricStage.WAITING,
    (MetricStage.WAITING, MetricEvent.DEADLINE): MetricStage.OVERDUE,
    (MetricStage.STALE, MetricEvent.PASSED): MetricStage.PASSED,
    (MetricStage.STALE, MetricEvent.TOLERATED): MetricStage.PASSED,
    (MetricStage.STALE, MetricEvent.EXCEEDED): MetricStage.FAILED,
    (MetricStage.STALE, MetricEvent.NO_DATA): MetricStage.STALE,
    (MetricStage.STALE, MetricEvent.DEADLINE): MetricStage.OVERDUE,
}

#: The stages after the bake time in which a metric is measured further.
_MEASURED_ON = frozenset({MetricStage.WAITING, MetricStage.STALE})


_EVENTS = {
    Outcome.PASSED: MetricEvent.PASSED,
    Outcome.FAILED: MetricEvent.TOLERATED,
    Outcome.NO_DATA: MetricEvent.NO_DATA,
}


@dataclass(frozen=True, slots=True)
class MetricProgress(Record):
    """The measurements of a metric so far, of which at most ``MOST_MEASUREMENTS`` are kept.

    ``passed``, ``failed`` and ``no_data`` count all outcomes. ``next`` is the number of the next measurement.
    ``before`` is the value when the group's deploy phase began, which was measured at ``before_at`` in seconds
    since the epoch. Every ``stride``-th measurement is kept.
    """

    stage: MetricStage = MetricStage.UNPROVEN
    passed: int = 0
    failed: int = 0
    no_data: int = 0
    next: int = 0
    stride: int = 1
    before: MetricValue = None
    before_at: Annotated[float | None, OMITTED] = None
    measurements: Annotated[tuple[Measurement, ...], Key(read=_from_columns, write=_to_columns)] = ()

    @property
    def is_final(self) -> bool:
        """Whether no further measurement changes the stage."""
        return self.stage in {MetricStage.PASSED, MetricStage.FAILED, MetricStage.OVERDUE}


#: The sets of variables that the analysis of a group keeps: at least the last few ones, and more of them if they
#: have no more values, such as addresses, than this.
_FEW_VARIABLES = 3
_MOST_VALUES = 20_000


@dataclass(frozen=True, slots=True)
class GroupAnalysis(Record):
    """The analysis of a group: the progress of its metrics by name, and the decision of an operator.

    ``promoted`` is whether an operator let the group pass, ``rejection`` the reason for which an operator let it
    fail. ``variables`` are the last sets of values with which queries were resolved; ``forgotten`` earlier sets
    are no longer known. ``graphs`` are the addresses of the servers' own graphs, by the name of the server.
    ``before`` are the values, read while the group prepared, for the query before the deploy phase: hosts that
    deploy at once may no longer have instances when that value is measured.
    """

    metrics: Mapping[str, MetricProgress] = field(default_factory=dict)
    promoted: Annotated[bool, OMITTED] = False
    rejection: Annotated[str, OMITTED] = ""
    variables: tuple[QueryVariables, ...] = ()
    forgotten: Annotated[int, OMITTED] = 0
    graphs: Annotated[Mapping[str, str], OMITTED] = field(default_factory=dict)
    before: Annotated[QueryVariables | None, OMITTED] = None

    def progress(self, metric: AnalysisMetric) -> MetricProgress:
        """Return the progress of a metric."""
        return self.metrics.get(metric.name, MetricProgress())

    def remembering(self, variables: QueryVariables | None) -> tuple[GroupAnalysis, int | None]:
        """Return the analysis that remembers these values, and their number."""
        if variables is None:
            return self, None
        kept, forgotten = self.variables, self.forgotten
        if variables in kept:
            return self, forgotten + kept.index(variables)
        kept, number, gone = (*kept, variables), forgotten + len(kept), 0
        values = sum(each.size for each in kept)
        while len(kept) - gone > (_FEW_VARIABLES if values > _MOST_VALUES else MOST_MEASUREMENTS):
            values -= kept[gone].size
            gone += 1
        return replace(self, variables=kept[gone:], forgotten=forgotten + gone), number

    def without_variables(self) -> GroupAnalysis:
        """Return the analysis without the values of variables."""
        return replace(self, variables=(), forgotten=self.forgotten + len(self.variables), before=None)

    def thinned(self, most: int) -> GroupAnalysis:
        """Return the analysis with at most so many measurements of each metric, evenly thinned."""
        return replace(self, metrics={name: _thinned(each, most) for name, each in self.metrics.items()})

    def variables_of(self, measurement: Measurement) -> QueryVariables | None:
        """Return the values with which the query of a measurement was resolved; ``None`` if they are forgotten."""
        number = None if measurement.variables is None else measurement.variables - self.forgotten
        return self.variables[number] if number is not None and 0 <= number < len(self.variables) else None


def next_due(metric: AnalysisMetric, progress: MetricProgress, clock: AnalysisClock) -> float | None:
    """Return when the next measurement is due, on the clock of the analysis; ``None`` if none will be."""
    due = metric.due(progress.next)
    return due if due <= _end(metric, progress, clock) else None


def _end(metric: AnalysisMetric, progress: MetricProgress, clock: AnalysisClock) -> float:
    """Return when the last measurement may be due in the present stage."""
    if progress.is_final:
        return -math.inf
    return clock.end if progress.stage in _MEASURED_ON and not metric.dry_run else clock.bake_time


def number_due(metric: AnalysisMetric, progress: MetricProgress, clock: AnalysisClock, at: float) -> int | None:
    """Return the number of the newest measurement that is due ``at`` a time on the clock; ``None`` without one.

    Earlier measurements that were due were missed, for example because no coordinator ran.
    """
    end = min(at, _end(metric, progress, clock))
    if metric.due(progress.next) > end:
        return None
    number = max(progress.next, int((end - metric.initial_delay) / metric.interval) - 1)
    while metric.due(number + 1) <= end:
        number += 1
    return number


def take(
    metric: AnalysisMetric, progress: MetricProgress, measurement: Measurement, number: int
) -> MetricProgress:
    """Return the progress of a metric after the measurement with this number."""
    failed = progress.failed + (measurement.outcome is Outcome.FAILED)
    no_data = progress.no_data + (measurement.outcome is Outcome.NO_DATA)
    measurements, stride = _added(progress, measurement)
    after = replace(
        progress,
        passed=progress.passed + (measurement.outcome is Outcome.PASSED),
        failed=failed,
        no_data=no_data,
        next=number + 1,
        stride=stride,
        measurements=measurements,
    )
    event = _EVENTS[effective(metric, measurement.outcome)]
    if event is MetricEvent.TOLERATED and failures(metric, after) > metric.failure_limit and not metric.dry_run:
        event = MetricEvent.EXCEEDED
    return replace(after, stage=ANALYSIS_TRANSITIONS[progress.stage, event])


def failures(metric: AnalysisMetric, progress: MetricProgress) -> int:
    """Return the number of measurements that count as failed after ``no_data`` of the metric is applied."""
    return progress.failed + (progress.no_data if metric.no_data is NoData.FAILS else 0)


def effective(metric: AnalysisMetric, outcome: Outcome) -> Outcome:
    """Return the outcome after ``no_data`` of the metric is applied."""
    if outcome is not Outcome.NO_DATA or metric.no_data is NoData.WAITS:
        return outcome
    return Outcome.PASSED if metric.no_data is NoData.PASSES else Outcome.FAILED


def _added(progress: MetricProgress, measurement: Measurement) -> tuple[tuple[Measurement, ...], int]:
    """Return the kept measurements and their stride: evenly thinned ones, and always the newest."""
    kept, stride = _even(progress), progress.stride
    if len(kept) == MOST_MEASUREMENTS:
        kept, stride = kept[::2], 2 * stride
    return (*kept, measurement), stride


def _even(progress: MetricProgress) -> tuple[Measurement, ...]:
    """Return the measurements without the newest one if that is between two strides."""
    newest = progress.passed + progress.failed + progress.no_data - 1
    return progress.measurements[:-1] if newest % progress.stride else progress.measurements


def _thinned(progress: MetricProgress, most: int) -> MetricProgress:
    """Return the progress with at most so many measurements, always with the newest one."""
    while len(progress.measurements) > most:
        newest, kept = progress.measurements[-1], _even(progress)[::2]
        kept = kept if kept[-1] is newest else (*kept, newest)
        progress = replace(progress, measurements=kept, stride=2 * progress.stride)
    return progress


def settle(
    metric: AnalysisMetric, progress: MetricProgress, clock: AnalysisClock, at: float, *, begun: float
) -> MetricProgress:
    """Return the progress after the ends of the bake time and of the deadline that have passed ``at`` a time.

    The last measurement that is due before an end is taken first. If its answer does not come within ``LATE``
    seconds, it has no data: time alone ends the wait for a server. A later answer still counts if missing data
    wait. ``begun`` is when the clock began, in seconds since the epoch.
    """
    for event, end in ((MetricEvent.BAKED, clock.bake_time), (MetricEvent.DEADLINE, clock.end)):
        stage, is_missing = progress.stage, metric.due(progress.next) <= end
        if at < (end + LATE if is_missing else end) or (stage, event) not in ANALYSIS_TRANSITIONS:
            continue
        if is_missing and metric.no_data is not NoData.WAITS and not metric.dry_run:
            problem = f"no answer within {LATE:.0f} s"
            missing = Measurement(at=end, time=begun + end, outcome=Outcome.NO_DATA, problem=problem)
            progress = take(metric, progress, missing, progress.next)
        elif is_missing:
            progress = replace(progress, stage=ANALYSIS_TRANSITIONS[stage, MetricEvent.NO_DATA])
        if not progress.is_final:
            progress = replace(progress, stage=ANALYSIS_TRANSITIONS[progress.stage, event])
    return progress


def verdict(metric: AnalysisMetric, progress: MetricProgress) -> str:
    """Return the verdict on a metric so far: ``passed``, ``failed``, ``waiting`` or ``dry_run``."""
    if metric.dry_run:
        return "dry_run"
    match progress.stage:
        case MetricStage.FAILED:
            return "failed"
        case MetricStage.PROVEN | MetricStage.GAP | MetricStage.PASSED:
            return "passed"
        case _:
            return "waiting"


def describe_failure(metrics: Iterable[AnalysisMetric], progress: Mapping[str, MetricProgress]) -> str:
    """Return a sentence on the metrics that failed; empty if none did. Metrics may be missing in ``progress``."""
    measured = [(metric, progress[metric.name]) for metric in metrics if metric.name in progress]
    return "; ".join(_failure(metric, found) for metric, found in measured if found.stage is MetricStage.FAILED)


def describe_measurement(passes: str, measurement: Measurement) -> str:
    """Return a value beside the comparison that it had to pass, or why it is missing."""
    if measurement.value is None or measurement.problem:
        return f"no data: {measurement.problem}"
    limit = f" ({number_text(measurement.limit)})" if measurement.limit is not None and "*" in passes else ""
    others = "" if measurement.others is None else f", others {number_text(measurement.others)}"
    return f"{number_text(measurement.value)}, expected {passes.strip()}{limit}{others}"


def _failure(metric: AnalysisMetric, progress: MetricProgress) -> str:
    last = progress.measurements[-1]
    total = counted(progress.passed + progress.failed + progress.no_data, "measurement")
    return (
        f"metric {metric.name} failed: {failures(metric, progress)} of {total} failed, at most"
        f" {metric.failure_limit} may; after {age(last.at)} found {describe_measurement(metric.passes.text, last)}"
    )


def describe_waiting(metrics: Iterable[AnalysisMetric], progress: Mapping[str, MetricProgress]) -> str:
    """Return a sentence on the metrics that wait after the bake time; empty if none does."""
    measured = [(each, progress[each.name]) for each in metrics if each.name in progress and not each.dry_run]
    waiting = _MEASURED_ON | {MetricStage.OVERDUE}
    return "; ".join(_waiting(metric, found) for metric, found in measured if found.stage in waiting)


def _waiting(metric: AnalysisMetric, progress: MetricProgress) -> str:
    last = progress.measurements[-1] if progress.measurements else None
    reason = "it was never measured" if last is None else last.problem or f"{progress.failed} failed"
    if progress.passed:
        return f"the last two measurements of metric {metric.name} have no data: {reason}"
    return f"no measurement of metric {metric.name} passed: {reason}"


@dataclass(frozen=True, slots=True)
class Series:
    """The values of a metric over the time of a simulation, sorted by time; a value holds until the next one."""

    values: tuple[tuple[float, float | None], ...] = ()
    others: tuple[tuple[float, float | None], ...] = ()
    before: float | None = None

    def reading(self, at: float) -> Reading:
        """Return the answer of a server ``at`` a time."""
        return Reading(_held(self.values, at), others=_held(self.others, at))


def _held(values: Sequence[tuple[float, float | None]], at: float) -> float | None:
    place = bisect.bisect_right(values, at, key=lambda pair: pair[0])
    return values[place - 1][1] if place else None


def play(
    metrics: Sequence[AnalysisMetric], clock: AnalysisClock, series: Mapping[str, Series]
) -> dict[str, MetricProgress]:
    """Return the progress of each metric after an analysis of these values.

    The analysis ends with the first measurement by which a metric fails, or else with the deadline.
    """
    known = {metric.name: series.get(metric.name, Series()) for metric in metrics}
    progress = {name: MetricProgress(before=values.before) for name, values in known.items()}
    while True:
        dues = {metric.name: next_due(metric, progress[metric.name], clock) for metric in metrics}
        at = min((due for due in dues.values() if due is not None), default=math.inf)
        for metric in metrics if at < math.inf else ():
            if dues[metric.name] == at:
                before = progress[metric.name]
                reading = known[metric.name].reading(at)
                measurement = measure(metric, reading, before.before, at=at, time=at)
                progress[metric.name] = take(metric, before, measurement, before.next)
        settled = {metric.name: settle(metric, progress[metric.name], clock, at, begun=0.0) for metric in metrics}
        has_failed = any(each.stage is MetricStage.FAILED for each in settled.values())
        if has_failed or (at == math.inf and settled == progress):
            return settled
        progress = settled
