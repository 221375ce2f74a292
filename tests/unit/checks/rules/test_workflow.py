"""The table of the workflow, and its properties as a whole."""

import pytest

from support.checks.instances import instance_of, version
from zkdeployment.checks.rules.instance import CheckState
from zkdeployment.checks.rules.workflow import WORKFLOW, CheckEffect, CheckEvent, CheckGuard, transition


def test_each_state_is_reached_and_left_except_the_first_and_the_last():
    reached = {step.state for (state, _), step in WORKFLOW.items() if step.state is not state}
    left = {state for (state, _), step in WORKFLOW.items() if step.state is not state}
    assert set(CheckState) - reached == {CheckState.AWAITING_COMPUTATION}
    assert set(CheckState) - left == {CheckState.AWAITING_DELETION}


def test_the_flag_is_set_exactly_when_a_configuration_comes_to_await_its_system():
    for (state, event), step in WORKFLOW.items():
        awaits = step.state in {CheckState.AWAITING_ROLLOUT, CheckState.AWAITING_DEPROVISION}
        assert (CheckEffect.SET_FLAG in step.effects) == awaits, (state, event)


def test_a_deployed_check_is_never_forgotten_without_an_undeployment():
    deployed = set(CheckState) & {
        CheckState.ROLLOUT_IN_PROGRESS,
        CheckState.ACTIVE,
        CheckState.AWAITING_DEPROVISION,
        CheckState.DEPROVISION_IN_PROGRESS,
        CheckState.DEPROVISION_FAILED,
    }
    for (state, event), step in WORKFLOW.items():
        if state in deployed:
            assert step.state not in {None, CheckState.AWAITING_DELETION}, (state, event)


def test_only_ghost_removal_requires_the_flag():
    flagged = [key for key, step in WORKFLOW.items() if CheckGuard.FLAGGED in step.guards]
    assert flagged == [(CheckState.AWAITING_ROLLOUT, CheckEvent.GHOST)]


@pytest.mark.parametrize("event", CheckEvent)
@pytest.mark.parametrize("state", CheckState)
def test_an_event_without_an_entry_is_impossible(state, event):
    if (state, event) not in WORKFLOW:
        assert transition(instance_of(version(0, state, "A"), deleted=True), 0, event, 5.0) is None


@pytest.mark.parametrize("event", CheckEvent)
def test_no_event_concerns_a_version_that_is_not_there(event):
    assert transition(instance_of(version(0, CheckState.ACTIVE, "A")), 7, event, 5.0) is None
