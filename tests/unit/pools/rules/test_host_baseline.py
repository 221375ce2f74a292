"""The comparison of a host with its state before a lease."""

from __future__ import annotations

from zkdeployment.pools.rules.host_lease import HostBaseline, shown_differences


def test_changes_by_a_tenant_are_differences_but_changes_by_the_role_are_not():
    baseline = HostBaseline(
        frozenset({"both", "idle only", "gone with the role"}), frozenset({"both", "of the role"})
    )
    assert baseline.differences(frozenset({"both", "idle only", "of the role"})) == []
    assert baseline.differences(frozenset({"idle only", "backdoor"})) == ["new: backdoor", "missing: both"]


def test_a_host_that_never_ran_the_role_is_compared_with_its_idle_state_alone():
    assert HostBaseline(frozenset({"a"})).differences(frozenset({"b"})) == ["new: b", "missing: a"]


def test_a_baseline_is_stored_as_json_and_other_values_give_none():
    for leased in (None, frozenset({"x"})):
        baseline = HostBaseline(frozenset({"a", "b"}), leased, is_lent=True)
        assert HostBaseline.if_valid(baseline.to_json()) == baseline
    assert HostBaseline.if_valid({"idle": 1}) is None


def test_a_message_has_ten_differences_and_the_number_of_further_ones():
    assert shown_differences([f"new: {number}" for number in range(12)]).endswith("new: 9; and 2 more")
    assert shown_differences(["new: a"]) == "new: a"
