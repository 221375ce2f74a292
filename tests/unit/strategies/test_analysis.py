"""The state machine of a metric, its measurements, and the analysis of a group over time."""

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.strategies.analysis import (
    ANALYSIS_TRANSITIONS,
    LATE,
    MOST_MEASUREMENTS,
    AnalysisClock,
    AnalysisMetric,
    GroupAnalysis,
    Measurement,
    MetricEvent,
    MetricProgress,
    MetricStage,
    NoData,
    Outcome,
    Reading,
    Series,
    describe_failure,
    describe_measurement,
    describe_waiting,
    measure,
    next_due,
    number_due,
    parse_comparison,
    play,
    settle,
    take,
    verdict,
)

CLOCK = AnalysisClock(bake_time=600.0, deadline=300.0)


def metric(passes="<= 1", **fields):
    return AnalysisMetric("errors", "q", parse_comparison(passes), **fields)


def progress_after(subject, outcomes):
    progress = MetricProgress()
    for number, outcome in enumerate(outcomes):
        at = subject.due(number)
        progress = take(subject, progress, Measurement(at, at, outcome), number)
    return progress


def played(subject, *values, others=(), before=None, clock=CLOCK):
    series = Series(tuple(values), tuple(others), before)
    return play([subject], clock, {subject.name: series})[subject.name]


# Comparisons


@pytest.mark.parametrize(
    ("text", "passing", "failing"),
    [
        ("< 1", 0.99, 1),
        ("<= 1", 1, 1.01),
        ("> 1", 1.01, 1),
        (">= 1", 1, 0.99),
        ("== 1", 1, 1.01),
        ("between 1 and 2", 1, 0.99),
        ("between 1 and 2", 2, 2.01),
        ("<=1e-2", 0.01, 0.011),
        ("  >  -.5  ", 0, -0.5),
        ("<= 1.2 * others", 2.4, 2.41),
        ("<=1.5*before", 15, 15.1),
        ("between 0.5 * before and 2 * before", 5, 4.9),
    ],
)
def test_a_value_is_compared_with_a_number_or_a_multiple(text, passing, failing):
    comparison = parse_comparison(text)
    limits = comparison.limits({"before": 10.0, "others": 2.0})
    assert comparison.holds(passing, limits)
    assert not comparison.holds(failing, limits)


def test_multiples_of_a_negative_value_have_their_limits_in_the_other_order():
    comparison = parse_comparison("between 0.9 * before and 1.1 * before")
    limits = comparison.limits({"before": -40.0})
    assert [comparison.holds(value, limits) for value in (-45, -44, -40, -36, -35)] == [
        False,
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "0.01 >= value",
        "!= 1",
        "=< 1",
        "<= 0x10",
        "<= 1_000",
        "<= nan",
        "<= inf",
        "<= 1e999",
        "<= others",
        "<= 2 * after",
        "<= 1 or > 5",
        "between 1",
        "between 2 and 1",
        "__import__('os')",
        "<= \u0661",
    ],
)
def test_everything_else_is_no_comparison(text):
    with pytest.raises(ValueError, match=r"expected|no value passes"):
        parse_comparison(text)


# Outcomes


@pytest.mark.parametrize(
    ("reading", "before", "outcome", "problem"),
    [
        (Reading(1.0), None, Outcome.PASSED, ""),
        (Reading(2.0), None, Outcome.FAILED, ""),
        (
            Reading(None, "the answer took longer than 5 s"),
            None,
            Outcome.NO_DATA,
            "the answer took longer than 5 s",
        ),
        (Reading(math.nan), None, Outcome.NO_DATA, "the value is NaN"),
        (Reading(-math.inf), None, Outcome.PASSED, ""),
        (Reading(math.inf), None, Outcome.FAILED, ""),
    ],
)
def test_a_measurement_passed_failed_or_has_no_data_with_the_reason(reading, before, outcome, problem):
    found = measure(metric(), reading, before, at=1.0, time=2.0)
    assert (found.outcome, found.problem) == (outcome, problem)


def test_a_measurement_keeps_six_digits_and_is_judged_by_all_of_them():
    found = measure(metric("<= 0.3333333"), Reading(1 / 3), None, at=1.23456, time=2.345)
    assert (found.outcome, found.value, found.at, found.time) == (Outcome.FAILED, 0.333333, 1.235, 2.3)


def test_without_the_value_of_the_comparison_there_is_no_data():
    found = measure(metric("<= 2 * before"), Reading(1.0), None, at=0, time=0)
    assert (found.outcome, found.problem) == (
        Outcome.NO_DATA,
        "no value before the deployment: the server has no value",
    )
    reading = Reading(1.0, others_problem="no instance of other hosts is registered")
    found = measure(metric("<= 2 * others"), reading, None, at=0, time=0)
    assert found.problem == "no value of the others: no instance of other hosts is registered"
    found = measure(metric("<= 0 * others"), Reading(1.0, others=math.inf), None, at=0, time=0)
    assert (found.outcome, found.problem) == (Outcome.NO_DATA, "the limit is NaN")


@pytest.mark.parametrize(
    ("passes", "reading", "before", "outcome", "words"),
    [
        ("<= 0.01", Reading(math.inf), None, Outcome.FAILED, "+Inf, expected <= 0.01"),
        (">= 0.01", Reading(-math.inf), None, Outcome.FAILED, "-Inf, expected >= 0.01"),
        (">= 0.9999", Reading(0.99987), None, Outcome.FAILED, "0.99987, expected >= 0.9999"),
        ("between 1 and 2", Reading(math.inf), None, Outcome.FAILED, "+Inf, expected between 1 and 2"),
        ("> 1", Reading(math.inf), None, Outcome.PASSED, "+Inf, expected > 1"),
        (
            "<= 2 * others",
            Reading(math.inf, others=3.0),
            None,
            Outcome.FAILED,
            "+Inf, expected <= 2 * others (6), others 3",
        ),
        (
            "<= 2 * others",
            Reading(3.0, others=math.inf),
            None,
            Outcome.PASSED,
            "3, expected <= 2 * others (+Inf), others +Inf",
        ),
        ("<= 2 * before", Reading(3.0), -math.inf, Outcome.FAILED, "3, expected <= 2 * before (-Inf)"),
    ],
)
def test_infinities_are_values_that_are_compared_shown_and_kept(passes, reading, before, outcome, words):
    found = measure(metric(passes), reading, before, at=0, time=0)
    assert (found.outcome, describe_measurement(passes, found)) == (outcome, words)
    progress = MetricProgress(before=before, measurements=(found,))
    text = json.dumps(progress.to_json(), allow_nan=False)
    assert MetricProgress.from_json(json.loads(text)) == progress


# The state machine


def test_final_stages_have_no_transitions_and_the_others_know_every_measurement():
    final = {MetricStage.PASSED, MetricStage.FAILED, MetricStage.OVERDUE}
    assert not final & {stage for stage, _ in ANALYSIS_TRANSITIONS}
    measured = {MetricEvent.PASSED, MetricEvent.TOLERATED, MetricEvent.EXCEEDED, MetricEvent.NO_DATA}
    for stage in set(MetricStage) - final:
        assert measured <= {event for at, event in ANALYSIS_TRANSITIONS if at is stage}


def test_a_metric_fails_with_the_measurement_that_exceeds_the_limit_of_failures():
    subject = metric(failure_limit=2)
    outcomes = [Outcome.FAILED, Outcome.PASSED, Outcome.FAILED]
    assert progress_after(subject, outcomes).stage is MetricStage.PROVEN
    assert progress_after(subject, [*outcomes, Outcome.FAILED]).stage is MetricStage.FAILED


@pytest.mark.parametrize(
    ("no_data", "found"),
    [(NoData.WAITS, "waiting"), (NoData.PASSES, "passed"), (NoData.FAILS, "failed")],
)
def test_missing_data_waits_passes_or_fails(no_data, found):
    subject = metric(no_data=no_data)
    progress = played(subject)
    assert verdict(subject, progress) == found
    assert progress.no_data > 0
    assert progress.passed == progress.failed == 0


@given(
    st.lists(st.sampled_from(list(Outcome)), max_size=30),
    st.integers(0, 3),
    st.sampled_from(list(NoData)),
    st.booleans(),
)
def test_the_verdict_is_that_of_a_fold_over_all_measurements(outcomes, limit, no_data, dry_run):
    subject = metric(failure_limit=limit, no_data=no_data, dry_run=dry_run, interval=1.0)
    clock = AnalysisClock(bake_time=10.0, deadline=15.0)
    values = {Outcome.PASSED: 0.0, Outcome.FAILED: 2.0, Outcome.NO_DATA: None}
    progress = played(subject, *enumerate(values[outcome] for outcome in outcomes), clock=clock)
    held = [*outcomes, *[outcomes[-1] if outcomes else Outcome.NO_DATA] * 30]
    applied = {NoData.WAITS: Outcome.NO_DATA, NoData.PASSES: Outcome.PASSED, NoData.FAILS: Outcome.FAILED}[no_data]
    counted = [applied if outcome is Outcome.NO_DATA else outcome for outcome in held]

    def expected():
        failures, passes = 0, 0
        for second in range(11 if dry_run else 26):
            failures += counted[second] is Outcome.FAILED
            passes += counted[second] is Outcome.PASSED
            if failures > limit and not dry_run:
                return "failed", second + 1
            has_data = {*counted[max(0, second - 1) : second + 1]} != {Outcome.NO_DATA}
            if second >= 10 and passes and has_data and not dry_run:
                return "passed", second + 1
        return ("dry_run", 11) if dry_run else ("waiting", 26)

    taken = progress.passed + progress.failed + progress.no_data
    assert (verdict(subject, progress), taken) == expected()
    assert progress.no_data == held[:taken].count(Outcome.NO_DATA)


@given(st.lists(st.sampled_from([0.0, 2.0, None]), min_size=1, max_size=40), st.data())
def test_a_restart_between_any_two_measurements_changes_nothing(values, data):
    subject = metric(failure_limit=3, interval=1.0)
    clock = AnalysisClock(bake_time=20.0, deadline=15.0)
    progress, at = MetricProgress(), 0.0
    while (due := next_due(subject, progress, clock)) is not None:
        at = due
        measurement = measure(subject, Reading(values[int(at) % len(values)]), None, at=at, time=at)
        progress = settle(subject, take(subject, progress, measurement, progress.next), clock, at, begun=0.0)
        if data.draw(st.booleans()):
            progress = MetricProgress.from_json(progress.to_json())
    series = [(float(second), values[second % len(values)]) for second in range(36)]
    assert settle(subject, progress, clock, math.inf, begun=0.0) == played(subject, *series, clock=clock)


# Time


def test_measurements_are_due_from_the_initial_delay_to_the_end_of_the_bake_time():
    subject = metric(initial_delay=240.0, interval=180.0)
    assert played(subject, (0.0, 0.0)).passed == 3  # 240, 420 and 600
    assert played(metric(interval=601.0), (0.0, 0.0)).passed == 1
    tenths = AnalysisClock(bake_time=0.3, deadline=1.0)
    assert played(metric(interval=0.1), (0.0, 0.0), clock=tenths).passed == 4
    assert played(metric(interval=0.1), (1.3, 0.0), clock=tenths).passed == 1


def test_a_waiting_metric_passes_with_its_first_passed_measurement_up_to_the_very_end_of_the_deadline():
    subject = metric()
    assert verdict(subject, played(subject, (900.0, 1.0))) == "passed"
    assert verdict(subject, played(subject, (900.1, 1.0))) == "waiting"
    assert played(subject, (700.0, 1.0), (720.1, 5.0)).failed == 0  # no measurement after the verdict


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([(0.0, 1.0), (480.0, None)], "waiting"),  # silent at 480, 540 and 600, and ever since
        ([(0.0, 1.0), (540.0, None)], "waiting"),
        ([(0.0, 1.0), (600.0, None)], "passed"),  # one of the last two has data
        ([(0.0, 1.0), (540.0, None), (600.0, 1.0)], "passed"),
        ([(0.0, 1.0), (480.0, None), (900.0, 1.0)], "passed"),  # up to the very end of the deadline
        ([(0.0, 1.0), (480.0, None), (900.1, 1.0)], "waiting"),
        ([(0.0, 1.0), (480.0, None), (720.0, 5.0)], "failed"),
        ([(0.0, None), (60.0, 1.0), (120.0, None)], "waiting"),
        ([(0.0, None), (540.0, 1.0), (600.0, None)], "passed"),
    ],
)
def test_an_early_success_followed_by_silence_waits_for_data(values, found):
    subject = metric()
    progress = played(subject, *values)
    assert verdict(subject, progress) == found
    waiting = describe_waiting([subject], {"errors": progress})
    expected = "the last two measurements of metric errors have no data: the server has no value"
    assert waiting == (expected if found == "waiting" else "")


def test_data_after_a_silence_is_judged_as_before_it():
    tolerant = metric(failure_limit=1)
    assert verdict(tolerant, played(tolerant, (0.0, 1.0), (480.0, None), (720.0, 5.0))) == "passed"
    assert verdict(tolerant, played(tolerant, (480.0, None), (720.0, 5.0), (780.0, None))) == "waiting"


def test_silence_within_the_bake_time_is_no_verdict():
    for outcomes, stage in (
        ([Outcome.PASSED, Outcome.NO_DATA], MetricStage.GAP),
        ([Outcome.PASSED, Outcome.NO_DATA, Outcome.NO_DATA], MetricStage.SILENT),
        ([Outcome.PASSED, Outcome.NO_DATA, Outcome.FAILED], MetricStage.PROVEN),
        ([Outcome.PASSED, *[Outcome.NO_DATA] * 5, Outcome.FAILED], MetricStage.PROVEN),
        ([Outcome.PASSED, *[Outcome.NO_DATA] * 5, Outcome.PASSED], MetricStage.PROVEN),
    ):
        assert progress_after(metric(failure_limit=1), outcomes).stage is stage


@pytest.mark.parametrize(
    ("stage", "later"),
    [
        (MetricStage.UNPROVEN, MetricStage.WAITING),
        (MetricStage.PROVEN, MetricStage.PASSED),
        (MetricStage.GAP, MetricStage.STALE),
        (MetricStage.SILENT, MetricStage.STALE),
    ],
)
def test_time_alone_ends_the_wait_for_an_answer_that_does_not_come(stage, later):
    subject, progress = metric(), MetricProgress(stage, next=10)  # due at 600, the end of the bake time
    assert settle(subject, progress, CLOCK, 600.0 + LATE - 1, begun=0.0).stage is stage
    assert settle(subject, progress, CLOCK, 600.0 + LATE, begun=0.0).stage is later
    waiting = MetricProgress(MetricStage.WAITING, next=15)  # due at 900, the deadline
    assert settle(subject, waiting, CLOCK, 900.0 + LATE - 1, begun=0.0).stage is MetricStage.WAITING
    assert settle(subject, waiting, CLOCK, 900.0 + LATE, begun=0.0).stage is MetricStage.OVERDUE


@pytest.mark.parametrize(
    ("no_data", "stage", "later", "verdicts"),
    [
        (NoData.FAILS, MetricStage.PROVEN, MetricStage.FAILED, (0, 1)),
        (NoData.PASSES, MetricStage.UNPROVEN, MetricStage.PASSED, (0, 1)),
        (NoData.WAITS, MetricStage.PROVEN, MetricStage.PASSED, (0, 0)),
    ],
)
def test_an_answer_that_does_not_come_counts_like_one_without_data(no_data, stage, later, verdicts):
    subject = metric(no_data=no_data)
    settled = settle(subject, MetricProgress(stage, next=10), CLOCK, 600.0 + LATE, begun=1000.0)
    assert settled.stage is later
    assert (settled.passed, settled.no_data) == verdicts
    assert [(each.time, each.problem) for each in settled.measurements] == (
        [(1600.0, "no answer within 60 s")] if settled.no_data else []
    )


def test_a_waiting_metric_may_still_fail():
    subject = metric()
    progress = played(subject, (700.0, 5.0))
    assert verdict(subject, progress) == "failed"
    assert describe_failure([subject], {"errors": progress}) == (
        "metric errors failed: 1 of 13 measurements failed, at most 0 may; after 12 min found 5, expected <= 1"
    )


def test_the_analysis_of_a_group_ends_when_a_metric_fails():
    fast = AnalysisMetric("fast", "q", parse_comparison("< 1"), interval=10.0)
    slow = AnalysisMetric("slow", "q", parse_comparison("< 1"))
    values = {"fast": Series(((0.0, 0.0), (70.0, 1.0))), "slow": Series(((0.0, 0.0),))}
    progress = play([fast, slow], CLOCK, values)
    assert (progress["fast"].failed, progress["fast"].passed, progress["slow"].passed) == (1, 7, 2)
    assert [verdict(each, progress[each.name]) for each in (fast, slow)] == ["failed", "passed"]


def test_a_metric_that_only_measures_never_decides():
    subject = metric(dry_run=True)
    progress = played(subject, (0.0, 5.0))
    assert (progress.failed, verdict(subject, progress)) == (11, "dry_run")
    assert not describe_failure([subject], {"errors": progress})
    assert not describe_waiting([subject], {"errors": progress})


def test_only_the_newest_of_several_due_measurements_is_taken():
    subject = metric(interval=60.0, initial_delay=30.0)
    assert number_due(subject, MetricProgress(), CLOCK, 29.0) is None
    assert number_due(subject, MetricProgress(), CLOCK, 30.0) == 0
    assert number_due(subject, MetricProgress(next=1), CLOCK, 220.0) == 3
    assert number_due(subject, MetricProgress(), CLOCK, 10_000.0) == 9  # at 570 of 600 seconds
    assert number_due(subject, MetricProgress(next=10), CLOCK, 10_000.0) is None
    waiting = MetricProgress(MetricStage.WAITING, next=10)
    assert number_due(subject, waiting, CLOCK, 10_000.0) == 14  # at 870 of 900 seconds


@given(st.integers(0, 3 * MOST_MEASUREMENTS))
def test_kept_measurements_are_bounded_even_and_include_the_first_and_the_newest(taken):
    progress = progress_after(metric(interval=1.0), [Outcome.PASSED] * taken)
    times = [measurement.at for measurement in progress.measurements]
    assert progress.passed == taken
    assert len(times) <= MOST_MEASUREMENTS
    if taken:
        assert (times[0], times[-1]) == (0.0, taken - 1)
        assert len(times) >= min(taken, MOST_MEASUREMENTS // 2)
    gaps = {after - before for before, after in itertools.pairwise(times[:-1])}
    assert len(gaps) <= 1


@given(st.integers(1, 3 * MOST_MEASUREMENTS), st.integers(0, 50))
def test_measurements_that_are_thinned_further_stay_even_with_those_that_follow(before, after):
    subject = metric(interval=1.0)
    thinned = GroupAnalysis({"errors": progress_after(subject, [Outcome.PASSED] * before)}).thinned(10)
    progress = thinned.metrics["errors"]
    assert len(progress.measurements) <= 10
    for number in range(before, before + after):
        progress = take(subject, progress, Measurement(float(number), 1.0, Outcome.PASSED), number)
    times = [measurement.at for measurement in progress.measurements]
    assert (times[0], times[-1]) == (0.0, before + after - 1)
    assert len({late - early for early, late in itertools.pairwise(times[:-1])}) <= 1


# The examples of Argo Rollouts' documentation, translated

SUCCESS_RATE = ">= 0.95"


@pytest.mark.parametrize(
    ("fields", "values", "found"),
    [
        # interval: 5m, successCondition: result[0] >= 0.95, failureLimit: 3
        ({"interval": 300.0, "failure_limit": 3}, [(0.0, 0.99)], "passed"),
        ({"interval": 300.0, "failure_limit": 3}, [(0.0, 0.2), (900.0, 0.99)], "passed"),
        ({"interval": 300.0, "failure_limit": 3}, [(0.0, 0.2)], "failed"),
        # initialDelay: 5m
        ({"interval": 300.0, "initial_delay": 300.0}, [(0.0, 0.2), (300.0, 1.0)], "passed"),
        # an empty result, and the default value of "default(result, 0)"
        ({"interval": 300.0}, [], "waiting"),
        ({"interval": 300.0, "no_data": NoData.PASSES}, [], "passed"),
        # isNaN(result) || result <= 0.95
        ({"interval": 300.0, "no_data": NoData.PASSES}, [(0.0, math.nan)], "passed"),
        ({"interval": 300.0}, [(0.0, math.nan)], "waiting"),
        # dryRun
        ({"interval": 300.0, "dry_run": True}, [(0.0, 0.2)], "dry_run"),
    ],
)
def test_the_examples_of_argo_have_the_same_verdicts(fields, values, found):
    subject = metric(SUCCESS_RATE, **fields)
    clock = AnalysisClock(bake_time=1800.0, deadline=0.0)
    assert verdict(subject, played(subject, *values, clock=clock)) == found


NUMBERS = st.none() | st.floats(allow_nan=False)
MEASUREMENTS = st.builds(
    Measurement,
    st.floats(0, 1e6),
    st.floats(0, 1e9),
    st.sampled_from(Outcome),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    problem=st.sampled_from(["", "the server is silent"]),
    server=st.sampled_from(["", "main"]),
    variables=st.none() | st.integers(0, 3),
)


@given(st.lists(MEASUREMENTS, max_size=4))
def test_measurements_are_stored_in_columns_and_read_again(measurements):
    progress = MetricProgress(measurements=tuple(measurements))
    text = json.dumps(progress.to_json(), allow_nan=False)
    assert MetricProgress.from_json(json.loads(text)) == progress


@pytest.mark.parametrize("value", ["Infinity", "inf", "NaN", math.inf, math.nan, True, [1.0]])
def test_values_in_another_form_are_refused(value):
    with pytest.raises(ValueError, match=r"before: expected a number, \+Inf or -Inf"):
        MetricProgress.from_json(MetricProgress().to_json() | {"before": value})


def test_a_value_that_all_measurements_have_is_stored_once():
    measurements = tuple(Measurement(at, 100.0 + at, Outcome.PASSED, 0.5 + at, 1.0) for at in (0.0, 10.0))
    assert MetricProgress(measurements=measurements).to_json()["measurements"] == {
        "at": [0.0, 10.0],
        "time": [100.0, 110.0],
        "outcome": "passed",
        "value": [0.5, 10.5],
        "limit": 1.0,
    }


@pytest.mark.parametrize(
    "columns",
    [
        [],
        {},
        {"at": 1.0},
        {"at": [1.0]},
        {"at": [1.0], "time": [1.0]},
        {"at": [1.0], "time": [1.0, 2.0], "outcome": "passed"},
        {"at": ["1"], "time": [1.0], "outcome": "passed"},
        {"at": [1.0], "time": [1.0], "outcome": "good"},
    ],
)
def test_invalid_columns_of_measurements_are_refused(columns):
    with pytest.raises(ValueError, match="measurements: "):
        MetricProgress.from_json(MetricProgress().to_json() | {"measurements": columns})
