"""The course of rollouts: the document's example runs, its rules one by one, and properties of all of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.strategies import EXAMPLE_HOSTS, NAMES, any_strategies, example, group, plain_hosts, strategy
from zkdeployment.base.host import Facts
from zkdeployment.strategies.order import Faults, simulate
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.state_machine import (
    GroupVerdict,
    HostProgress,
    RolloutResult,
    Task,
    begin,
    next_task,
    record,
)
from zkdeployment.strategies.strategy import ALL_HOSTS, Pace, ParallelLimit

FAILED, SUCCESS = GroupVerdict.FAILED, GroupVerdict.SUCCESS


def verdicts(rollout):
    return {name: course.verdict for name, course in rollout.progress.items()}


def run(*groups, hosts="abcd", prepare="", deploy="", times_out=()):
    faults = Faults(frozenset(prepare), frozenset(deploy), frozenset(times_out))
    return simulate(strategy(*groups), plain_hosts(hosts), faults).rollout


class TestExampleRuns:
    def test_all_groups_succeed_without_failures(self):
        rollout = simulate(example(), EXAMPLE_HOSTS, Faults()).rollout
        assert set(verdicts(rollout).values()) == {SUCCESS}
        assert set(rollout.hosts.values()) == {HostProgress.SUCCESS}
        assert rollout.result is RolloutResult.SUCCESS
        order = list(rollout.order)
        assert order.index("ntp-node") < order.index("control-nodes")
        assert order.index("control-nodes") < min(order.index("compute-nodes-1"), order.index("compute-nodes-2"))

    def test_the_ntp_node_cannot_be_prepared(self):
        rollout = simulate(example(), EXAMPLE_HOSTS, Faults(prepare=frozenset({"ntp01"}))).rollout
        held = {"ntp-node", "control-nodes", "compute-nodes-1", "compute-nodes-2"}
        for name in held:
            assert rollout.progress[name].verdicts == {Phase.PREPARE: FAILED, Phase.DEPLOY: FAILED}
        assert verdicts(rollout)["monitoring-nodes"] is SUCCESS
        assert set(rollout.order) == {"ntp-node", "monitoring-nodes"}
        assert rollout.progress["compute-nodes-1"].reason == "not attempted: ntp-node failed"
        assert rollout.hosts["ctl1"] is HostProgress.NOT_STARTED
        assert rollout.result is RolloutResult.FAILED

    def test_a_group_that_is_not_critical_fails_in_deploy(self):
        rollout = simulate(example(), EXAMPLE_HOSTS, Faults(deploy=frozenset({"two1"}))).rollout
        assert rollout.progress["compute-nodes-2"].verdicts == {Phase.PREPARE: SUCCESS, Phase.DEPLOY: FAILED}
        assert {name for name, verdict in verdicts(rollout).items() if verdict is FAILED} == {"compute-nodes-2"}
        assert rollout.result is RolloutResult.PARTIAL


class TestRules:
    def test_a_group_is_prepared_and_deployed_before_the_next_begins(self):
        rollout, seen = begin(strategy(group("x"), group("y", hosts="ab")), plain_hosts("ab")), []
        while (task := next_task(rollout)) is not None:
            seen.append((task.group, task.phase))
            rollout = record(rollout, task, task.hosts)
        assert seen == [(name, phase) for name in "xy" for phase in (Phase.PREPARE, Phase.DEPLOY)]

    def test_a_critical_failure_does_not_end_groups_that_do_not_depend_on_it(self):
        rollout = run(
            group("x", hosts="a", critical=True, minimum_successful=1), group("y", hosts="b"), prepare="a"
        )
        assert verdicts(rollout) == {"x": FAILED, "y": SUCCESS}
        assert rollout.result is RolloutResult.FAILED

    def test_a_critical_group_that_is_held_back_fails_the_rollout(self):
        rollout = run(group("x", hosts="a", minimum_successful=1), group("y", "x", critical=True), prepare="a")
        assert rollout.critical_failed

    def test_dependants_at_any_depth_are_held_back(self):
        chain = [
            group("a", hosts="a", minimum_successful=1),
            group("b", "a"),
            group("c", "b"),
            group("d", "c", "b"),
        ]
        rollout = run(*chain, prepare="a")
        assert rollout.order == ("a",)
        assert set(verdicts(rollout).values()) == {FAILED}

    def test_one_failed_parent_of_two_is_enough(self):
        rollout = run(
            group("x", hosts="a", minimum_successful=1), group("y", hosts="b"), group("z", "x", "y"), prepare="a"
        )
        assert verdicts(rollout) == {"x": FAILED, "y": SUCCESS, "z": FAILED}

    def test_missing_the_criteria_in_prepare_skips_deploy(self):
        rollout = run(group("x", percent_successful=100), prepare="a")
        assert Phase.DEPLOY not in rollout.progress["x"].submitted
        assert rollout.progress["x"].verdicts[Phase.DEPLOY] is FAILED
        assert rollout.hosts == {"a": HostProgress.FAILURE} | dict.fromkeys("bcd", HostProgress.PREPARED)

    def test_hosts_that_fail_in_prepare_are_not_deployed(self):
        rollout = run(group("x"), prepare="a")
        assert rollout.progress["x"].submitted[Phase.DEPLOY] == ("b", "c", "d")
        assert rollout.result is RolloutResult.PARTIAL

    def test_a_host_is_not_submitted_again_and_its_result_counts(self):
        groups = group("x", hosts="ab"), group("y", hosts="abc", minimum_successful=3)
        rollout = run(*groups)
        assert rollout.progress["y"].submitted == {Phase.PREPARE: ("c",), Phase.DEPLOY: ("c",)}
        assert rollout.progress["y"].verdict is SUCCESS
        assert run(*groups, deploy="a").progress["y"].verdict is FAILED

    def test_a_host_that_was_only_prepared_continues_with_a_later_group(self):
        rollout = run(group("x", hosts="ab", maximum_failed=0), group("y", hosts="b"), prepare="a")
        assert rollout.progress["y"].submitted == {Phase.PREPARE: (), Phase.DEPLOY: ("b",)}
        assert rollout.hosts["b"] is HostProgress.SUCCESS

    def test_a_group_whose_hosts_are_all_done_is_judged_at_once(self):
        rollout = run(group("x", hosts="a"), group("y", hosts="a", minimum_successful=1))
        assert rollout.progress["y"].submitted == {Phase.PREPARE: (), Phase.DEPLOY: ()}
        assert rollout.progress["y"].verdict is SUCCESS

    def test_a_group_without_a_prepared_host_is_not_deployed_even_if_it_may_be_incomplete(self):
        rollout = run(group("x", percent_successful=0), prepare="abcd")
        assert rollout.progress["x"].submitted[Phase.DEPLOY] == ()
        assert rollout.progress["x"].verdict is SUCCESS
        assert rollout.result is RolloutResult.PARTIAL

    @pytest.mark.parametrize(
        ("criteria", "verdict"), [({"percent_successful": 100}, SUCCESS), ({"minimum_successful": 1}, FAILED)]
    )
    def test_a_group_of_no_hosts(self, criteria, verdict):
        assert run(group("x", hosts="z", **criteria)).progress["x"].verdict is verdict

    def test_without_groups_there_is_nothing_to_do(self):
        rollout = run()
        assert next_task(rollout) is None
        assert rollout.result is RolloutResult.SUCCESS

    @pytest.mark.parametrize("phase", Phase)
    def test_a_phase_over_its_time_fails_the_group_even_without_criteria(self, phase):
        rollout = run(group("x", hosts="ab"), group("y", "x"), times_out={("x", phase)})
        assert verdicts(rollout) == {"x": FAILED, "y": FAILED}
        assert rollout.progress["x"].reason == f"{phase.value}: 2 of 2 hosts did not end in time"
        assert rollout.hosts["a"] is HostProgress.FAILURE

    @pytest.mark.parametrize(("phase", "reached"), [("prepare", "not started"), ("deploy", "prepared")])
    def test_of_a_thousand_hosts_no_more_enter_than_it_takes_to_miss_the_criteria(self, phase, reached):
        hosts = plain_hosts([f"h{number:03}" for number in range(1000)])
        limited = replace(group("x", maximum_failed=3), pace=Pace(max_parallel=ParallelLimit(10)))
        rollout = simulate(strategy(limited), hosts, Faults(**{phase: frozenset(hosts)})).rollout
        assert [state.value for state in rollout.hosts.values()].count(reached) == 990
        assert rollout.progress["x"].reason == f"{phase}: 10 of 1000 hosts failed, expected at most 3"

    def test_a_group_without_max_parallel_is_prepared_as_a_whole_after_any_outcomes_of_its_hosts(self):
        rollout = run(group("x", hosts="a"), group("y", "x", percent_successful=100), prepare="a")
        assert rollout.progress["y"].submitted[Phase.PREPARE] == tuple("bcd")
        assert Phase.DEPLOY not in rollout.progress["y"].submitted

    def test_a_group_that_requires_more_hosts_than_there_are_would_wait(self):
        rollout = run(replace(group("x", hosts="a"), require_hosts=2), group("y", "x"))
        assert verdicts(rollout) == {"x": FAILED, "y": FAILED}
        assert rollout.progress["x"].reason == "prepare: it would wait: requires 2 hosts, found 1"

    def test_only_hosts_that_entered_a_phase_fail_by_its_time(self):
        limited = replace(group("x"), pace=Pace(max_parallel=ParallelLimit(1)))
        assert run(limited, times_out={("x", Phase.DEPLOY)}).hosts == {
            "a": HostProgress.FAILURE,
            **dict.fromkeys("bcd", HostProgress.PREPARED),
        }

    def test_hosts_that_ended_before_the_time_was_over_keep_their_success(self):
        rollout = begin(strategy(group("x", hosts="ab")), plain_hosts("ab"))
        rollout = record(rollout, next_task(rollout), ["a"], fault="too late")
        assert rollout.hosts == {"a": HostProgress.PREPARED, "b": HostProgress.FAILURE}

    @pytest.mark.parametrize("phases", [[Phase.DEPLOY], [Phase.PREPARE] * 2, [*Phase, Phase.DEPLOY]])
    def test_a_phase_that_is_not_the_next_of_its_group_cannot_be_recorded(self, phases):
        rollout = begin(strategy(group("x", hosts="a")), plain_hosts("a"))
        *before, last = phases
        for phase in before:
            rollout = record(rollout, Task("x", phase, ("a",)), ["a"])
        with pytest.raises(ValueError, match=f"^{last.value} is not the next phase of group x: "):
            record(rollout, Task("x", last, ("a",)), ["a"])

    def test_successes_outside_the_task_are_ignored(self):
        rollout = begin(strategy(group("x", hosts="a", minimum_successful=1)), plain_hosts("ab"))
        rollout = record(rollout, next_task(rollout), ["b", "nobody"])
        assert rollout.hosts == {"a": HostProgress.FAILURE, "b": HostProgress.NOT_STARTED}

    def test_without_a_strategy_every_host_has_to_succeed(self):
        rollout = simulate(ALL_HOSTS, plain_hosts("ab"), Faults(deploy=frozenset("a"))).rollout
        assert rollout.result is RolloutResult.FAILED
        assert simulate(ALL_HOSTS, plain_hosts("ab"), Faults()).rollout.result is RolloutResult.SUCCESS


@given(any_strategies(), st.data())
def test_any_rollout_keeps_the_rules(any_strategy, data):
    rollout = begin(any_strategy, dict.fromkeys(NAMES, Facts()))
    submitted = {phase: [] for phase in Phase}
    tasks = []
    while (task := next_task(rollout)) is not None:
        parents = any_strategy.group(task.group).depends_on
        assert all(rollout.progress[parent].verdict is SUCCESS for parent in parents)
        assert all(rollout.hosts[host] is not HostProgress.FAILURE for host in task.hosts)
        submitted[task.phase] += task.hosts
        tasks.append(task)
        succeeded = data.draw(st.sets(st.sampled_from(task.hosts))) if task.hosts else set()
        rollout = record(rollout, task, succeeded, fault=data.draw(st.sampled_from(["", "too late"])))
    begun = [task.group for task in tasks]
    assert list(dict.fromkeys(begun)) == list(rollout.order)
    assert all(later not in begun[:place] or begun[place - 1] == later for place, later in enumerate(begun))
    for hosts in submitted.values():
        assert len(hosts) == len(set(hosts))
    assert None not in verdicts(rollout).values()
    for listed_group in any_strategy.groups:
        if any(rollout.progress[parent].verdict is FAILED for parent in listed_group.depends_on):
            assert rollout.progress[listed_group.name].verdict is FAILED
            assert listed_group.name not in rollout.order
