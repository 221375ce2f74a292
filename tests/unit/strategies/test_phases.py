"""The reports that an active phase waits for, and when it gets its verdict."""

from dataclasses import replace

from support.fleets.simulated import fleet_of
from support.strategies import group, strategy
from zkdeployment.strategies.permission import Phase, PhaseReport
from zkdeployment.strategies.phases import awaited
from zkdeployment.strategies.progress import advance, grants
from zkdeployment.strategies.state_machine import GroupVerdict


def deploying(hosts="ab"):
    """Return a fleet and its rollout in which all hosts of group x entered the deploy phase."""
    fleet = fleet_of(hosts)
    state = fleet.run(
        fleet.start(strategy(group("x", hosts=hosts, critical=True, maximum_failed=0))),
        until=lambda state: state.active_phase is not None and state.active_phase.task.phase is Phase.DEPLOY,
    )
    return fleet, state


def test_reports_are_expected_from_late_joiners_and_from_the_hosts_that_entered_and_have_not_reported():
    _, state = deploying()
    late = {"z": Phase.PREPARE}
    assert sorted(awaited(state), key=str) == [(Phase.DEPLOY, "a"), (Phase.DEPLOY, "b")]
    reported = replace(state.active_phase, reports={"a": PhaseReport(1.0)})
    state = replace(state, active_phase=reported, late_joiners=late)
    assert awaited(state) == [(Phase.PREPARE, "z"), (Phase.DEPLOY, "b")]
    assert awaited(replace(state, active_phase=None)) == [(Phase.PREPARE, "z")]


def test_a_group_without_a_bake_time_is_judged_by_the_reports_alone():
    fleet, state = deploying()
    fleet.execute_grants(grants(state))
    fleet.erring = {"a", "b"}  # an error after the report counts only in a bake time
    state = advance(state, fleet.observe())
    assert state.rollout.progress["x"].verdict is GroupVerdict.SUCCESS
    assert state.proven == frozenset()
