"""Changes of check instances in the form of events."""

from dataclasses import replace

from zkdeployment.checks.rules.instance import CheckChange, CheckInstance, InstanceKey, state_changes
from zkdeployment.checks.rules.workflow import WantedConfiguration, fetch, want

KEY = InstanceKey("tcp", "/shop/web", 0, "h1")
NEW = want(CheckInstance(KEY), WantedConfiguration({"port": 80}, "nagios1", 1), 5.0, is_reported=True)


def changed(former: str | None, state: str | None) -> CheckChange:
    return CheckChange(KEY.id, "tcp", "/shop/web", 0, "h1", "nagios1", former, state)


def test_a_new_a_moved_and_a_removed_instance_are_changes():
    outcome = fetch(NEW, 6.0)
    assert outcome is not None
    assert state_changes([(None, NEW), (NEW, outcome[0]), (NEW, None)]) == (
        changed(None, "awaiting_rollout"),
        changed("awaiting_rollout", "rollout_in_progress"),
        changed("awaiting_rollout", None),
    )


def test_another_flag_is_not_a_change_of_state():
    assert state_changes([(NEW, replace(NEW, update_available=False)), (None, None)]) == ()


def test_a_change_is_stored_and_read_back_and_malformed_ones_give_none():
    change = changed(None, "active")
    assert CheckChange.if_valid(change.to_json(), instance=KEY.id) == change
    assert CheckChange.if_valid({**change.to_json(), "path": 5}, instance=KEY.id) is None
    assert CheckChange.if_valid([], instance=KEY.id) is None
