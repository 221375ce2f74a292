"""Fetch, answer, lists and retry, in every state."""

import pytest

from support.checks.instances import KEY, described, instance_of, version, wanted
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, config_id
from zkdeployment.checks.rules.workflow import (
    CheckRefusal,
    DeploymentTask,
    abandon,
    answer,
    fetch,
    life_cycle_turn,
    list_flagged,
    list_open,
    retry,
    want,
)

ABANDONED = (
    CheckState.AWAITING_ROLLOUT,
    CheckState.ROLLOUT_IN_PROGRESS,
    CheckState.ROLLOUT_FAILED,
    CheckState.ACTIVE,
    CheckState.AWAITING_DEPROVISION,
    CheckState.DEPROVISION_IN_PROGRESS,
    CheckState.DEPROVISION_FAILED,
)

FETCHED = {
    CheckState.AWAITING_ROLLOUT: ("rollout_in_progress", "rollout"),
    CheckState.ROLLOUT_IN_PROGRESS: ("rollout_in_progress", "rollout"),
    CheckState.ACTIVE: ("active", "rollout"),
    CheckState.ROLLOUT_FAILED: ("rollout_in_progress", "rollout"),
    CheckState.AWAITING_DEPROVISION: ("deprovision_in_progress", "delete"),
    CheckState.DEPROVISION_IN_PROGRESS: ("deprovision_in_progress", "delete"),
    CheckState.DEPROVISION_FAILED: ("deprovision_in_progress", "delete"),
}

ANSWERED = {
    (CheckState.ROLLOUT_IN_PROGRESS, True): "active",
    (CheckState.ROLLOUT_IN_PROGRESS, False): "rollout_failed",
    (CheckState.DEPROVISION_IN_PROGRESS, True): "deprovisioned",
    (CheckState.DEPROVISION_IN_PROGRESS, False): "deprovision_failed",
}


@pytest.mark.parametrize("state", CheckState)
def test_an_abandoned_system_keeps_no_checks_and_does_not_wait(state):
    before = instance_of(version(0, state, "A"), update_available=state in ABANDONED)
    after = abandon(before, "nagios1", 7.0, "it is gone")
    if state not in ABANDONED:
        assert after == before
        return
    assert described(after) == "0A deprovisioned; current 0"
    assert after.configurations[0].reason == "it is gone"
    assert abandon(before, "nagios2", 7.0, "it is gone") == before


def test_the_successor_of_an_abandoned_configuration_starts_in_the_next_turn():
    before = instance_of(
        version(0, CheckState.DEPROVISION_IN_PROGRESS, "A"), version(1, CheckState.BLOCKED, "A", "nagios2")
    )
    after = life_cycle_turn(abandon(before, "nagios1", 7.0), 8.0)
    assert described(after) == "0A deprovisioned, 1A awaiting_rollout; flagged, current 1"
    assert after.system == "nagios2"


def test_a_deleted_instance_of_an_abandoned_system_awaits_its_deletion():
    before = instance_of(version(0, CheckState.ACTIVE, "A"), deleted=True)
    after = life_cycle_turn(abandon(before, "nagios1", 7.0), 8.0)
    assert described(after) == "0A awaiting_deletion; deleted, current 0"


@pytest.mark.parametrize("state", CheckState)
def test_a_fetch_succeeds_in_seven_states_only_and_the_second_one_changes_nothing(state):
    fetched = fetch(instance_of(version(0, state, "A")), 7.0)
    if state not in FETCHED:
        assert fetched is None
        return
    assert fetched is not None
    expected, task = FETCHED[state]
    after, deployment = fetched
    assert after.configurations[0].state.value == expected
    assert deployment.to_json() == {"is": "A", "config_id": config_id(KEY.id, 0), "version": 0, "task": task}
    repeated = fetch(after, 8.0)
    assert repeated is not None
    assert repeated[0] == after


def test_there_is_nothing_to_fetch_before_the_first_configuration():
    assert fetch(CheckInstance(KEY), 7.0) is None


def test_the_task_shows_whether_a_successor_waits():
    instance = instance_of(version(0, CheckState.AWAITING_DEPROVISION, "A"), version(1, CheckState.BLOCKED, "B"))
    fetched = fetch(instance, 7.0)
    assert fetched is not None
    assert fetched[1].task is DeploymentTask.DEPROVISION


def test_details_cannot_replace_the_task_the_version_and_the_identifier():
    made = want(CheckInstance(KEY), wanted("A"), 0.0, is_reported=True)
    fetched = fetch(made, 7.0)
    assert fetched is not None
    assert set(fetched[1].to_json()) == {"is", "config_id", "version", "task"}


@pytest.mark.parametrize("state", CheckState)
@pytest.mark.parametrize("is_success", [True, False])
def test_an_answer_counts_in_two_states_only_and_the_second_one_is_refused(state, is_success):
    after = answer(instance_of(version(0, state, "A")), is_success=is_success, now=9.0, reason="because")
    if (state, is_success) not in ANSWERED:
        assert isinstance(after, CheckRefusal)
        assert after.reason == (
            f"the state is {state.value}; expected rollout_in_progress or deprovision_in_progress"
        )
        return
    assert isinstance(after, CheckInstance)
    configuration = after.configurations[0]
    assert (configuration.state.value, configuration.reason) == (ANSWERED[state, is_success], "because")
    assert configuration.changed == 9.0
    assert isinstance(answer(after, is_success=is_success, now=10.0), CheckRefusal)


def test_a_late_answer_does_not_activate_the_successor():
    old, new = version(0, CheckState.DEPROVISIONED, "A"), version(1, CheckState.ROLLOUT_IN_PROGRESS, "B")
    instance = instance_of(old, new, current=1)
    late = answer(instance, is_success=True, now=9.0, config_id=old.config_id)
    assert late == CheckRefusal(
        f"the answer is for {old.config_id}, but the current configuration is {new.config_id}"
    )
    assert isinstance(answer(instance, is_success=True, now=9.0, config_id=new.config_id), CheckInstance)


def test_an_answer_before_the_first_configuration_is_refused():
    assert answer(CheckInstance(KEY), is_success=True, now=9.0) == CheckRefusal(
        "the instance has no current configuration yet"
    )


@pytest.mark.parametrize("state", CheckState)
def test_only_failures_are_retried(state):
    after = retry(instance_of(version(0, state, "A")), 9.0)
    if state is CheckState.ROLLOUT_FAILED:
        assert isinstance(after, CheckInstance)
        assert described(after) == "0A awaiting_rollout; flagged, current 0"
    elif state is CheckState.DEPROVISION_FAILED:
        assert isinstance(after, CheckInstance)
        assert described(after) == "0A awaiting_deprovision; flagged, current 0"
    else:
        assert after == CheckRefusal(f"the state is {state.value}; expected rollout_failed or deprovision_failed")


def test_a_list_of_updates_has_each_update_once():
    flagged = instance_of(version(0, CheckState.AWAITING_ROLLOUT, "A"), update_available=True)
    listed, is_listed = list_flagged(flagged, 9.0)
    assert is_listed
    assert not listed.update_available
    assert list_flagged(listed, 10.0) == (listed, False)


@pytest.mark.parametrize("state", CheckState)
@pytest.mark.parametrize("update_available", [True, False])
def test_a_list_of_all_has_four_states_with_any_flag_and_clears_it(state, update_available):
    instance = instance_of(version(0, state, "A"), update_available=update_available)
    after, is_listed = list_open(instance, 9.0)
    assert is_listed == (
        state.value
        in {"awaiting_rollout", "rollout_in_progress", "awaiting_deprovision", "deprovision_in_progress"}
    )
    assert after.update_available == (update_available and not is_listed)
