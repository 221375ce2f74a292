"""The progress of a rollout, rule by rule: groups, phases, time, what operators ask, hosts that come and go."""

from dataclasses import replace

import pytest

from support.fleets.simulated import NOON, SimulatedFleet, fleet_of
from support.strategies import EXAMPLE_HOSTS, example, group, plain_hosts, strategy
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import RESTART, Facts
from zkdeployment.base.publication import Published
from zkdeployment.strategies.criteria import CHECKS, CHECKS_TIMEOUT, HostHealth, Judgement, checked
from zkdeployment.strategies.permission import Grant, Phase, PhaseReport
from zkdeployment.strategies.progress import (
    advance,
    grants,
    has_failed,
    is_superseded,
    next_attempt,
    restarted_hosts,
    seconds_until_change,
    supersede,
    withdraw,
)
from zkdeployment.strategies.state import Directive, Ending, RolloutSnapshot, state_from_json, state_to_json
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress, RolloutResult
from zkdeployment.strategies.strategy import ABSENT_AFTER, ALL_HOSTS, Pace, ParallelLimit, Selector, Window
from zkdeployment.strategies.timekeeping import PROGRESS_DEADLINE

PREPARE, DEPLOY = Phase.PREPARE, Phase.DEPLOY
SUCCESS, FAILED = GroupVerdict.SUCCESS, GroupVerdict.FAILED


def paced(name, *parents, hosts="", critical=False, criteria=None, **pace):
    return replace(group(name, *parents, hosts=hosts, critical=critical, **(criteria or {})), pace=Pace(**pace))


def verdicts(state):
    return {name: course.verdict for name, course in state.rollout.progress.items()}


def let_in(state):
    return sorted(host for host, grant in grants(state).items() if grant.phase is not None)


def is_baking(state):
    return state.active_phase is not None and state.active_phase.baking_since is not None


def look(state, seen):
    return seconds_until_change(state, seen.observe())


def _failing_while_another_works(failing):
    """Return a rollout of a group whose host a has failed to deploy, and b has not reported."""
    fleet = fleet_of("ab", failing={(DEPLOY, "a")})
    state = fleet.step(fleet.start(strategy(failing)))
    fleet.silent = {"b"}
    state = fleet.run(
        state, until=lambda state: state.active_phase is not None and "a" in state.active_phase.reports
    )
    assert state.active_phase.task.phase is DEPLOY
    return state


class TestGroups:
    def test_the_example_goes_group_by_group_and_phase_by_phase(self):
        fleet = SimulatedFleet(dict(EXAMPLE_HOSTS))
        over = fleet.run(fleet.start(example()))
        assert over.rollout.result is RolloutResult.SUCCESS
        assert fleet.groups == [
            "monitoring-nodes",
            "ntp-node",
            "control-nodes",
            "compute-nodes-1",
            "compute-nodes-2",
        ]
        control = [(phase, host) for name, phase, host in fleet.entered if name == "control-nodes"]
        assert [phase for phase, _ in control] == [PREPARE] * 3 + [DEPLOY] * 3

    def test_only_the_hosts_of_a_group_are_granted_all_at_once(self):
        fleet = fleet_of("abc")
        state = fleet.step(fleet.start(strategy(group("x", hosts="ab"), group("y", "x", hosts="c"))))
        assert grants(state) == {"a": Grant("x", PREPARE), "b": Grant("x", PREPARE)}

    def test_a_host_that_failed_to_prepare_is_not_deployed(self):
        fleet = fleet_of("ab", failing={(PREPARE, "a")})
        over = fleet.run(fleet.start(strategy(group("x"))))
        assert over.rollout.hosts == {"a": HostProgress.FAILURE, "b": HostProgress.SUCCESS}
        assert over.errors == {"a": "boom"}
        assert over.rollout.result is RolloutResult.PARTIAL

    def test_a_host_that_failed_loses_its_grant_with_the_reason(self):
        fleet = fleet_of("ab", failing={(PREPARE, "a")})
        state = fleet.start(strategy(group("x"), group("y")))
        state = fleet.run(state, until=lambda state: "y" in state.rollout.order)
        assert grants(state)["a"] == Grant("x", None, "boom")
        assert (DEPLOY, "a") not in fleet.reports

    def test_a_tolerated_failure_withdraws_the_grant_while_other_hosts_continue(self):
        state = _failing_while_another_works(group("x", maximum_failed=1))
        assert grants(state) == {"a": Grant("x", None, "boom"), "b": Grant("x", DEPLOY)}

    def test_after_a_failure_of_the_group_grants_stay_until_the_other_hosts_have_ended(self):
        state = _failing_while_another_works(group("x", maximum_failed=0))
        assert grants(state) == {"a": Grant("x", DEPLOY), "b": Grant("x", DEPLOY)}

    def test_a_critical_group_that_fails_ends_it_as_failed_after_all_that_could_go(self):
        fleet = fleet_of("abc", failing={(PREPARE, "a")})
        groups = strategy(
            group("x", hosts="a", critical=True, percent_successful=100),
            group("y", "x", hosts="b"),
            group("z", hosts="c"),
        )
        over = fleet.run(fleet.start(groups))
        assert verdicts(over) == {"x": FAILED, "y": FAILED, "z": SUCCESS}
        assert has_failed(over)
        assert over.rollout.hosts["b"] is HostProgress.NOT_STARTED

    def test_a_group_without_hosts_is_judged_at_once(self):
        fleet = fleet_of("a")
        groups = strategy(group("x", hosts="z", percent_successful=100), group("y", "x", hosts="a"))
        assert verdicts(fleet.run(fleet.start(groups))) == {"x": SUCCESS, "y": SUCCESS}

    def test_a_long_error_is_cut_short(self):
        fleet = fleet_of("a")
        state = fleet.step(fleet.start(strategy(group("x"))))
        fleet.reports[PREPARE, "a"] = PhaseReport(NOON, "e" * 5000)
        assert len(fleet.run(state).errors["a"]) == 200


class TestPace:
    @pytest.mark.parametrize(
        ("share", "width"),
        [
            (ParallelLimit(1), 1),
            (ParallelLimit(3), 3),
            (ParallelLimit(50, percent=True), 2),
            (ParallelLimit(30, percent=True), 1),
            (ParallelLimit(1, percent=True), 1),
            (ParallelLimit(100, percent=True), 5),
            (ParallelLimit(99), 5),
        ],
    )
    def test_at_most_max_parallel_hosts_run_at_a_time(self, share, width):
        fleet = fleet_of("abcde", silent=set("abcde"))
        state = fleet.step(fleet.start(strategy(paced("x", max_parallel=share))))
        assert len(let_in(state)) == width

    def test_the_next_host_is_granted_when_another_has_reported(self):
        fleet = fleet_of("abc", silent=set("bc"))
        state = fleet.start(strategy(paced("x", max_parallel=ParallelLimit(1))))
        state = fleet.step(fleet.step(state))
        assert let_in(state) == ["a", "b"]

    @pytest.mark.parametrize("phase", Phase)
    def test_once_the_criteria_are_missed_for_certain_no_further_host_enters_and_the_group_fails(self, phase):
        fleet = fleet_of("abcdef", failing={(phase, "a"), (phase, "c")})
        over = fleet.run(
            fleet.start(strategy(paced("x", max_parallel=ParallelLimit(2), criteria={"maximum_failed": 1})))
        )
        assert [host for _, entered, host in fleet.entered if entered is phase] == ["a", "b", "c", "d"]
        assert over.rollout.progress["x"].reason == f"{phase.value}: 2 of 6 hosts failed, expected at most 1"
        assert {over.rollout.hosts[host] for host in "ef"} == {
            HostProgress.NOT_STARTED if phase is PREPARE else HostProgress.PREPARED
        }

    def test_active_hosts_finish_their_phase_when_the_criteria_are_missed_and_nothing_bakes(self):
        fleet = fleet_of("abc")
        limited = paced("x", max_parallel=ParallelLimit(2), bake_time=600.0, criteria={"percent_successful": 100})
        state = fleet.start(strategy(limited))
        state = fleet.run(
            state, until=lambda state: state.active_phase is not None and state.active_phase.task.phase is DEPLOY
        )
        fleet.reports = {key: report for key, report in fleet.reports.items() if key[0] is PREPARE}
        fleet.reports[DEPLOY, "a"] = PhaseReport(NOON, "boom")
        fleet.silent = set("bc")
        state = fleet.step(state)
        assert state.active_phase is not None
        assert state.active_phase.granted.keys() == {"a", "b"}
        fleet.silent = {"c"}
        over = fleet.run(state)
        assert fleet.now < NOON + 600
        assert over.rollout.hosts == {
            "a": HostProgress.FAILURE,
            "b": HostProgress.SUCCESS,
            "c": HostProgress.PREPARED,
        }

    def test_a_limited_group_that_has_missed_its_criteria_before_it_begins_is_not_begun(self):
        fleet = fleet_of("ab")
        limited = paced("x", max_parallel=ParallelLimit(1), criteria={"minimum_successful": 3})
        over = fleet.run(fleet.start(strategy(limited)))
        assert (fleet.entered, verdicts(over)) == ([], {"x": FAILED})

    def test_a_host_that_joins_a_group_may_make_its_criteria_reachable_again(self):
        fleet = fleet_of("abc", silent={"b"}, failing={(PREPARE, "a")})
        limited = paced("x", max_parallel=ParallelLimit(2), criteria={"percent_successful": 70})
        state = fleet.step(fleet.step(fleet.start(strategy(limited))))
        assert state.active_phase is not None
        assert state.active_phase.task.hosts == ("a", "b")
        fleet.register("d", Facts())
        state = fleet.step(state)
        assert let_in(state) == ["b", "c"]

    @pytest.mark.parametrize(("phase", "key"), [(PREPARE, "prepare_timeout"), (DEPLOY, "deploy_timeout")])
    def test_a_phase_that_takes_too_long_fails_its_group_and_withdraws_the_grants(self, phase, key):
        fleet = fleet_of("ab")
        state = fleet.step(fleet.start(strategy(paced("x", **{key: 60.0}), group("y"))))
        fleet.reports.pop((PREPARE, "b"))
        if phase is DEPLOY:
            fleet.reports[PREPARE, "b"] = PhaseReport(NOON)
            state = fleet.step(state)
            fleet.reports.pop((DEPLOY, "b"))
        fleet.silent = {"b"}
        state = advance(state, fleet.observe())
        assert look(state, fleet) == 60
        fleet.now += 59
        assert verdicts(advance(state, fleet.observe()))["x"] is None
        fleet.now += 1
        state = advance(state, fleet.observe())
        assert verdicts(state)["x"] is FAILED
        assert state.rollout.progress["x"].reason == f"{phase.value}: 1 of 2 hosts did not end within 60 s"
        assert grants(state)["b"] == Grant("x", None, f"{phase.value}: 1 of 2 hosts did not end within 60 s")
        assert state.rollout.hosts["a"] in {HostProgress.PREPARED, HostProgress.SUCCESS}
        assert fleet.run(state).rollout.hosts["b"] is HostProgress.FAILURE

    def test_a_host_without_a_grant_does_not_fail_by_a_timeout(self):
        fleet = fleet_of("ab", silent={"a"})
        state = fleet.step(fleet.start(strategy(paced("x", max_parallel=ParallelLimit(1), prepare_timeout=60.0))))
        fleet.now += 60
        over = advance(state, fleet.observe())
        assert over.rollout.hosts == {"a": HostProgress.FAILURE, "b": HostProgress.NOT_STARTED}

    @pytest.mark.parametrize("limit", ["prepare_timeout", "progress_deadline"])
    def test_an_absent_host_without_a_grant_does_not_prolong_a_phase(self, limit):
        fleet = fleet_of("a", absent={"b": Facts()}, left={"b": NOON})
        state = fleet.step(fleet.step(fleet.start(strategy(paced("x", **{limit: 30.0})))))
        fleet.now += 29
        assert verdicts(fleet.step(state)) == {"x": None}
        fleet.now += 1
        over = fleet.run(fleet.step(state))
        assert verdicts(over) == {"x": SUCCESS}
        assert over.rollout.hosts == {"a": HostProgress.SUCCESS, "b": HostProgress.NOT_STARTED}

    def test_an_absent_host_without_a_grant_does_not_disturb_the_bake_time(self):
        fleet = fleet_of("ab")
        state = fleet.start(
            strategy(paced("x", max_parallel=ParallelLimit(1), deploy_timeout=60.0, bake_time=100.0))
        )
        state = fleet.run(
            state, until=lambda state: state.active_phase is not None and state.active_phase.task.phase is DEPLOY
        )
        fleet.deregister("b")
        state = fleet.wait(state, 60)
        assert state.active_phase is not None
        assert state.active_phase.baking_since == fleet.now
        fleet.register("b", Facts())
        assert advance(state, fleet.observe()).active_phase == state.active_phase
        state = fleet.wait(state, 100)
        assert (state.ending, verdicts(state)) == (Ending.COMPLETED, {"x": SUCCESS})
        assert (
            fleet.run(state, until=lambda state: not state.late_joiners).rollout.hosts["b"] is HostProgress.SUCCESS
        )

    def test_without_progress_for_too_long_the_group_fails(self):
        fleet = fleet_of("abc", silent=set("bc"))
        state = fleet.step(fleet.start(strategy(paced("x", progress_deadline=60.0))))
        fleet.now += 50
        state = fleet.step(state)  # a has reported
        assert look(state, fleet) == 60
        fleet.now += 59
        assert verdicts(fleet.step(state)) == {"x": None}
        fleet.now += 1
        over = fleet.step(state)
        assert over.rollout.progress["x"].reason.endswith("2 of 3 hosts did not end; no progress for 60 s")

    @pytest.mark.parametrize("hours", [2, -2])
    def test_no_limit_counts_time_without_a_coordinator_or_clock_differences(self, hours):
        fleet = fleet_of("abc", silent=set("bc"))
        state = fleet.step(fleet.start(strategy(paced("x", prepare_timeout=60.0, progress_deadline=60.0))))
        state = fleet.step(state)
        fleet.deregister("c")
        state = fleet.wait(state, 30)
        fleet.now += hours * 3600
        state = fleet.step(state)
        assert verdicts(state) == {"x": None}
        assert look(state, fleet) == 30
        fleet.silent = set()
        state = fleet.run(fleet.step(state))
        assert state.active_phase is not None
        assert state.active_phase.reports.keys() == {"a", "b"}
        fleet.register("c", Facts())
        assert fleet.run(state).rollout.result is RolloutResult.SUCCESS

    def test_a_group_proves_itself_before_it_is_judged(self):
        fleet = fleet_of("ab")
        state = fleet.start(strategy(paced("x", hosts="a", bake_time=600.0), group("y", "x", hosts="b")))
        state = fleet.run(
            state,
            until=lambda state: state.active_phase is not None and state.active_phase.baking_since is not None,
        )
        assert look(state, fleet) == 600
        state = fleet.wait(state, 599)
        assert fleet.step(state).rollout.order == ("x",)
        fleet.now += 1
        assert fleet.run(state).rollout.order == ("x", "y")

    @pytest.mark.parametrize("trouble", ["error", "absent"])
    def test_a_host_that_does_not_stay_well_does_not_succeed(self, trouble):
        fleet = fleet_of("ab")
        state = fleet.start(strategy(paced("x", bake_time=600.0, criteria={"percent_successful": 100})))
        state = fleet.run(
            state,
            until=lambda state: state.active_phase is not None and state.active_phase.baking_since is not None,
        )
        if trouble == "error":
            fleet.erring = {"b"}
        else:
            fleet.deregister("b")
            state = fleet.step(state)
        over = fleet.wait(state, 600)
        assert over.rollout.hosts == {"a": HostProgress.SUCCESS, "b": HostProgress.FAILURE}
        assert verdicts(over) == {"x": FAILED}
        assert ("error" if trouble == "error" else "its agent has been absent for 300 s") in over.errors["b"]

    def test_the_verdict_on_a_group_waits_for_a_host_that_restarts(self):
        fleet = fleet_of("ab")
        state = fleet.start(strategy(paced("x", bake_time=10.0, criteria={"percent_successful": 100})))
        state = fleet.run(
            state,
            until=lambda state: state.active_phase is not None and state.active_phase.baking_since is not None,
        )
        fleet.now += 6
        fleet.deregister("b")
        state = fleet.step(state)
        assert look(state, fleet) == ABSENT_AFTER
        fleet.now += 20
        state = fleet.step(state)
        assert state.active_phase is not None
        fleet.register("b", Facts())
        assert fleet.step(state).rollout.result is RolloutResult.SUCCESS

    def test_the_checks_of_a_group_decide_at_the_end_of_its_bake_time(self):
        fleet = fleet_of("ab")
        groups = strategy(
            paced("x", bake_time=60.0, healthy_checks=True, critical=True, criteria={"percent_successful": 100}),
        )
        state = fleet.run(fleet.start(groups), until=is_baking)
        baking = state.active_phase.baking_since
        fleet.unhealthy = {"a": "check http of /web 0 is critical: down"}
        assert checked(state, baking + 59) == {}
        deployed = {host: report.time for host, report in state.active_phase.reports.items()}
        assert checked(state, baking + 60) == deployed
        assert deployed.keys() == {"a", "b"}
        over = fleet.wait(state, 60)
        assert over.rollout.hosts == {"a": HostProgress.FAILURE, "b": HostProgress.SUCCESS}
        assert over.errors == {"a": "check http of /web 0 is critical: down"}
        assert has_failed(over)

    def test_a_check_that_recovers_within_the_bake_time_does_not_fail_the_host(self):
        fleet = fleet_of("ab", unhealthy={"a": "critical"})
        groups = strategy(paced("x", bake_time=60.0, healthy_checks=True, criteria={"percent_successful": 100}))
        state = fleet.wait(fleet.run(fleet.start(groups), until=is_baking), 30)
        fleet.unhealthy = {}
        assert verdicts(fleet.wait(state, 30)) == {"x": SUCCESS}

    def test_a_group_waits_for_the_results_of_its_checks_for_fifteen_minutes(self):
        fleet = fleet_of("ab", unchecked={"b": "check http of /web 0 has no result"})
        groups = strategy(paced("x", bake_time=60.0, healthy_checks=True, criteria={"percent_successful": 100}))
        state = fleet.run(fleet.start(groups), until=is_baking)
        assert look(state, fleet) == CHECKS_TIMEOUT
        state = fleet.wait(state, CHECKS_TIMEOUT - 1)
        assert verdicts(state) == {"x": None}
        checks = dict(fleet.unchecked)
        fleet.unchecked = {}
        assert verdicts(fleet.advance(state)) == {"x": SUCCESS}
        fleet.unchecked = checks
        over = fleet.wait(state, 1)
        assert verdicts(over) == {"x": FAILED}
        assert over.errors == checks

    def test_checks_that_no_coordinator_has_read_yet_are_awaited_after_a_difference_of_clocks(self):
        fleet = fleet_of("ab", unchecked={"b": "check http of /web 0 has no result"})
        groups = strategy(paced("x", bake_time=60.0, healthy_checks=True, criteria={"percent_successful": 100}))
        state = fleet.wait(fleet.run(fleet.start(groups), until=is_baking), 100)
        fleet.now -= 90  # the clock of another coordinator, for which the bake time seems to have just begun
        assert checked(state, fleet.now) == {}
        fleet.outside = {CHECKS: None}
        state = fleet.advance(state)
        assert verdicts(state) == {"x": None}
        assert look(state, fleet) == 0
        assert checked(state, fleet.now).keys() == {"a", "b"}
        fleet.outside = {CHECKS: HostHealth(unhealthy={"b": "check http of /web 0 is critical: down"})}
        assert verdicts(fleet.advance(state)) == {"x": FAILED}

    def test_a_judgement_from_outside_holds_back_the_verdict_until_it_ends(self):
        fleet = fleet_of("ab")
        groups = strategy(paced("x", bake_time=60.0, criteria={"percent_successful": 100}))
        state = fleet.run(fleet.start(groups), until=is_baking)
        end = fleet.now + 500
        fleet.outside = {"blackout": Judgement(is_pending=True, moments=(end,))}
        state = fleet.wait(state, 100)
        assert verdicts(state) == {"x": None}
        assert look(state, fleet) == end - fleet.now
        fleet.outside = {"blackout": Judgement()}
        assert verdicts(fleet.advance(state)) == {"x": SUCCESS}

    def test_checks_do_not_matter_to_a_group_without_healthy_checks(self):
        fleet = fleet_of("ab")
        state = fleet.run(fleet.start(strategy(paced("x", bake_time=60.0))), until=is_baking)
        assert checked(state, fleet.now + 60) == {}

    def test_a_group_in_which_no_host_deployed_does_not_bake(self):
        fleet = fleet_of("a", failing={(PREPARE, "a")})
        over = fleet.run(fleet.start(strategy(paced("x", bake_time=600.0))))
        assert fleet.now < NOON + 600
        assert verdicts(over) == {"x": SUCCESS}

    def test_a_phase_in_which_nothing_happens_for_two_hours_fails_where_the_strategy_sets_no_limit(self):
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.step(fleet.step(fleet.start(strategy(group("x")))))
        state = fleet.wait(state, PROGRESS_DEADLINE - 1)
        assert verdicts(state) == {"x": None}
        over = fleet.wait(state, 1)
        assert over.rollout.progress["x"].reason == ("prepare: 1 of 2 hosts did not end; no progress for 7200 s")

    @pytest.mark.parametrize(("phase", "key"), [(PREPARE, "prepare_timeout"), (DEPLOY, "deploy_timeout")])
    def test_the_timeouts_of_a_strategy_hold_for_groups_without_their_own(self, phase, key):
        groups = replace(strategy(paced("x", hosts="a", **{key: 9000.0}), group("y", hosts="b")), **{key: 60.0})
        fleet = fleet_of("ab", silent={"a", "b"})
        if phase is DEPLOY:
            fleet.reports = {(PREPARE, host): PhaseReport(NOON) for host in "ab"}
        state = fleet.wait(fleet.step(fleet.start(groups)), 8999)
        assert verdicts(state)["x"] is None
        state = fleet.wait(state, 1)
        assert state.rollout.progress["x"].reason.endswith("did not end within 9000 s")
        over = fleet.wait(state, 60)
        assert over.rollout.progress["y"].reason.endswith("did not end within 60 s")

    @pytest.mark.parametrize("hours", [2, -2])
    def test_a_bake_time_does_not_count_time_without_a_coordinator_or_clock_differences(self, hours):
        fleet = fleet_of("ab")
        state = fleet.start(strategy(paced("x", hosts="a", bake_time=600.0), group("y", "x", hosts="b")))
        state = fleet.wait(fleet.run(state, until=is_baking), 60)
        fleet.now += hours * 3600
        left = look(fleet.step(state), fleet)
        assert left is not None
        assert 540 <= left <= 570  # that a coordinator looked is noted twice a minute

    def test_a_new_attempt_bakes_hosts_that_have_the_revision_and_whose_bake_was_not_completed(self):
        groups = strategy(paced("x", hosts="a", bake_time=600.0), group("y", "x", hosts="b"))
        fleet = fleet_of("ab")
        state = fleet.wait(fleet.run(fleet.start(groups), until=is_baking), 60)
        fleet.act(Directive.ABORT)
        aborted = fleet.step(state)
        fleet.restart(current={"a"})
        state = fleet.run(fleet.start(groups, before=aborted), until=is_baking)
        assert (state.rollout.order, fleet.entered) == (("x",), [])
        assert look(state, fleet) == 600
        over = fleet.run(fleet.wait(state, 600))
        assert over.rollout.result is RolloutResult.SUCCESS
        assert fleet.groups == ["y"]

    def test_a_host_that_has_the_revision_and_does_not_stay_well_fails_the_bake(self):
        groups = strategy(
            paced("x", hosts="a", bake_time=600.0, criteria={"maximum_failed": 0}), group("y", "x", hosts="b")
        )
        fleet = fleet_of("ab", current={"a"}, erring={"a"})
        over = fleet.wait(fleet.step(fleet.start(groups)), 600)
        assert verdicts(over) == {"x": FAILED, "y": FAILED}
        assert over.rollout.hosts["a"] is HostProgress.FAILURE
        assert grants(over)["a"].phase is None

    def test_a_completed_bake_of_the_revision_is_not_repeated_by_a_new_attempt(self):
        groups = strategy(paced("x", hosts="a", bake_time=600.0), group("y", "x", hosts="b", critical=True))
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.wait(fleet.run(fleet.start(groups), until=is_baking), 600)
        assert state.proven == {"a"}
        fleet.act(Directive.ABORT)
        aborted = fleet.step(state)
        fleet.restart(current={"a"})
        assert fleet.step(fleet.start(groups, before=aborted)).rollout.order == ("x",)
        fleet.restart(current={"a"})
        other = fleet.start(groups, before=replace(aborted, revision="r1"))
        assert is_baking(fleet.step(other))


class TestStarting:
    def test_a_manual_group_waits_until_it_is_promoted_and_blocks_no_other_group(self):
        fleet = fleet_of("ab")
        state = fleet.run(fleet.start(strategy(paced("x", hosts="a", manual=True), group("y", hosts="b"))))
        assert state.ended is None
        assert state.waiting == "x waits for 'zkdeployment rollout promote x'"
        assert verdicts(state) == {"x": None, "y": SUCCESS}
        assert look(state, fleet) is None
        fleet.act(Directive.PROMOTE, "x")
        assert fleet.run(state).rollout.order == ("y", "x")

    @pytest.mark.parametrize(
        "waiting",
        [paced("x", hosts="a", manual=True), group("x", hosts="c", critical=True)],
        ids=["for an operator", "for a host"],
    )
    def test_after_a_critical_failure_a_group_that_waits_does_not_delay_the_end(self, waiting):
        fleet = fleet_of("ab", absent={"c": Facts()}, failing={(DEPLOY, "b")})
        state = fleet.run(fleet.start(strategy(waiting, group("y", hosts="b", critical=True, maximum_failed=0))))
        assert (has_failed(state), verdicts(state)) == (True, {"x": None, "y": FAILED})

    def test_after_a_critical_failure_a_group_still_begins_in_its_window(self):
        night = Window(frozenset(range(7)), 2 * 60, 4 * 60, "UTC")
        fleet = fleet_of("ab", failing={(DEPLOY, "b")})
        groups = paced("x", hosts="a", windows=(night,)), group("y", hosts="b", critical=True, maximum_failed=0)
        state = fleet.run(fleet.start(strategy(*groups)))
        assert (state.ended, state.waiting) == (None, "x waits for its time window")
        left = look(state, fleet)
        assert left is not None
        assert verdicts(fleet.run(fleet.wait(state, left))) == {"x": SUCCESS, "y": FAILED}

    def test_after_a_critical_failure_nothing_ends_while_an_operator_has_paused_the_rollout(self):
        fleet = fleet_of("ab", failing={(DEPLOY, "b")})
        groups = paced("x", hosts="a", manual=True), group("y", hosts="b", critical=True, maximum_failed=0)
        state = fleet.step(fleet.start(strategy(*groups)))
        while state.active_phase is None or state.active_phase.task.phase is not Phase.DEPLOY:
            state = fleet.step(state)
        fleet.act(Directive.PAUSE)
        state = fleet.run(state)
        assert (state.ended, verdicts(state)) == (None, {"x": None, "y": FAILED})
        fleet.act(Directive.RESUME)
        assert has_failed(fleet.run(state))

    def test_a_group_starts_only_in_its_windows(self):
        night = Window(frozenset(range(7)), 2 * 60, 4 * 60, "UTC")  # the tests begin at 8 in the morning
        fleet = fleet_of("ab")
        state = fleet.run(fleet.start(strategy(paced("x", hosts="a", windows=(night,)), group("y", hosts="b"))))
        assert state.waiting == "x waits for its time window"
        left = look(state, fleet)
        assert left is not None
        fleet.now += left - 1
        assert fleet.step(state).active_phase is None
        fleet.now += 1
        assert fleet.run(state).rollout.order == ("y", "x")

    def test_a_group_that_began_in_its_window_continues_after_it(self):
        fleet = fleet_of("a", silent={"a"})
        window = Window(frozenset(range(7)), 8 * 60, 8 * 60 + 1, "UTC")
        state = fleet.step(fleet.start(strategy(paced("x", windows=(window,)))))
        fleet.now += 3600
        fleet.silent = set()
        assert fleet.run(state).rollout.result is RolloutResult.SUCCESS


class TestActs:
    def test_a_pause_grants_nothing_new_and_keeps_existing_grants(self):
        fleet = fleet_of("abc")
        state = fleet.step(fleet.start(strategy(paced("x", max_parallel=ParallelLimit(1)))))
        fleet.act(Directive.PAUSE)
        state = fleet.run(state)
        assert state.active_phase is not None
        assert sorted(state.active_phase.reports) == let_in(state) == ["a"]
        assert state.waiting == "paused by ann@ops"
        fleet.act(Directive.RESUME)
        assert fleet.run(state).rollout.result is RolloutResult.SUCCESS

    def test_no_group_begins_during_a_pause(self):
        fleet = fleet_of("ab")
        state = fleet.step(fleet.start(strategy(group("x", hosts="a"), group("y", hosts="b"))))
        fleet.act(Directive.PAUSE)
        state = fleet.run(state)
        assert state.active_phase is None
        assert fleet.entered == [("x", PREPARE, "a")]

    @pytest.mark.parametrize("how", ["pause", "stop"])
    def test_the_time_of_a_pause_counts_for_no_limit(self, how):
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.step(fleet.start(strategy(paced("x", prepare_timeout=60.0, progress_deadline=60.0))))
        fleet.now += 10
        if how == "pause":
            fleet.act(Directive.PAUSE)
        fleet.active = how == "pause"
        state = fleet.step(state)
        assert look(state, fleet) is None
        fleet.now += 3600
        state = fleet.step(state)
        fleet.act(Directive.RESUME)
        fleet.active = True
        state = fleet.step(state)
        assert verdicts(state) == {"x": None}
        assert look(state, fleet) == 50

    def test_an_abort_is_the_end_and_a_failure(self):
        fleet = fleet_of("ab")
        state = fleet.step(fleet.start(strategy(group("x"))))
        fleet.act(Directive.ABORT)
        over = fleet.step(state)
        assert (over.ending, over.ended, over.active_phase) == (Ending.ABORTED, fleet.now, None)
        assert has_failed(over)
        assert grants(over) == {}

    def test_each_act_is_applied_once(self):
        fleet = fleet_of("a", silent={"a"})
        state = fleet.start(strategy(group("x")))
        fleet.act(Directive.PAUSE)
        fleet.act(Directive.RESUME)
        state = fleet.step(fleet.step(state))
        assert [act.directive for act in state.acts] == [Directive.PAUSE, Directive.RESUME]
        assert (state.last_act_number, state.paused) == (1, None)

    def test_a_stopped_fleet_waits_with_the_reason(self):
        fleet = fleet_of("a", active=False)
        state = fleet.run(fleet.start(strategy(group("x"))))
        assert fleet.entered == []
        assert state.waiting == "the fleet is stopped"


class TestHosts:
    def test_hosts_that_already_have_the_revision_are_successful_without_a_grant(self):
        fleet = fleet_of("ab", current={"a"})
        over = fleet.run(fleet.start(strategy(group("x", percent_successful=100))))
        assert over.rollout.result is RolloutResult.SUCCESS
        assert {host for _, _, host in fleet.entered} == {"b"}

    def test_absent_hosts_count_and_do_not_succeed(self):
        fleet = fleet_of("ab", absent={"c": Facts(), "d": Facts()})
        over = fleet.run(fleet.start(strategy(group("x", percent_successful=51))))
        assert over.rollout.progress["x"].reason == (
            "prepare: 2 of 4 hosts successful (50 %), expected at least 51 %"
        )
        assert over.rollout.hosts["c"] is HostProgress.NOT_STARTED

    def test_hosts_that_were_never_registered_do_not_block_the_rollout(self):
        fleet = fleet_of("a", absent={"b": Facts()})
        fleet.run(fleet.start(strategy(group("x"))))
        assert fleet.now < NOON + ABSENT_AFTER

    def test_a_rollout_waits_for_the_restart_of_an_agent_that_left_just_before_its_turn(self):
        fleet = fleet_of("a", absent={"b": Facts()}, left={"b": NOON - 10})
        state = fleet.step(fleet.step(fleet.start(strategy(group("x", percent_successful=100)))))
        assert look(state, fleet) == RESTART - 10
        fleet.now += RESTART - 11
        state = fleet.step(state)
        assert state.active_phase is not None
        fleet.register("b", Facts())
        assert fleet.run(state).rollout.result is RolloutResult.SUCCESS

    def test_a_host_that_is_absent_for_longer_is_excluded(self):
        fleet = fleet_of("a", absent={"b": Facts()}, left={"b": NOON - 10})
        state = fleet.step(fleet.step(fleet.start(strategy(group("x", percent_successful=100)))))
        fleet.now += RESTART - 10
        assert fleet.step(state).rollout.progress["x"].reason.startswith("prepare: 1 of 2 hosts successful")

    def test_a_new_host_joins_the_groups_without_a_verdict(self):
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.start(strategy(group("x", hosts="ac"), group("y", hosts="bc")))
        state = fleet.run(state, until=lambda state: state.rollout.order == ("x",) and let_in(state) == ["a", "b"])
        fleet.register("c", Facts())
        state = fleet.step(state)
        assert state.rollout.members == {"x": {"a"}, "y": {"b", "c"}}
        assert grants(state)["c"] == Grant("y", PREPARE)

    def test_a_host_that_registers_takes_the_place_of_its_name(self):
        fleet = fleet_of("a", absent={"b.example": Facts()}, silent={"a"})
        state = fleet.step(fleet.start(strategy(group("x"))))
        fleet.register("i-1", Facts(name="b.example"))
        assert state.rollout.members["x"] == {"a", "b.example"}
        assert fleet.step(state).rollout.members["x"] == {"a", "i-1"}

    def test_a_granted_host_is_not_confused_with_a_host_whose_name_is_its_id(self):
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.step(fleet.start(strategy(group("x"))))
        fleet.deregister("b")
        fleet.register("i-1", Facts(name="b"))
        state = fleet.step(state)
        assert state.rollout.members["x"] == {"a", "b", "i-1"}
        state = fleet.wait(state, ABSENT_AFTER)
        fleet.silent = set()
        assert fleet.run(state).errors == {"b": "its agent has been absent for 300 s"}

    def test_a_restart_of_an_agent_is_waited_for(self):
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.step(fleet.start(strategy(group("x", percent_successful=100))))
        fleet.deregister("b")
        state = fleet.wait(fleet.step(state), ABSENT_AFTER - 1)
        fleet.register("b", Facts())
        fleet.silent = set()
        assert fleet.run(state).rollout.result is RolloutResult.SUCCESS

    def test_a_host_that_stays_absent_after_its_grant_failed(self):
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.step(fleet.start(strategy(group("x"))))
        fleet.deregister("b")
        state = fleet.step(state)
        assert look(state, fleet) == ABSENT_AFTER
        over = fleet.run(fleet.wait(state, ABSENT_AFTER))
        assert over.errors == {"b": "its agent has been absent for 300 s"}
        assert over.rollout.hosts == {"a": HostProgress.SUCCESS, "b": HostProgress.FAILURE}

    def test_an_agent_that_left_before_its_turn_is_excluded(self):
        fleet = fleet_of("ab", silent={"a"})
        state = fleet.step(fleet.start(strategy(paced("x", max_parallel=ParallelLimit(1)))))
        fleet.deregister("b")
        state = fleet.wait(fleet.step(state), ABSENT_AFTER)
        fleet.silent = set()
        over = fleet.run(state)
        assert over.rollout.hosts == {"a": HostProgress.SUCCESS, "b": HostProgress.NOT_STARTED}

    def test_a_report_counts_even_if_its_host_is_absent_now(self):
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.step(fleet.start(strategy(group("x"))))
        fleet.deregister("a")
        state = fleet.wait(state, ABSENT_AFTER)
        assert state.active_phase is not None
        assert state.active_phase.reports["a"].error is None

    @pytest.mark.parametrize("how", ["pause", "stop"])
    def test_no_absence_counts_while_the_fleet_is_halted(self, how):
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.step(fleet.start(strategy(group("x"))))
        fleet.deregister("b")
        state = fleet.wait(state, 60)
        if how == "pause":
            fleet.act(Directive.PAUSE)
        fleet.active = how == "pause"
        state = fleet.wait(state, 3600)
        fleet.act(Directive.RESUME)
        fleet.active = True
        state = fleet.wait(state, ABSENT_AFTER - 61)
        assert verdicts(state) == {"x": None}
        fleet.silent = set()
        fleet.register("b", Facts())
        assert fleet.run(state).rollout.result is RolloutResult.SUCCESS

    def test_a_strategy_sets_the_time_after_which_a_host_is_absent(self):
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.step(fleet.start(replace(strategy(group("x")), absent_after=900.0)))
        fleet.deregister("b")
        state = fleet.wait(fleet.step(state), 899)
        assert verdicts(state) == {"x": None}
        assert fleet.run(fleet.wait(state, 15)).errors == {"b": "its agent has been absent for 900 s"}

    def test_a_critical_group_of_absent_hosts_waits_for_one_host_and_delays_no_other_group(self):
        fleet = fleet_of("bd", absent={"a": Facts(), "c": Facts()})
        groups = strategy(group("x", hosts="ac", critical=True), group("y", "x", hosts="b"), group("z", hosts="d"))
        state = fleet.wait(fleet.run(fleet.start(groups)), 9000)
        assert verdicts(state) == {"x": None, "y": None, "z": SUCCESS}
        assert state.waiting == "x requires 1 registered host, found 0"
        fleet.register("a", Facts())
        over = fleet.run(state)
        assert (verdicts(over), fleet.groups) == (dict.fromkeys("xyz", SUCCESS), ["z", "x", "y"])

    def test_a_critical_group_whose_hosts_all_leave_before_they_are_prepared_waits_for_them(self):
        fleet = fleet_of("ab")
        fleet.act(Directive.PAUSE)
        groups = strategy(group("x", hosts="a", critical=True), group("y", "x", hosts="b"))
        state = fleet.step(fleet.start(groups))
        fleet.deregister("a")
        fleet.act(Directive.RESUME)
        state = fleet.wait(state, 2 * ABSENT_AFTER)
        assert (state.waiting, fleet.entered) == ("x requires 1 registered host, found 0", [])

    def test_a_critical_group_whose_prepared_hosts_all_leave_waits_for_one_host(self):
        fleet = fleet_of("ab", absent={"c": Facts()})
        state = fleet.start(strategy(group("x", hosts="ac", critical=True), group("y", "x", hosts="b")))
        state = fleet.step(state)
        fleet.act(Directive.PAUSE)
        state = fleet.step(state)
        fleet.deregister("a")
        fleet.register("c", Facts())
        fleet.act(Directive.RESUME)
        state = fleet.wait(state, 2 * ABSENT_AFTER)
        assert state.waiting == "x requires 1 prepared and registered host, found 0"
        fleet.register("a", Facts())
        assert verdicts(fleet.run(state)) == {"x": SUCCESS, "y": SUCCESS}

    def test_a_group_waits_until_the_hosts_that_it_requires_are_there(self):
        fleet = fleet_of("a", absent={"b": Facts()})
        state = fleet.step(fleet.start(strategy(replace(group("x"), require_hosts=3))))
        assert state.waiting == "x requires 3 registered hosts, found 1"
        fleet.register("b", Facts())
        assert fleet.step(state).waiting == "x requires 3 registered hosts, found 2"
        fleet.register("c", Facts())
        assert fleet.run(state).rollout.result is RolloutResult.SUCCESS

    def test_a_promoted_group_begins_without_the_hosts_that_it_requires(self):
        fleet = fleet_of("ab")
        required = replace(paced("x", hosts="a", manual=True), require_hosts=2)
        state = fleet.step(fleet.start(strategy(required)))
        fleet.act(Directive.PROMOTE, "x")
        state = fleet.step(state)
        assert state.waiting == "x requires 2 registered hosts, found 1"
        fleet.act(Directive.PROMOTE, "x")
        assert verdicts(fleet.run(state)) == {"x": SUCCESS}


class TestLateJoiners:
    def over(self, *groups, **fields):
        fleet = fleet_of("ab", absent={"c": Facts()}, **fields)
        return fleet, fleet.run(fleet.start(strategy(*groups)))

    def test_late_joiners_run_both_phases(self):
        fleet, state = self.over(group("x"))
        fleet.register("c", Facts())
        state = fleet.step(state)
        assert grants(state) == {"c": Grant("x", PREPARE)}
        state = fleet.step(state)
        assert grants(state) == {"c": Grant("x", DEPLOY)}
        state = fleet.step(state)
        assert (state.rollout.hosts["c"], state.late_joiners, grants(state)) == (
            HostProgress.SUCCESS,
            {},
            {},
        )

    def test_an_unknown_late_joiner_is_granted_too(self):
        fleet, state = self.over(group("x"))
        fleet.register("d", Facts())
        assert grants(fleet.step(state)) == {"d": Grant("x", PREPARE)}

    def test_one_that_came_when_its_group_was_being_deployed_goes_when_that_has_succeeded(self):
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.start(strategy(group("x", hosts="ac"), group("y", hosts="b")))
        state = fleet.run(state, until=lambda state: state.rollout.order == ("x",) and let_in(state) == ["a", "b"])
        fleet.register("c", Facts())
        state = fleet.step(state)
        assert grants(state)["c"] == Grant("x", PREPARE)
        state = fleet.run(state, until=lambda state: state.rollout.hosts["c"] is HostProgress.SUCCESS)
        assert state.rollout.members["x"] == {"a", "c"}
        assert verdicts(state) == {"x": SUCCESS, "y": None}

    def test_a_failure_that_the_criteria_allow_is_recorded_and_stops_nothing(self):
        fleet, state = self.over(group("x", critical=True, maximum_failed=1), failing={(PREPARE, "c")})
        fleet.register("c", Facts())
        state = fleet.run(state, until=lambda state: bool(state.errors))
        assert not has_failed(state)
        assert state.rollout.result is RolloutResult.PARTIAL
        assert grants(state) == {"c": Grant("", None, "boom")}

    @pytest.mark.parametrize("phase", Phase)
    def test_a_failure_by_which_a_critical_group_misses_its_criteria_stops_the_fleet(self, phase):
        fleet, state = self.over(group("x", critical=True, maximum_failed=0), failing={(phase, "c")})
        assert not has_failed(state)
        for host in "cd":
            fleet.register(host, Facts())
        fleet.silent = {"d"}
        state = fleet.run(state, until=has_failed)
        assert has_failed(state)
        assert state.rollout.progress["x"].reason == "late hosts: 1 of 4 hosts failed, expected at most 0"
        assert state.late_joiners == {}

    def test_late_joiners_keep_max_parallel(self):
        fleet = fleet_of("a", absent=plain_hosts("bcde"))
        state = fleet.run(fleet.start(strategy(paced("x", max_parallel=ParallelLimit(2)))))
        for host in "bcde":
            fleet.register(host, Facts())
        entered = []
        while fleet.now < NOON + 200:
            state = fleet.step(state)
            entered.append(sorted(state.late_joiners))
            fleet.now += 10
        assert max(map(len, entered)) == 2
        assert [*entered[0], *entered[2]] == ["b", "c", "d", "e"]
        assert set(state.rollout.hosts.values()) == {HostProgress.SUCCESS}

    def test_late_joiners_run_beside_other_groups(self):
        fleet = fleet_of("ab", absent={"c": Facts()}, silent={"b"})
        state = fleet.start(strategy(group("x", hosts="ac"), group("y", hosts="b")))
        state = fleet.run(state, until=lambda state: state.rollout.order == ("x",) and "b" in grants(state))
        fleet.register("c", Facts())
        state = fleet.step(fleet.step(fleet.step(state)))
        assert state.rollout.hosts["c"] is HostProgress.SUCCESS
        assert verdicts(state) == {"x": SUCCESS, "y": None}

    def test_one_that_has_a_group_which_is_not_judged_goes_with_that(self):
        fleet = fleet_of("ab", absent={"c": Facts()}, silent={"b"})
        state = fleet.start(strategy(group("x", hosts="ac"), group("y", hosts="b"), group("z", hosts="c")))
        state = fleet.run(state, until=lambda state: state.rollout.order == ("x",) and "b" in grants(state))
        fleet.register("c", Facts())
        assert "c" not in grants(fleet.step(state))
        fleet.silent = set()
        fleet.run(state)
        assert [name for name, _, host in fleet.entered if host == "c"] == ["z", "z"]

    def test_canaries_that_fail_late_stop_the_groups_that_depend_on_them(self):
        fleet = fleet_of("abcd", silent={"b"}, failing={(PREPARE, "e")})
        fleet.absent = {"e": Facts()}
        groups = strategy(
            group("canary", hosts="ae", maximum_failed=0),
            paced("rest", "canary", hosts="bc", max_parallel=ParallelLimit(1)),
            group("last", "rest", hosts="d"),
        )
        state = fleet.run(fleet.start(groups), until=lambda state: "b" in grants(state))
        fleet.register("e", Facts())
        state = fleet.step(fleet.step(state))
        assert verdicts(state) == {"canary": FAILED, "rest": None, "last": FAILED}
        fleet.silent = set()
        over = fleet.run(state)
        assert over.rollout.progress["rest"].reason == "prepare: canary failed"
        assert {host for _, _, host in fleet.entered} == {"a", "b", "e"}

    @pytest.mark.parametrize("when", ["under way", "over"])
    def test_a_pause_grants_no_late_joiner(self, when):
        fleet = fleet_of("ab", absent={"c": Facts()}, silent=set() if when == "over" else {"b"})
        state = fleet.start(strategy(group("x", hosts="ac"), group("y", hosts="b")))
        state = fleet.run(state, until=lambda state: state.rollout.order == ("x", "y") or "b" in grants(state))
        state = fleet.run(state) if when == "over" else state
        fleet.act(Directive.PAUSE)
        fleet.register("c", Facts())
        state = fleet.step(state)
        assert state.late_joiners == {}
        fleet.act(Directive.RESUME)
        assert fleet.step(state).late_joiners == {"c": PREPARE}

    def test_an_abort_ends_late_joiners_too(self):
        fleet, state = self.over(group("x"), silent={"c"})
        fleet.register("c", Facts())
        state = fleet.step(state)
        fleet.act(Directive.ABORT)
        state = fleet.step(state)
        assert (state.ending, has_failed(state), grants(state)) == (Ending.ABORTED, True, {})

    @pytest.mark.parametrize("away", [True, False])
    def test_a_late_joiner_that_times_out_frees_its_place(self, away):
        fleet = fleet_of("a", absent=plain_hosts("bc"))
        state = fleet.run(fleet.start(strategy(paced("x", max_parallel=ParallelLimit(1), prepare_timeout=600.0))))
        fleet.silent = {"b"}
        for host in "bc":
            fleet.register(host, Facts())
        state = fleet.step(state)
        assert look(state, fleet) == 600
        if away:
            fleet.deregister("b")
            state = fleet.step(state)
            assert look(state, fleet) == ABSENT_AFTER
        state = fleet.run(fleet.wait(state, 600), until=lambda state: not state.late_joiners)
        assert state.errors == {
            "b": "its agent has been absent for 300 s" if away else "prepare: it did not end within 600 s"
        }
        assert state.rollout.hosts["c"] is HostProgress.SUCCESS

    @pytest.mark.parametrize("when", ["under way", "over"])
    def test_a_host_that_lost_the_revision_after_it_had_succeeded_goes_again(self, when):
        fleet = fleet_of("ab", silent=set() if when == "over" else {"b"})
        state = fleet.start(strategy(group("x", hosts="a"), group("y", hosts="b")))
        state = fleet.run(state, until=lambda state: state.rollout.order == ("x", "y") or "b" in grants(state))
        state = fleet.run(state) if when == "over" else state
        assert state.rollout.hosts["a"] is HostProgress.SUCCESS
        fleet.entered.clear()
        fleet.outdated = {"a"}
        before, state = state, fleet.step(state)
        assert restarted_hosts(before, state) == {"a"}
        assert grants(state)["a"] == Grant("x", PREPARE)
        state = fleet.step(fleet.step(state))
        assert [entered for entered in fleet.entered if entered[2] == "a"] == [
            ("x", PREPARE, "a"),
            ("x", DEPLOY, "a"),
        ]
        assert state.rollout.hosts["a"] is HostProgress.SUCCESS

    def test_no_late_joiner_of_a_failed_group_is_granted(self):
        fleet, state = self.over(group("x"), group("y", hosts="ac", minimum_successful=3))
        fleet.register("c", Facts())
        assert grants(fleet.step(state)) == {}

    def test_no_late_joiner_without_a_group_is_granted(self):
        fleet, state = self.over(group("x", hosts="ab"))
        fleet.register("c", Facts())
        assert grants(fleet.step(state)) == {}

    def test_no_late_joiner_is_granted_after_a_failure_or_while_the_fleet_is_stopped(self):
        fleet, state = self.over(group("x", critical=True, percent_successful=100))
        assert has_failed(state)
        fleet.register("c", Facts())
        assert fleet.step(state) == state
        fleet, state = self.over(group("x"))
        fleet.register("c", Facts())
        fleet.active = False
        assert grants(fleet.step(state)) == {}


class TestAttempts:
    published = Published(revision="r2", sequence=7, strategy="deployment-strategy", ordered="r2")

    def snapshot(self, state=None, version="r2", **fields):
        return RolloutSnapshot(Cluster(version), replace(self.published, **fields), state)

    def test_a_publication_with_a_strategy_begins_one(self):
        assert next_attempt(self.snapshot()) == 1

    def test_not_without_a_strategy_nor_for_a_version_set_by_hand_nor_while_all_is_stopped(self):
        assert next_attempt(self.snapshot(strategy=None)) is None
        assert next_attempt(self.snapshot(version="r1")) is None
        assert next_attempt(self.snapshot(version=None)) is None
        assert next_attempt(self.snapshot(version=False)) is None

    def test_a_rollout_that_continues_or_succeeded_is_the_only_attempt(self):
        fleet = fleet_of("a")
        state = fleet.start(ALL_HOSTS)
        assert next_attempt(self.snapshot(state)) is None
        assert next_attempt(self.snapshot(fleet.run(state))) is None

    def test_after_a_failure_another_attempt_begins_when_the_fleet_is_resumed(self):
        fleet = fleet_of("a", failing={(DEPLOY, "a")})
        failed = fleet.run(fleet.start(ALL_HOSTS))
        assert next_attempt(self.snapshot(failed, version=None)) is None
        assert next_attempt(self.snapshot(failed)) == 2

    def test_a_newer_publication_supersedes_the_rollout(self):
        state = fleet_of("a").start(ALL_HOSTS)
        assert not is_superseded(self.snapshot(state))
        newer = self.snapshot(state, sequence=8)
        assert is_superseded(newer)
        ended = supersede(state, NOON + 5)
        assert (ended.ending, ended.ended, has_failed(ended)) == (Ending.SUPERSEDED, NOON + 5, False)
        assert next_attempt(replace(newer, state=ended)) == 1


def test_a_selector_selects_hosts_that_come_by_their_facts():
    fleet = fleet_of("a", silent={"a"})
    web = replace(group("web"), selectors=(Selector(tags=frozenset({"web"})),))
    state = fleet.step(fleet.start(strategy(group("x", hosts="a"), web)))
    fleet.register("b", Facts(tags=frozenset({"web"})))
    assert fleet.step(state).rollout.members["web"] == {"b"}


class TestWithdrawnHosts:
    def test_hosts_that_have_not_deployed_leave_the_rollout(self):
        fleet = fleet_of("abc", silent={"a", "b", "c"})
        state = fleet.step(fleet.start(strategy(group("x"))))
        state = withdraw(state, {"b", "unknown"})
        assert state.active_phase.granted.keys() == state.rollout.hosts.keys() == {"a", "c"}
        assert state.active_phase.task.hosts == ("a", "c")
        fleet.silent = set()
        del fleet.present["b"]
        over = fleet.run(state)
        assert over.rollout.members == {"x": frozenset("ac")}
        assert over.rollout.progress["x"].submitted == {PREPARE: ("a", "c"), DEPLOY: ("a", "c")}

    def test_prepared_hosts_leave_the_phases_that_they_finished(self):
        fleet = fleet_of("ab", silent={"b"})
        state = fleet.run(fleet.start(strategy(paced("x", max_parallel=ParallelLimit(1)))))
        fleet.reports[PREPARE, "b"] = PhaseReport(fleet.now)
        fleet.silent = {"a", "b"}
        state = fleet.advance(state)
        assert state.rollout.progress["x"].submitted == {PREPARE: ("a", "b")}
        (deploying,) = state.active_phase.granted
        state = withdraw(state, {"a", "b"})
        assert state.rollout.progress["x"].submitted == {PREPARE: (deploying,)}
        assert state.rollout.hosts.keys() == {deploying}
        assert state_from_json(state_to_json(state)) == state

    def test_hosts_that_have_finished_stay(self):
        over = (fleet := fleet_of("ab")).run(fleet.start(strategy(group("x"))))
        assert withdraw(over, {"a", "b"}) is over
