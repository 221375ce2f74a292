"""Computation and ordering: when an instance gets a new version, and the outcome of the previous one."""

import pytest

from support.checks.instances import KEY, described, instance_of, version, wanted
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, config_id
from zkdeployment.checks.rules.workflow import delete, want

NEW = CheckInstance(KEY)


def test_the_first_configuration_awaits_its_rollout_and_is_current_and_flagged():
    made = want(NEW, wanted("A"), 5.0, is_reported=True)
    assert described(made) == "0A awaiting_rollout; flagged, current 0"
    first = made.configurations[0]
    assert (first.config_id, first.system, first.publication) == (config_id(KEY.id, 0), "nagios1", 1)
    assert (first.created, first.changed) == (5.0, 5.0)


def test_a_configuration_awaits_its_computation_until_the_host_reported_the_deployment():
    waiting = want(NEW, wanted("A"), 5.0, is_reported=False)
    assert described(waiting) == "0A awaiting_computation; current None"
    assert want(waiting, wanted("A", publication=2), 6.0, is_reported=False) == waiting
    assert (
        described(want(waiting, wanted("A"), 7.0, is_reported=True)) == "0A awaiting_rollout; flagged, current 0"
    )


def test_a_newer_configuration_replaces_one_that_awaits_its_computation():
    waiting = want(NEW, wanted("A"), 5.0, is_reported=False)
    replaced = want(waiting, wanted("B", publication=2), 6.0, is_reported=False)
    assert described(replaced) == "0B awaiting_computation; current None"
    assert replaced.configurations[0].publication == 2


def test_a_return_to_the_active_configuration_discards_the_one_that_awaits_its_computation():
    active = instance_of(version(0, CheckState.ACTIVE, "A"))
    waiting = want(active, wanted("B"), 5.0, is_reported=False)
    assert described(waiting) == "0A active, 1B awaiting_computation; current 0"
    assert want(waiting, wanted("A"), 6.0, is_reported=False) == active


@pytest.mark.parametrize(
    "state",
    [
        CheckState.AWAITING_ROLLOUT,
        CheckState.ROLLOUT_IN_PROGRESS,
        CheckState.ROLLOUT_FAILED,
        CheckState.ACTIVE,
        CheckState.BLOCKED,
    ],
)
def test_the_same_details_are_discarded(state):
    instance = instance_of(version(0, state, "A"))
    assert want(instance, wanted("A", publication=9), 5.0, is_reported=True) is instance


DIFFERENT = {
    CheckState.AWAITING_ROLLOUT: "0A awaiting_deprovision, 1B blocked; flagged, current 0",
    CheckState.ACTIVE: "0A awaiting_deprovision, 1B blocked; flagged, current 0",
    CheckState.ROLLOUT_IN_PROGRESS: "0A rollout_in_progress, 1B blocked; current 0",
    CheckState.AWAITING_DEPROVISION: "0A awaiting_deprovision, 1B blocked; current 0",
    CheckState.DEPROVISION_IN_PROGRESS: "0A deprovision_in_progress, 1B blocked; current 0",
    CheckState.DEPROVISION_FAILED: "0A deprovision_failed, 1B blocked; current 0",
    CheckState.DEPROVISIONED: "0A deprovisioned, 1B blocked; current 0",
    CheckState.ROLLOUT_FAILED: "0A awaiting_deletion, 1B awaiting_rollout; flagged, current 1",
    CheckState.AWAITING_DELETION: "0A awaiting_deletion, 1B awaiting_rollout; flagged, current 1",
}


@pytest.mark.parametrize("state", DIFFERENT)
def test_different_details_wait_for_the_undeployment_of_the_deployed_ones(state):
    instance = instance_of(version(0, state, "A"))
    assert described(want(instance, wanted("B"), 5.0, is_reported=True)) == DIFFERENT[state]


def test_another_monitoring_system_is_a_difference():
    instance = instance_of(version(0, CheckState.ACTIVE, "A"))
    changed = want(instance, wanted("A", system="nagios2"), 5.0, is_reported=True)
    assert described(changed) == "0A awaiting_deprovision, 1A blocked; flagged, current 0"
    assert changed.system == "nagios1"


def test_a_blocked_configuration_that_a_newer_one_replaces_awaits_its_deletion():
    chain = instance_of(version(0, CheckState.ACTIVE, "A"))
    for letter in "BCA":
        chain = want(chain, wanted(letter), 5.0, is_reported=True)
    assert described(chain) == (
        "0A awaiting_deprovision, 1B awaiting_deletion, 2C awaiting_deletion, 3A blocked; flagged, current 0"
    )


def test_the_same_details_as_the_blocked_configuration_are_discarded():
    chain = want(instance_of(version(0, CheckState.ACTIVE, "A")), wanted("B"), 5.0, is_reported=True)
    assert want(chain, wanted("B"), 6.0, is_reported=True) is chain


def test_the_number_of_a_discarded_version_is_used_again():
    active = instance_of(version(0, CheckState.ACTIVE, "A"))
    same = want(active, wanted("A"), 5.0, is_reported=True)
    assert [found.version for found in want(same, wanted("B"), 6.0, is_reported=True).configurations] == [0, 1]


def test_a_computed_configuration_that_is_the_same_as_the_newest_is_discarded_when_it_is_ordered():
    active, computed = version(0, CheckState.ACTIVE, "A"), version(1, CheckState.COMPUTED, "A")
    assert want(instance_of(active, computed), wanted("A"), 5.0, is_reported=True) == instance_of(active)


def test_a_deleted_instance_discards_changes_without_an_order():
    waiting = want(instance_of(version(0, CheckState.ACTIVE, "A")), wanted("B"), 5.0, is_reported=False)
    deleted = delete(waiting, 6.0)
    assert described(deleted) == "0A active; deleted, current 0"
    assert delete(deleted, 7.0) is deleted


WANTED_AGAIN = {
    CheckState.AWAITING_ROLLOUT: "0A awaiting_rollout; current 0",
    CheckState.ACTIVE: "0A active; current 0",
    CheckState.AWAITING_DEPROVISION: "0A awaiting_deprovision, 1A blocked; current 0",
    CheckState.DEPROVISION_IN_PROGRESS: "0A deprovision_in_progress, 1A blocked; current 0",
    CheckState.DEPROVISION_FAILED: "0A deprovision_failed, 1A blocked; current 0",
    CheckState.DEPROVISIONED: "0A deprovisioned, 1A blocked; current 0",
    CheckState.AWAITING_DELETION: "0A awaiting_deletion, 1A awaiting_rollout; flagged, current 1",
}


@pytest.mark.parametrize("state", WANTED_AGAIN)
def test_an_instance_that_is_wanted_again_continues_or_waits_for_its_undeployment(state):
    deleted = instance_of(version(0, state, "A"), deleted=True)
    assert described(want(deleted, wanted("A"), 5.0, is_reported=True)) == WANTED_AGAIN[state]
