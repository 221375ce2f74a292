"""Hosts in maintenance, as a rollout counts them: away by intention, neither failed nor successful."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.fleets.simulated import fleet_of
from support.strategies import group, plain_hosts, strategy
from zkdeployment.base.host import Facts
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.progress import advance, grants
from zkdeployment.strategies.state_machine import HostProgress, RolloutResult
from zkdeployment.strategies.strategy import Pace

PREPARE, DEPLOY = Phase.PREPARE, Phase.DEPLOY
ALL = {"percent_successful_nodes": 100}


def entered(fleet, host):
    return [phase for _, phase, each in fleet.entered if each == host]


def test_a_host_in_maintenance_at_the_begin_neither_blocks_nor_fails_its_group():
    fleet = fleet_of("ab")
    fleet.maintenance = {"b"}
    over = fleet.run(fleet.start(strategy(group("x", critical=True))))
    assert over.rollout.result is RolloutResult.SUCCESS
    assert over.rollout.hosts == {"a": HostProgress.SUCCESS, "b": HostProgress.NOT_STARTED}
    assert over.errors == {}
    assert entered(fleet, "b") == []


@pytest.mark.parametrize("phase", [PREPARE, DEPLOY])
def test_a_host_that_enters_maintenance_within_a_phase_leaves_it_without_an_outcome(phase):
    fleet = fleet_of("ab", silent={"b"})
    state = fleet.step(fleet.start(strategy(group("x", critical=True))))
    if phase is DEPLOY:
        fleet.execute_grants({"b": grants(state)["b"]})
        fleet.silent = set()
        fleet.execute_grants(grants(state))
        fleet.silent = {"b"}
        state = fleet.step(fleet.step(state))
    assert grants(state)["b"].phase is phase
    fleet.maintenance = {"b"}
    over = fleet.run(fleet.wait(state, 3600))
    assert over.rollout.result is RolloutResult.SUCCESS
    assert over.errors == {}
    assert over.rollout.hosts["b"] is not HostProgress.SUCCESS
    assert "b" not in grants(over)


def test_a_host_that_enters_maintenance_within_its_bake_time_is_not_spoiled():
    fleet = fleet_of("ab")
    baked = replace(group("x", critical=True), pace=Pace(bake_time=600.0))
    state = fleet.run(
        fleet.start(strategy(baked)),
        until=lambda state: state.active_phase is not None and state.active_phase.baking_since is not None,
    )
    fleet.maintenance = {"b"}
    over = fleet.run(fleet.wait(state, 1200))
    assert over.rollout.result is RolloutResult.SUCCESS
    assert over.errors == {}
    assert over.rollout.hosts == {"a": HostProgress.SUCCESS, "b": HostProgress.PREPARED}


def test_a_host_of_an_earlier_group_that_enters_maintenance_does_not_spoil_a_bake_time():
    fleet = fleet_of("ab")
    first = group("first", hosts="a")
    rest = replace(group("all", "first", critical=True, percent_successful=100), pace=Pace(bake_time=600.0))
    state = fleet.run(
        fleet.start(strategy(first, rest)),
        until=lambda state: state.active_phase is not None and state.active_phase.baking_since is not None,
    )
    fleet.maintenance = {"a"}
    over = fleet.run(fleet.wait(state, 1200))
    assert over.rollout.result is RolloutResult.SUCCESS
    assert over.errors == {}


def test_a_critical_group_whose_last_host_enters_maintenance_waits():
    fleet = fleet_of("a", silent={"a"})
    state = fleet.step(fleet.start(strategy(group("x", critical=True))))
    assert grants(state)["a"].phase is PREPARE
    fleet.maintenance = {"a"}
    state = fleet.wait(state, 3600)
    assert state.ended is None
    assert "found 0" in state.waiting
    fleet.maintenance, fleet.silent = set(), set()
    assert fleet.run(state).rollout.result is RolloutResult.SUCCESS


def test_a_reported_failure_remains_during_maintenance():
    fleet = fleet_of("ab", failing={(PREPARE, "b")}, silent={"a"})
    state = fleet.step(fleet.start(strategy(group("x", critical=True))))
    state = fleet.advance(state)
    fleet.maintenance, fleet.silent = {"b"}, set()
    over = fleet.run(state)
    assert over.errors == {"b": "boom"}


def test_a_host_joins_late_after_its_maintenance():
    fleet = fleet_of("ab")
    fleet.maintenance = {"b"}
    over = fleet.run(fleet.start(strategy(group("x", critical=True))))
    fleet.maintenance = set()
    for _ in range(4):
        over = fleet.step(over)
    assert entered(fleet, "b") == [PREPARE, DEPLOY]
    assert over.rollout.hosts["b"] is HostProgress.SUCCESS


def test_a_second_look_at_hosts_in_maintenance_changes_nothing():
    fleet = fleet_of("abc", silent={"a", "b"})
    state = fleet.step(fleet.start(strategy(group("x", critical=True))))
    fleet.maintenance = {"b"}
    seen = fleet.observe()
    after = advance(state, seen)
    assert after != state
    assert advance(after, seen) == after


def test_a_host_that_reboots_is_waited_for_and_does_not_count_as_absent():
    fleet = fleet_of("ab", silent={"b"})
    state = fleet.step(fleet.start(strategy(group("x", critical=True))))
    fleet.rebooting = {"b"}
    waiting = fleet.run(fleet.wait(state, 600))
    assert waiting.ended is None
    assert waiting.absent == {}
    assert waiting.errors == {}
    fleet.rebooting, fleet.silent = set(), set()
    over = fleet.run(waiting)
    assert over.rollout.result is RolloutResult.SUCCESS
    assert over.rollout.hosts == {"a": HostProgress.SUCCESS, "b": HostProgress.SUCCESS}


def test_a_late_host_that_reboots_after_the_end_is_not_absent():
    fleet = fleet_of("a", absent=plain_hosts("b"))
    over = fleet.run(fleet.start(strategy(group("x", critical=True, maximum_failed=0))))
    fleet.register("b", Facts())
    fleet.silent = {"b"}
    late = fleet.step(over)
    fleet.rebooting = {"b"}
    assert fleet.wait(late, 600).errors == {}
    fleet.rebooting, fleet.silent = set(), set()
    assert fleet.run(late, until=lambda _state: False).rollout.hosts["b"] is HostProgress.SUCCESS


def test_a_rollout_that_begins_during_a_reboot_waits_for_the_host():
    fleet = fleet_of("ab")
    fleet.rebooting = {"b"}
    state = fleet.start(strategy(group("x", critical=True)))
    assert state.absent == {}
