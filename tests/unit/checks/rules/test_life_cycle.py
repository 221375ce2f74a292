"""The turn of the life cycle, step by step, pokes, and how long old configurations are kept."""

from dataclasses import replace

import pytest

from support.checks.instances import described, instance_of, version, wanted
from zkdeployment.checks.rules.instance import CheckState
from zkdeployment.checks.rules.workflow import (
    KEPT_FOR,
    KEPT_VERSIONS,
    fetch,
    is_poke_due,
    life_cycle_turn,
    poke_succeeded,
    prune,
    transition,
    want,
)


def turn(instance):
    return described(life_cycle_turn(instance, 20.0))


@pytest.mark.parametrize("state", CheckState)
def test_a_turn_changes_only_deleted_and_waiting_instances(state):
    instance = instance_of(version(0, state, "A"))
    expected = version(0, CheckState.AWAITING_ROLLOUT, "A") if state is CheckState.BLOCKED else None
    after = life_cycle_turn(instance, 20.0)
    if expected is None:
        assert after is instance
    else:
        assert after.configurations[0].state is expected.state


DELETED = {
    CheckState.AWAITING_COMPUTATION: "none; deleted, current 0",
    CheckState.COMPUTED: "none; deleted, current 0",
    CheckState.BLOCKED: "0A awaiting_deletion; deleted, current 0",
    CheckState.AWAITING_ROLLOUT: "0A awaiting_rollout; deleted, current 0",
    CheckState.ROLLOUT_IN_PROGRESS: "0A rollout_in_progress; deleted, current 0",
    CheckState.ROLLOUT_FAILED: "0A awaiting_deletion; deleted, current 0",
    CheckState.ACTIVE: "0A awaiting_deprovision; flagged, deleted, current 0",
    CheckState.AWAITING_DEPROVISION: "0A awaiting_deprovision; deleted, current 0",
    CheckState.DEPROVISION_IN_PROGRESS: "0A deprovision_in_progress; deleted, current 0",
    CheckState.DEPROVISION_FAILED: "0A deprovision_failed; deleted, current 0",
    CheckState.DEPROVISIONED: "0A awaiting_deletion; deleted, current 0",
    CheckState.AWAITING_DELETION: "0A awaiting_deletion; deleted, current 0",
}


@pytest.mark.parametrize("state", CheckState)
def test_a_turn_moves_a_deleted_instance_towards_its_deletion(state):
    assert turn(instance_of(version(0, state, "A"), deleted=True)) == DELETED[state]


def test_a_deleted_rollout_that_was_not_picked_up_awaits_its_deletion_and_there_is_nothing_to_fetch():
    ghost = instance_of(version(0, CheckState.AWAITING_ROLLOUT, "A"), update_available=True, deleted=True)
    after = life_cycle_turn(ghost, 20.0)
    assert described(after) == "0A awaiting_deletion; deleted, current 0"
    assert not is_poke_due(after, 20.0)


def test_an_old_undeployed_version_does_not_hide_that_the_new_one_was_not_picked_up():
    old, new = version(0, CheckState.DEPROVISIONED, "A"), version(1, CheckState.AWAITING_ROLLOUT, "B")
    instance = instance_of(old, new, current=1, update_available=True, deleted=True)
    assert turn(instance) == "0A awaiting_deletion, 1B awaiting_deletion; deleted, current 1"


def test_a_blocked_configuration_of_a_deleted_instance_never_starts():
    old, new = version(0, CheckState.DEPROVISIONED, "A"), version(1, CheckState.BLOCKED, "B")
    assert turn(instance_of(old, new, deleted=True)) == (
        "0A awaiting_deletion, 1B awaiting_deletion; deleted, current 0"
    )


def test_a_blocked_configuration_starts_when_the_one_before_it_is_undeployed():
    old, new = version(0, CheckState.DEPROVISIONED, "A"), version(1, CheckState.BLOCKED, "B", "nagios2")
    after = life_cycle_turn(instance_of(old, new, notified=3.0), 20.0)
    assert described(after) == "0A deprovisioned, 1B awaiting_rollout; flagged, current 1"
    assert (after.system, after.notified, after.configurations[1].changed) == ("nagios2", None, 20.0)


@pytest.mark.parametrize(
    "state",
    [
        CheckState.AWAITING_ROLLOUT,
        CheckState.ROLLOUT_IN_PROGRESS,
        CheckState.AWAITING_DEPROVISION,
        CheckState.DEPROVISION_IN_PROGRESS,
        CheckState.DEPROVISION_FAILED,
    ],
)
def test_a_blocked_configuration_waits_in_all_other_states_of_the_one_before_it(state):
    instance = instance_of(version(0, state, "A"), version(1, CheckState.BLOCKED, "B"))
    assert life_cycle_turn(instance, 20.0) is instance


def test_a_blocked_configuration_skips_replaced_ones_before_it():
    instance = instance_of(
        version(0, CheckState.DEPROVISIONED, "A"),
        version(1, CheckState.AWAITING_DELETION, "B"),
        version(2, CheckState.BLOCKED, "C"),
    )
    assert turn(instance) == "0A deprovisioned, 1B awaiting_deletion, 2C awaiting_rollout; flagged, current 2"


def test_a_rollout_that_lands_with_a_newer_one_behind_it_is_undeployed():
    landed = instance_of(version(0, CheckState.ACTIVE, "A"), version(1, CheckState.BLOCKED, "B"))
    assert turn(landed) == "0A awaiting_deprovision, 1B blocked; flagged, current 0"


def test_a_rollout_that_fails_with_a_newer_one_behind_it_makes_way():
    failed = instance_of(version(0, CheckState.ROLLOUT_FAILED, "A"), version(1, CheckState.BLOCKED, "B"))
    assert turn(failed) == "0A awaiting_deletion, 1B awaiting_rollout; flagged, current 1"


def test_a_poke_is_due_while_the_flag_is_set():
    new = instance_of(version(0, CheckState.AWAITING_ROLLOUT, "A"), update_available=True)
    assert is_poke_due(new, 20.0)
    assert is_poke_due(new, 2000.0)
    assert not is_poke_due(replace(new, update_available=False), 2000.0)
    assert not is_poke_due(replace(new, current=None), 20.0)


def test_a_successful_poke_clears_only_the_flag_that_it_was_sent_for():
    new = want(instance_of(current=None), wanted("A"), 0.0, is_reported=True)
    changed = want(new, wanted("B"), 1.0, is_reported=True)
    assert poke_succeeded(changed, new.flag, 2.0) is changed
    assert not poke_succeeded(changed, changed.flag, 2.0).update_available


def test_a_poke_is_due_again_after_five_minutes_without_a_fetch():
    new = want(instance_of(current=None), wanted("A"), 0.0, is_reported=True)
    poked = poke_succeeded(new, new.flag, 20.0)
    assert not is_poke_due(poked, 319.0)
    assert is_poke_due(poked, 320.0)
    again = poke_succeeded(poked, poked.flag, 320.0)
    assert not is_poke_due(again, 340.0)
    fetched = fetch(again, 341.0)
    assert fetched is not None
    assert not is_poke_due(fetched[0], 10_000.0)


def test_a_poke_in_the_future_of_a_wrong_clock_does_not_prevent_the_next_one():
    poked = instance_of(version(0, CheckState.AWAITING_DEPROVISION, "A"), notified=50_000.0)
    assert is_poke_due(poked, 20.0)


def test_configurations_that_await_their_deletion_are_removed_after_thirty_days():
    old, new = version(0, CheckState.AWAITING_DELETION, "A"), version(1, CheckState.ACTIVE, "B")
    instance = instance_of(old, new, current=1)
    assert prune(instance, KEPT_FOR - 1) is instance
    assert prune(instance, KEPT_FOR).configurations == (new,)
    assert prune(instance_of(old, deleted=True), KEPT_FOR).configurations == ()


def test_undeployed_configurations_are_removed_after_thirty_days_if_they_have_a_successor():
    old, new = version(0, CheckState.DEPROVISIONED, "A"), version(1, CheckState.ACTIVE, "B")
    assert prune(instance_of(old, new, current=1), KEPT_FOR).configurations == (new,)
    assert prune(instance_of(old), KEPT_FOR).configurations == (old,)


def past(*numbers):
    return tuple(version(number, CheckState.AWAITING_DELETION, "A") for number in numbers)


def test_the_last_twenty_versions_are_kept_and_older_ones_that_are_current_or_not_past():
    failed = version(0, CheckState.DEPROVISION_FAILED, "A")
    gone, blocked = version(1, CheckState.DEPROVISIONED, "B"), version(99, CheckState.BLOCKED, "C")
    instance = instance_of(failed, gone, *past(*range(2, 99)), blocked, current=1)
    kept = (failed, gone, *past(*range(80, 99)), blocked)
    assert len(kept) == KEPT_VERSIONS + 2
    assert prune(instance, 0.0).configurations == kept
    short = instance_of(*past(*range(KEPT_VERSIONS)))
    assert prune(short, 0.0) is short


def test_the_cost_of_a_turn_does_not_grow_with_the_square_of_the_versions(monkeypatch):
    visited = []
    monkeypatch.setattr(
        "zkdeployment.checks.rules.workflow.transition",
        lambda *event: visited.append(event[1:3]) or transition(*event),
    )
    instance = instance_of(*past(*range(1000)), version(1000, CheckState.ACTIVE, "B"), current=1000)
    assert life_cycle_turn(instance, 20.0) is instance
    assert {number for number, _ in visited} == {1000}
