"""The analysis of a group within a rollout: due measurements, verdicts, operators, halts and restarts."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fleets.simulated import fleet_of
from support.strategies import strategy
from zkdeployment.strategies.analysis import (
    AnalysisMetric,
    GroupAnalysis,
    MetricStage,
    NoData,
    Outcome,
    Reading,
    parse_comparison,
)
from zkdeployment.strategies.group_analysis import (
    ANALYSIS,
    MetricAnswer,
    MetricKey,
    due_requests,
    has_passed_before,
    is_open,
    waiting_reason,
)
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.progress import advance, grants, has_failed, seconds_until_change
from zkdeployment.strategies.queries import QueryVariables
from zkdeployment.strategies.state import Directive, RecoveryStage, state_from_json, state_to_json
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress, RolloutResult, held_groups
from zkdeployment.strategies.strategy import Group, OnFailure, Pace, ParallelLimit, Selector
from zkdeployment.strategies.timekeeping import bake_elapsed
from zkdeployment.strategies.views import GroupState, describe_group, group_state


def metric(passes="<= 1", name="errors", **fields):
    return AnalysisMetric(name, "up", parse_comparison(passes), **fields)


def analysed(*metrics, name="x", hosts="ab", parents=(), critical=True, **pace):
    speed = Pace(bake_time=120.0, progress_deadline=60.0, analysis=metrics or (metric(),))
    return Group(name, critical, parents, (Selector(names=frozenset(hosts)),), pace=replace(speed, **pace))


def is_baking(state):
    return state.active_phase is not None and state.active_phase.baking_since is not None


def baking(*groups, metrics=None, hosts="ab", **fields):
    """Return a fleet and its rollout at the begin of the bake time of its first group."""
    fleet = fleet_of(hosts, metrics=metrics, **fields)
    return fleet, fleet.run(fleet.start(strategy(*(groups or (analysed(),)))), until=is_baking)


def finish(fleet, state):
    """Return the rollout at its end."""
    for _ in range(100):
        state = fleet.wait(fleet.step(state), 15)
        if state.ended is not None:
            return state
    raise AssertionError(state.waiting)


def stage(state, name="errors", group="x"):
    return state.analyses[group].metrics[name].stage


def test_a_group_with_healthy_metrics_succeeds_at_the_end_of_its_bake_time():
    fleet, state = baking(metrics={"errors": 0.5})
    assert [m.outcome for m in state.analyses["x"].metrics["errors"].measurements] == [Outcome.PASSED]
    state = fleet.wait(state, 119)
    assert state.rollout.progress["x"].verdict is None
    state = fleet.wait(state, 1)
    assert state.rollout.result is RolloutResult.SUCCESS
    progress = state.analyses["x"].metrics["errors"]
    assert (progress.stage, progress.passed) == (MetricStage.PASSED, 3)
    assert [m.at for m in progress.measurements] == [0.0, 60.0, 120.0]
    assert state.proven == {"a", "b"}


def test_a_group_fails_with_the_measurement_by_which_a_metric_fails_and_may_be_rolled_back():
    fleet, state = baking(metrics={"errors": 0.5})
    state = replace(
        state,
        rollout=replace(state.rollout, strategy=replace(state.rollout.strategy, on_failure=OnFailure.ROLLBACK)),
    )
    fleet.metrics = {"errors": 7.0}
    state = fleet.wait(state, 60)
    assert state.rollout.progress["x"].reason == (
        "deploy: metric errors failed: 1 of 2 measurements failed, at most 0 may;"
        " after 1 min found 7, expected <= 1"
    )
    assert has_failed(state)
    assert state.recovery.stage is RecoveryStage.DUE
    assert not state.proven  # the next attempt is measured again
    assert set(state.rollout.hosts.values()) == {HostProgress.SUCCESS}


def test_a_group_without_data_waits_and_then_needs_an_operator():
    fleet, state = baking(metrics={})
    state = fleet.wait(state, 120)
    assert (stage(state), state.active_phase is None) == (MetricStage.WAITING, False)
    assert describe_group(state, state.rollout.strategy.group("x"), fleet.now).startswith(
        "all hosts are done; no measurement of metric errors passed: the server has no value"
    )
    state = fleet.wait(state, 60)
    assert stage(state) is MetricStage.OVERDUE
    assert held_groups(state.rollout) == ("x",)
    assert group_state(state, "x") is GroupState.OPERATOR
    assert state.waiting.startswith("x waits for 'zkdeployment rollout promote x'")
    assert state.ended is None
    fleet.act(Directive.PROMOTE, "x")
    state = fleet.advance(state)
    assert state.rollout.result is RolloutResult.SUCCESS
    assert state.ended is not None
    assert state.proven == {"a", "b"}


def test_a_waiting_group_goes_on_with_the_first_measurement_that_passes():
    fleet, state = baking(metrics={})
    state = fleet.wait(state, 170)
    fleet.metrics = {"errors": 0.0}
    assert fleet.wait(state, 10).rollout.result is RolloutResult.SUCCESS


def test_a_canary_that_fails_every_request_fails_although_its_ratio_of_errors_is_infinite():
    _, state = baking(metrics={"errors": math.inf})
    assert has_failed(state)
    assert state.rollout.progress["x"].reason.endswith("found +Inf, expected <= 1")
    assert state_from_json(json.loads(json.dumps(state_to_json(state), allow_nan=False))) == state


def test_a_group_whose_metrics_fell_silent_waits_for_data_or_an_operator():
    fleet, state = baking(analysed(bake_time=240.0), metrics={"errors": 0.5})
    fleet.metrics = {}
    state = fleet.wait(state, 239)
    assert stage(state) is MetricStage.SILENT
    state = fleet.wait(state, 1)
    assert stage(state) is MetricStage.STALE
    assert waiting_reason(state, "x").startswith("the last two measurements of metric errors have no data")
    again = replace(fleet, metrics={"errors": 0.5})
    assert again.wait(state, 60).rollout.result is RolloutResult.SUCCESS
    state = fleet.wait(state, 60)
    assert stage(state) is MetricStage.OVERDUE
    assert held_groups(state.rollout) == ("x",)


@pytest.mark.parametrize(
    ("directive", "result"), [(Directive.PROMOTE, RolloutResult.SUCCESS), (Directive.FAIL, RolloutResult.FAILED)]
)
@pytest.mark.parametrize("seconds", [120 + 60, 120 + 60 + 60])
def test_time_alone_ends_the_wait_for_a_server_that_never_ends_its_answers(seconds, directive, result):
    fleet, state = baking(metrics=None)
    state = fleet.wait(state, seconds - 1)
    assert (waiting_reason(state, "x") != "") is (seconds > 180)
    assert 0 < seconds_until_change(state, fleet.observe()) <= 1
    state = fleet.wait(state, 1)
    assert stage(state) is (MetricStage.WAITING if seconds == 180 else MetricStage.OVERDUE)
    assert waiting_reason(state, "x") == "no measurement of metric errors passed: it was never measured"
    fleet.act(directive, "x")
    assert fleet.advance(state).rollout.result is result


def test_an_operator_may_fail_a_group_that_waits_before_and_after_the_deadline():
    for seconds in (150, 200):
        fleet, state = baking(metrics={})
        state = fleet.wait(state, seconds)
        fleet.act(Directive.FAIL, "x")
        state = fleet.advance(state)
        assert has_failed(state)
        assert "rollout fail by ann@ops" in state.rollout.progress["x"].reason


def test_an_operator_may_promote_a_group_before_the_deadline():
    fleet, state = baking(metrics={})
    state = fleet.wait(state, 130)
    fleet.act(Directive.PROMOTE, "x")
    assert fleet.advance(state).rollout.result is RolloutResult.SUCCESS


def test_other_groups_begin_while_a_group_waits_for_an_operator():
    groups = (
        analysed(critical=False),
        analysed(name="after", hosts="c", parents=("x",)),
        Group("other", critical=True, selectors=(Selector(names=frozenset("d")),)),
    )
    fleet, state = baking(*groups, metrics={}, hosts="abcd")
    state = fleet.run(fleet.wait(state, 180))
    verdicts = {name: progress.verdict for name, progress in state.rollout.progress.items()}
    assert verdicts == {"x": None, "after": None, "other": GroupVerdict.SUCCESS}
    assert grants(state).keys() == {"a", "b", "d"}
    fleet.act(Directive.PROMOTE, "x")
    fleet.metrics = {"errors": 0.0}
    assert fleet.run(state).rollout.result is RolloutResult.SUCCESS


def test_a_group_that_waits_does_not_delay_the_rollback_after_a_critical_failure():
    groups = analysed(metric(name="silent"), name="waits", hosts="a", critical=False), analysed(hosts="b")
    fleet = fleet_of("ab", metrics={"errors": 99.0})
    state = finish(fleet, fleet.start(replace(strategy(*groups), on_failure=OnFailure.ROLLBACK)))
    assert has_failed(state)
    assert state.recovery.stage is RecoveryStage.DUE
    assert state.rollout.progress["waits"].verdict is None
    assert group_state(state, "waits") is GroupState.UNFINISHED
    described = describe_group(state, state.rollout.strategy.group("waits"), fleet.now)
    assert described == "no measurement of metric silent passed: the server has no value"


def test_a_hosts_failure_decides_before_missing_data_does():
    group = analysed()
    group = replace(group, criteria=replace(group.criteria, maximum_failed=0))
    fleet, state = baking(group, metrics={})
    fleet.erring = {"a"}
    state = fleet.wait(state, 180)
    assert state.rollout.progress["x"].verdict is GroupVerdict.FAILED
    assert held_groups(state.rollout) == ()


def test_the_value_before_the_deploy_phase_is_measured_first():
    fleet = fleet_of("ab", metrics={"errors": 2.0})
    groups = strategy(analysed(metric("<= 2 * before")))
    state = fleet.run(
        fleet.start(groups),
        until=lambda s: s.active_phase is not None and s.active_phase.task.phase.value == "deploy",
    )
    assert state.analyses["x"].metrics["errors"].before == 2.0
    fleet.metrics = {"errors": 4.0}
    state = fleet.run(state, until=is_baking)
    assert stage(state) is MetricStage.PROVEN
    fleet.metrics = {"errors": 4.1}
    assert has_failed(fleet.wait(state, 60))


def test_the_value_before_is_measured_at_the_begin_of_the_deploy_phase_in_spite_of_a_pause():
    fleet = fleet_of("ab")
    state = fleet.start(strategy(analysed(metric("<= 2 * before"), max_parallel=ParallelLimit(1))))
    state = fleet.run(state, until=lambda s: s.active_phase and s.active_phase.task.phase is Phase.DEPLOY)
    begun, fleet.silent = fleet.now, {"a", "b"}
    fleet.act(Directive.PAUSE)
    state = fleet.wait(fleet.advance(state), 600)
    fleet.act(Directive.RESUME)
    state = fleet.wait(fleet.advance(state), 30)
    (request,) = due_requests(state, fleet.now)
    assert (request.key.number, request.time) == (None, begun)


def test_variables_for_the_value_before_are_needed_while_the_group_prepares():
    fleet = fleet_of("ab")
    metrics = (metric("<= 2 * before"), metric(name="latency", compare="before"), metric(name="load"))
    state = fleet.step(fleet.start(strategy(analysed(*metrics))))
    assert state.active_phase.task.phase is Phase.PREPARE
    (request,) = due_requests(state, fleet.now)
    assert (request.is_ahead, request.key, request.metrics) == (True, MetricKey("7-1", "x", "", None), metrics)


def test_variables_that_were_read_while_the_group_prepared_are_those_of_the_value_before():
    fleet = fleet_of("ab")
    state = fleet.step(fleet.start(strategy(analysed(metric("<= 2 * before")))))
    (request,) = due_requests(state, fleet.now)
    known = QueryVariables(instances=("10.0.0.1:80",))
    answer = MetricAnswer(0.0, fleet.now, fleet.now, Reading(), variables=known)
    assert is_open(state, request.key, answer)
    state = advance(state, replace(fleet.observe(), outside={ANALYSIS: {request.key: answer}}))
    assert (state.analyses["x"].before, is_open(state, request.key, answer)) == (known, False)
    state = fleet.run(state, until=lambda s: s.active_phase and s.active_phase.task.phase is Phase.DEPLOY)
    (request,) = due_requests(state, fleet.now)
    assert (request.key.number, request.variables) == (None, known)


def test_without_a_value_before_there_is_no_data():
    fleet, state = baking(analysed(metric("<= 2 * before")), metrics={})
    fleet.metrics = {"errors": 1.0}
    state = fleet.wait(state, 60)
    last = state.analyses["x"].metrics["errors"].measurements[-1]
    assert (last.outcome, last.problem) == (
        Outcome.NO_DATA,
        "no value before the deployment: the server has no value",
    )


def test_a_group_that_knows_only_a_value_before_is_described_while_it_deploys():
    fleet = fleet_of("ab", metrics={"errors": 2.0})
    groups = strategy(analysed(metric("<= 2 * before"), metric(name="latency")))
    state = fleet.run(fleet.start(groups), until=lambda state: bool(state.analyses))
    assert state.analyses["x"].metrics.keys() == {"errors"}
    assert waiting_reason(state, "x") == ""


@pytest.mark.parametrize(
    ("proven", "measured", "has_passed"),
    [
        ("abc", MetricStage.PASSED, True),  # another group has proven hosts, too
        ("ab", MetricStage.PASSED, True),
        ("a", MetricStage.PASSED, False),  # a host lost the revision since, or failed
        ("c", MetricStage.PASSED, False),
        ("ab", MetricStage.PROVEN, False),
        ("ab", MetricStage.STALE, False),
    ],
)
def test_a_group_needs_no_second_analysis_if_it_passed_and_all_its_hosts_stayed_healthy(
    proven, measured, has_passed
):
    _, state = baking(metrics={"errors": 0.5}, hosts="abc")
    analysis = state.analyses["x"]
    passed = replace(analysis, metrics={"errors": replace(analysis.metrics["errors"], stage=measured)})
    hosts = dict.fromkeys("ab", HostProgress.SUCCESS)
    state = replace(
        state,
        proven=frozenset(proven),
        analyses={"x": passed},
        rollout=replace(state.rollout, hosts={**state.rollout.hosts, **hosts}),
    )
    active = replace(
        state.active_phase, task=replace(state.active_phase.task, hosts=()), baking_since=None, granted={}
    )
    assert has_passed_before(state, active) is has_passed


def test_others_are_the_hosts_outside_of_the_group_without_the_revision():
    fleet, state = baking(analysed(metric("<= 2 * others")), metrics=None, hosts="abcd", current={"d"})
    (request,) = due_requests(state, fleet.now)
    assert (request.hosts, request.others) == ({"a", "b"}, {"c"})
    assert request.key == MetricKey("7-1", "x", "errors", 0)


@pytest.mark.parametrize("halt", ["stop", "pause"])
def test_the_time_of_a_stop_or_a_pause_does_not_count(halt):
    fleet, state = baking(metrics={"errors": 0.5})
    state = fleet.wait(state, 70)
    if halt == "stop":
        fleet.active = False
    else:
        fleet.act(Directive.PAUSE)
    state = fleet.wait(fleet.advance(state), 600)
    assert due_requests(state, fleet.now) == ()
    assert state.analyses["x"].metrics["errors"].passed == 2
    fleet.active = True
    if halt == "pause":
        fleet.act(Directive.RESUME)
    state = fleet.advance(state)
    state = fleet.wait(state, 49)
    assert state.rollout.progress["x"].verdict is None
    state = fleet.wait(state, 1)
    assert state.rollout.result is RolloutResult.SUCCESS
    assert [m.at for m in state.analyses["x"].metrics["errors"].measurements] == [0.0, 60.0, 120.0]


def test_a_time_without_a_coordinator_does_not_count():
    fleet, state = baking(metrics={"errors": 0.5})
    fleet.now += 5000
    state = fleet.advance(state)
    assert state.rollout.progress["x"].verdict is None
    assert state.analyses["x"].metrics["errors"].passed == 1


def test_a_successor_whose_clock_is_behind_keeps_the_time_of_a_halted_analysis():
    fleet, state = baking(metrics={"errors": 0.5})
    state = fleet.wait(state, 70)
    fleet.active = False
    state = fleet.wait(fleet.advance(state), 40)
    fleet.now -= 20
    state = fleet.advance(state)
    assert bake_elapsed(state, state.active_phase, fleet.now) == 70
    fleet.active = True
    state = fleet.wait(fleet.advance(state), 49)
    assert state.rollout.progress["x"].verdict is None
    assert fleet.wait(state, 1).rollout.result is RolloutResult.SUCCESS


def test_a_successor_after_a_gap_asks_for_all_measurements_that_are_left():
    group = analysed(bake_time=600.0)
    fleet, state = baking(group, metrics={"errors": 0.5})
    state = fleet.wait(state, 300)
    fleet.now += 3600
    assert [request.key.number for request in due_requests(state, fleet.now)] == []
    state = fleet.advance(state)
    assert state.analyses["x"].metrics["errors"].next == 6
    fleet.metrics = {"errors": 99.0}
    state = fleet.wait(state, 90)
    progress = state.analyses["x"].metrics["errors"]
    assert (state.rollout.result, progress.passed, progress.failed) == (RolloutResult.FAILED, 6, 1)
    assert progress.measurements[-1].at == 360


def test_an_answer_that_was_asked_before_a_gap_does_not_skip_measurements():
    fleet, state = baking(analysed(bake_time=600.0), metrics={"errors": 0.5})
    fleet.now += 3600
    answer = MetricAnswer(600.0, fleet.now, fleet.now, Reading(0.5))
    fleet.answers = {MetricKey("7-1", "x", "errors", 10): answer}
    assert advance(state, fleet.observe()).analyses["x"].metrics["errors"].next == 1


def test_a_bake_time_that_starts_again_is_measured_again():
    group = analysed(bake_time=600.0, progress_deadline=3600.0, max_parallel=ParallelLimit(1))
    fleet = fleet_of("ab", metrics={"errors": 0.5})
    state = fleet.run(
        fleet.start(strategy(group)), until=lambda s: s.active_phase and s.active_phase.task.phase is Phase.DEPLOY
    )
    facts = fleet.present["b"]
    fleet.deregister("b")
    while not is_baking(state):
        state = fleet.wait(fleet.step(state), 15)
    state = fleet.wait(state, 590)
    assert state.analyses["x"].metrics["errors"].passed == 10
    fleet.register("b", facts)
    state = fleet.step(state)
    assert stage(state) is MetricStage.UNPROVEN
    fleet.now += 10
    fleet.metrics = {"errors": 99.0}
    state = fleet.run(state)
    progress = state.analyses["x"].metrics["errors"]
    assert (state.rollout.result, progress.passed, progress.failed) == (RolloutResult.FAILED, 0, 1)


def test_a_group_is_measured_with_hosts_that_were_healthy_in_another_group():
    first = Group("first", critical=True, selectors=(Selector(names=frozenset("a")),), pace=Pace(bake_time=60.0))
    fleet = fleet_of("a", metrics={"errors": 99.0})
    state = finish(fleet, fleet.start(strategy(first, analysed(hosts="a", parents=("first",)))))
    verdicts = {name: progress.verdict for name, progress in state.rollout.progress.items()}
    assert verdicts == {"first": GroupVerdict.SUCCESS, "x": GroupVerdict.FAILED}
    assert state.analyses["x"].metrics["errors"].failed == 1


def second_attempt(change=lambda _fleet: None):
    """Return a fleet and the second attempt of a rollout whose group ``x`` passed and whose last group failed."""
    groups = strategy(analysed(metric(), metric(name="latency")), analysed(name="last", hosts="c", parents=("x",)))
    fleet = fleet_of("abc", metrics={"errors": 0.5, "latency": 0.5})
    state = fleet.start(groups)
    while state.rollout.progress["x"].verdict is None:
        state = fleet.wait(fleet.step(state), 15)
    fleet.metrics = {"errors": 99.0, "latency": 99.0}
    failed = finish(fleet, state)
    assert has_failed(failed)
    fleet.restart({"a", "b", "c"})
    change(fleet)
    fleet.answers = {}
    return fleet, failed, fleet.start(groups, before=failed)


def test_the_next_attempt_does_not_measure_a_group_again_that_passed():
    fleet, failed, state = second_attempt()
    state = finish(fleet, state)
    assert state.rollout.progress["x"].verdict is GroupVerdict.SUCCESS
    assert state.analyses["x"] == failed.analyses["x"]
    assert state.rollout.progress["last"].verdict is GroupVerdict.FAILED


def test_the_next_attempt_measures_a_group_again_of_which_a_host_deploys():
    fleet, _, state = second_attempt(lambda fleet: fleet.current.discard("b"))
    state = finish(fleet, state)
    assert state.rollout.progress["x"].verdict is GroupVerdict.FAILED
    assert state.analyses["x"].metrics["errors"].failed == 1


def test_the_next_attempt_compares_with_the_value_from_before_the_revision():
    groups = strategy(analysed(metric("<= 2 * before")))
    fleet = fleet_of("ab", metrics={"errors": 1.0})
    state = fleet.run(fleet.start(groups), until=is_baking)
    fleet.metrics = {"errors": 5.0}
    failed = finish(fleet, state)
    assert has_failed(failed)
    fleet.restart({"a", "b"})
    fleet.answers = {}
    state = finish(fleet, fleet.start(groups, before=failed))
    assert state.rollout.progress["x"].verdict is GroupVerdict.FAILED
    assert state.analyses["x"].metrics["errors"].before == 1.0
    # Where no host has the revision, the value at present is that from before the revision.
    fleet.restart(set())
    assert fleet.start(groups, before=failed).analyses == {}


def test_a_promotion_does_not_count_for_hosts_that_deploy_again():
    groups = strategy(analysed(), analysed(name="last", hosts="c", parents=("x",)))
    fleet = fleet_of("abc", metrics={})
    state = fleet.run(fleet.start(groups), until=is_baking)
    state = fleet.wait(fleet.wait(state, 120), 60)
    fleet.act(Directive.PROMOTE, "x")
    state = fleet.advance(state)
    assert state.rollout.progress["x"].verdict is GroupVerdict.SUCCESS
    fleet.metrics = {"errors": 99.0}
    failed = finish(fleet, state)
    assert has_failed(failed)
    fleet.metrics = {}
    fleet.restart({"a", "c"})
    fleet.answers = {}
    state = fleet.run(fleet.start(groups, before=failed), until=is_baking)
    state = fleet.wait(fleet.wait(state, 120), 60)
    assert held_groups(state.rollout) == ("x",)


def test_an_answer_that_was_asked_before_the_bake_time_started_again_is_dropped():
    _, state = baking(metrics={})
    since = state.active_phase.baking_since
    key = MetricKey("7-1", "x", "errors", 1)
    asked = [since - 1, since, since + 1]
    assert [is_open(state, key, MetricAnswer(60.0, at, since + 5, Reading(0.5))) for at in asked] == [
        False,
        True,
        True,
    ]
    deploying = replace(state, active_phase=replace(state.active_phase, baking_since=None))
    assert not is_open(deploying, key, MetricAnswer(60.0, since, since + 5, Reading(0.5)))


def test_an_answer_to_an_older_request_of_another_rollout_is_ignored():
    fleet, state = baking(metrics={"errors": 0.5})
    fleet.now += 60
    fleet.answers = {
        MetricKey("7-1", "x", "errors", 0): MetricAnswer(0.0, fleet.now, fleet.now, Reading(9.0)),
        MetricKey("6-1", "x", "errors", 1): MetricAnswer(0.0, fleet.now, fleet.now, Reading(9.0)),
        MetricKey("7-1", "y", "errors", 1): MetricAnswer(0.0, fleet.now, fleet.now, Reading(9.0)),
    }
    assert advance(state, fleet.observe()).analyses == state.analyses


def test_the_coordinator_wakes_for_each_due_measurement():
    fleet, state = baking(metrics={"errors": 0.5})
    assert seconds_until_change(state, fleet.observe()) == 60
    state = fleet.wait(state, 60)
    assert seconds_until_change(state, fleet.observe()) == 60
    fleet.now += 60
    assert (
        seconds_until_change(state, fleet.observe()) == 60
    )  # the measurement is under way, the deadline is not over


def test_the_coordinator_wakes_for_metrics_that_never_decide():
    shown = metric(dry_run=True, interval=5.0)
    fleet, state = baking(analysed(shown), metrics={"errors": 0.5})
    assert seconds_until_change(state, fleet.observe()) == 5
    fleet, state = baking(analysed(shown, metric(name="latency")), metrics={"errors": 0.5, "latency": 0.5})
    assert seconds_until_change(state, fleet.observe()) == 5


def test_the_values_of_variables_are_kept_with_their_measurements():
    fleet, state = baking(metrics={"errors": 0.5})
    fleet.metrics, fleet.answers = None, {}
    for number in range(1, 3):
        state = fleet.wait(state, 60)
        variables = QueryVariables(instances=(f"i{number}",))
        key = MetricKey("7-1", "x", "errors", number)
        answer = MetricAnswer(60.0 * number, fleet.now, fleet.now, Reading(0.1), "main", variables)
        state = advance(state, replace(fleet.observe(), outside={ANALYSIS: {key: answer}}))
    analysis = state.analyses["x"]
    found = [analysis.variables_of(m) for m in analysis.metrics["errors"].measurements]
    assert found == [None, QueryVariables(instances=("i1",)), QueryVariables(instances=("i2",))]
    forgetful = analysis.without_variables()
    assert forgetful.variables_of(forgetful.metrics["errors"].measurements[-1]) is None
    again, number = forgetful.remembering(QueryVariables(instances=("i2",)))
    assert (number, again.variables) == (2, (QueryVariables(instances=("i2",)),))


@pytest.mark.parametrize(("instances", "kept"), [(1, 200), (500, 40), (10_000, 3)])
def test_fewer_sets_of_variables_are_kept_the_larger_they_are(instances, kept):
    analysis = GroupAnalysis()
    for number in range(250):
        values = tuple(f"{number}-{instance}" for instance in range(instances))
        analysis, found = analysis.remembering(QueryVariables(instances=values))
        assert found == number
    assert (len(analysis.variables), analysis.forgotten) == (kept, 250 - kept)
    assert analysis.remembering(analysis.variables[0]) == (analysis, 250 - kept)


events = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([1.0, 20.0, 60.0, 400.0])),
    st.tuples(st.just("value"), st.sampled_from([0.0, 5.0, None])),
    st.tuples(st.just("act"), st.sampled_from(Directive)),
    st.tuples(st.just("stop"), st.booleans()),
    st.tuples(st.just("restart"), st.just(None)),
    st.tuples(st.just("err"), st.sampled_from("ab")),
)


def happen(fleet, state, kind, value):
    """Return the rollout after an event of the fleet."""
    match kind:
        case "wait":
            return fleet.wait(state, value)
        case "value":
            fleet.metrics = {} if value is None else {"errors": value, "latency": value}
        case "act":
            fleet.act(value, "x")
        case "stop":
            fleet.active = value
        case "err":
            fleet.erring.add(value)
        case "restart":
            return state_from_json(json.loads(json.dumps(state_to_json(state))))
    return state


@given(
    st.lists(events, max_size=30),
    st.integers(0, 2),
    st.sampled_from(list(NoData)),
    st.booleans(),
)
def test_after_any_events_the_verdict_is_that_of_the_recorded_outcomes(happening, limit, no_data, dry_run):
    deciding = metric(failure_limit=limit, no_data=no_data)
    shown = metric(name="latency", dry_run=dry_run, failure_limit=50)
    fleet, state = baking(analysed(deciding, shown), metrics={"errors": 0.0, "latency": 9.0})
    for kind, value in happening:
        state = happen(fleet, state, kind, value)
        state = fleet.advance(state)
        assert advance(state, fleet.observe()) == state
        assert state_from_json(json.loads(json.dumps(state_to_json(state)))) == state
        left = seconds_until_change(state, fleet.observe())
        assert left is None or left > 0
        progress = state.analyses["x"].metrics["errors"]
        failures = progress.failed + (progress.no_data if no_data is NoData.FAILS else 0)
        assert (progress.stage is MetricStage.FAILED) == (failures > limit)
        if progress.stage is MetricStage.PASSED:
            assert progress.passed or (no_data is NoData.PASSES and progress.no_data)
        times = [m.at for m in progress.measurements]
        assert times == sorted(times)
        verdict = state.rollout.progress["x"].verdict
        if verdict is GroupVerdict.SUCCESS:
            decided = state.analyses["x"].promoted
            assert decided or progress.stage is MetricStage.PASSED
        if waiting_reason(state, "x"):
            assert verdict is None
