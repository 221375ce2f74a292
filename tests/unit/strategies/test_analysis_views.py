"""The analyses of groups as operators see them: words, sparklines and plots."""

import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fleets.simulated import fleet_of
from support.strategies import strategy
from zkdeployment.strategies.analysis import (
    AnalysisMetric,
    GroupAnalysis,
    Measurement,
    MetricProgress,
    MetricStage,
    Outcome,
    describe_measurement,
    parse_comparison,
)
from zkdeployment.strategies.analysis_views import (
    MetricStatus,
    metric_statuses,
    plot,
    sparkline,
    summarize_metrics,
)
from zkdeployment.strategies.queries import QueryVariables
from zkdeployment.strategies.strategy import Group, Pace
from zkdeployment.strategies.views import describe_group, rollout_status

ERRORS = AnalysisMetric("errors", 'max(up{instance=~"$instances"})', parse_comparison("<= 1"))
LATENCY = AnalysisMetric("latency", "up", parse_comparison("<= 1.2 * others"), dry_run=True)

PASSED = Measurement(0.0, 1000.0, Outcome.PASSED, 0.5, 1.0, server="main", variables=0)
FAILED = Measurement(60.0, 1060.0, Outcome.FAILED, 4.0, 1.0, server="main", variables=0)
MISSING = Measurement(120.0, 1120.0, Outcome.NO_DATA, problem="the result is empty", server="main")


def measured(*measurements, stage=MetricStage.PROVEN, metrics=(ERRORS,), **fields):
    """Return a rollout whose group x bakes, with these measurements of its first metric."""
    group = Group("x", critical=True, pace=Pace(bake_time=300.0, analysis=metrics))
    fleet = fleet_of("a")
    state = fleet.run(
        fleet.start(strategy(group)),
        until=lambda state: state.active_phase is not None and state.active_phase.baking_since is not None,
    )
    counts = {outcome: sum(m.outcome is outcome for m in measurements) for outcome in Outcome}
    progress = MetricProgress(
        stage, counts[Outcome.PASSED], counts[Outcome.FAILED], counts[Outcome.NO_DATA], measurements=measurements
    )
    analysis = GroupAnalysis({"errors": progress}, variables=(QueryVariables(instances=("a:80",)),), **fields)
    return replace(state, analyses={"x": analysis}), group, fleet.now


def test_a_metric_has_its_verdict_its_counts_its_query_and_its_graph():
    state, group, _ = measured(PASSED, FAILED, graphs={"main": "https://graphs.example.com"})
    (status,) = metric_statuses(state, group)
    assert (status.verdict, status.counts, status.last) == (
        "passes so far",
        "1 passed, 1 failed",
        "4, expected <= 1",
    )
    assert status.query == 'max(up{instance=~"a:80"})'
    assert status.graph == "https://graphs.example.com"
    assert json.loads(json.dumps(status.to_json()))["pass"] == "<= 1"


@pytest.mark.parametrize(
    ("stage", "measurements", "verdict"),
    [
        (MetricStage.UNPROVEN, (), "measuring"),
        (MetricStage.UNPROVEN, (FAILED,), "has not passed yet"),
        (MetricStage.WAITING, (MISSING,), "waits for a measurement that passes"),
        (MetricStage.GAP, (PASSED, MISSING), "passes so far"),
        (MetricStage.SILENT, (PASSED, MISSING, MISSING), "passed, but has no data now"),
        (MetricStage.STALE, (PASSED, MISSING, MISSING), "passed, but waits for data"),
        (MetricStage.OVERDUE, (MISSING,), "waits for an operator"),
        (MetricStage.FAILED, (FAILED,), "failed"),
        (MetricStage.PASSED, (PASSED,), "passed"),
    ],
)
def test_the_verdict_so_far_is_in_words(stage, measurements, verdict):
    state, group, _ = measured(*measurements, stage=stage)
    assert metric_statuses(state, group)[0].verdict == verdict


def test_a_metric_without_a_measurement_shows_its_query_with_the_variables():
    state, group, _ = measured(metrics=(ERRORS, LATENCY))
    errors, latency = metric_statuses(state, group)
    assert (errors.query, errors.counts, errors.last) == (ERRORS.query, "not measured", "")
    assert latency.verdict == "only shown"
    assert plot(errors) is None


def test_a_missing_value_shows_its_reason_and_a_multiple_its_limit():
    state, group, _ = measured(MISSING)
    assert metric_statuses(state, group)[0].last == "no data: the result is empty"
    multiple = replace(ERRORS, passes=parse_comparison("<= 2 * others"))
    state, group, _ = measured(replace(PASSED, others=0.5), metrics=(multiple,))
    assert metric_statuses(state, group)[0].last == "0.5, expected <= 2 * others (1), others 0.5"


def test_the_sentence_on_a_baking_group_names_its_metrics():
    state, group, now = measured(PASSED)
    assert summarize_metrics(state, group) == "errors passes so far (1 passed)"
    assert describe_group(state, group, now).endswith("; metrics: errors passes so far (1 passed)")
    status = rollout_status(state, led=True, now=now)
    assert status.groups[0].to_json()["analysis"][0]["name"] == "errors"


def test_a_value_without_its_limit_is_shown_as_missing_data():
    measurement = Measurement(0.0, 1.0, Outcome.NO_DATA, 3.0, problem="no value of the others: no answer")
    assert describe_measurement("<= 2 * others", measurement) == "no data: no value of the others: no answer"


def test_a_sparkline_has_gaps_and_marks_failures():
    assert [*sparkline((PASSED, MISSING, FAILED))] == [("▁", False), ("·", False), ("█", True)]
    assert [*sparkline((PASSED,) * 3, most=2)] == [("▁", False)] * 2


def test_a_plot_has_the_value_the_limit_failed_points_and_gaps():
    state, group, _ = measured(PASSED, MISSING, FAILED, replace(FAILED, at=180.0))
    drawn = plot(metric_statuses(state, group)[0])
    assert drawn.value == "M6 66h1M67.6 6L190.8 6"  # a lone point, a gap, a line
    assert drawn.limit.count("M") == 2
    assert drawn.others == ""
    assert drawn.failed == ((67.6, 6.0), (190.8, 6.0))
    assert drawn.missing == (129.2,)
    assert (drawn.low, drawn.high) == ("0.5", "4")


def test_infinities_are_at_the_borders_of_sparklines_and_plots():
    finite = [replace(PASSED, at=60.0 * number, value=float(number)) for number in range(3)]
    highest, lowest = replace(FAILED, at=180.0, value=math.inf), replace(PASSED, at=240.0, value=-math.inf)
    assert "".join(block for block, _ in sparkline((*finite, highest, lowest))) == "▁▅██▁"
    state, group, _ = measured(*finite, highest, lowest)
    drawn = plot(metric_statuses(state, group)[0])
    assert drawn.value == "M6 66L67.6 36L129.2 6L190.8 6L252.4 66"
    assert (drawn.low, drawn.high, drawn.failed) == ("-Inf", "+Inf", ((190.8, 6.0),))
    assert metric_statuses(state, group)[0].last == "-Inf, expected <= 1"
    state, group, _ = measured(highest)
    assert plot(metric_statuses(state, group)[0]).value == "M190.8 6h1"


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=5))
def test_values_of_any_size_have_a_sparkline_a_plot_and_valid_json(values):
    measurements = tuple(replace(PASSED, at=float(at), value=value) for at, value in enumerate(values))
    assert len([*sparkline(measurements)]) == len(values)
    status = MetricStatus("m", "", MetricStage.PROVEN, "q", "< 1", 1, 0, 0, 300.0, measurements=measurements)
    assert not re.search("nan|inf", str(plot(status)).replace("'+Inf'", "").replace("'-Inf'", ""))
    assert json.dumps(status.to_json(), allow_nan=False)


def test_a_plot_of_many_measurements_keeps_the_failed_ones_and_the_last():
    many = [replace(PASSED, at=float(second)) for second in range(200)]
    many[101] = replace(FAILED, at=101.0)
    state, group, _ = measured(*many)
    drawn = plot(metric_statuses(state, group)[0])
    assert len(drawn.failed) == 1
    assert drawn.value.count("L") < 60
