"""Check instances as operators see them: which a filter selects, their states, and systems that wait."""

import pytest

from support.checks.instances import KEY, instance_of
from support.checks.instances import version as state_version
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.checks.rules.instance import (
    CheckInstance,
    CheckState,
    InstanceConfiguration,
    InstanceKey,
    config_id,
)
from zkdeployment.checks.rules.listing import (
    CheckDrift,
    DroppedResult,
    InstanceFilter,
    SystemBacklog,
    check_drift,
    host_name,
    instance_to_view,
    instance_view,
    is_failed,
    listed_part,
    read_instance_id,
    read_state,
    selected,
    shown_state,
    state_counts,
    unheard_since,
    waiting_since,
    with_report,
)
from zkdeployment.checks.rules.monitoring_system import SystemContact


def version(number, state, changed=10.0, reason=""):
    details = {"host": {"id": "host1", "name": "host1.example.com"}}
    return InstanceConfiguration(number, f"c{number}", state, details, "nagios1", 7, reason, 5.0, changed)


def instance(*versions, current=None, host="host1", path="/p1/shop/front", check="front-http"):
    return CheckInstance(InstanceKey(check, path, 0, host), versions, current)


ACTIVE = instance(version(0, CheckState.ACTIVE), current=0)
FAILED = instance(version(0, CheckState.ROLLOUT_FAILED, 3.0, "no plugin"), current=0, path="/p1/shop/back")
NEW = instance(version(0, CheckState.AWAITING_COMPUTATION), check="other")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (InstanceFilter(), [FAILED, ACTIVE, NEW]),
        (InstanceFilter(state=CheckState.ACTIVE), [ACTIVE]),
        (InstanceFilter(host="host1"), [FAILED, ACTIVE, NEW]),
        (InstanceFilter(host="host1.example.com"), [FAILED, ACTIVE, NEW]),
        (InstanceFilter(host="host2"), []),
        (InstanceFilter(path="/p1/shop/"), [FAILED, ACTIVE, NEW]),
        (InstanceFilter(path="/p1/shop/front"), [ACTIVE, NEW]),
        (InstanceFilter(path="/p1/sh"), []),
        (InstanceFilter(path="/"), [FAILED, ACTIVE, NEW]),
        (InstanceFilter(check="other"), [NEW]),
        (InstanceFilter(system="nagios1", check="front-http"), [FAILED, ACTIVE]),
        (InstanceFilter(system="nagios2"), []),
    ],
)
def test_a_filter_selects_checks_that_match_all_its_values(wanted, found):
    assert selected([NEW, ACTIVE, FAILED], wanted) == tuple(found)


def test_the_current_version_stands_for_an_instance_while_its_successor_waits():
    replaced = instance(version(0, CheckState.DEPROVISION_IN_PROGRESS), version(1, CheckState.BLOCKED), current=0)
    assert shown_state(replaced) is CheckState.DEPROVISION_IN_PROGRESS
    gone = instance(version(0, CheckState.AWAITING_DELETION))
    assert shown_state(gone) is CheckState.AWAITING_DELETION
    assert state_counts([replaced, gone, ACTIVE, ACTIVE]) == {
        "active": 2,
        "deprovision_in_progress": 1,
        "awaiting_deletion": 1,
    }


def test_an_instance_without_versions_has_no_name_of_its_host_yet():
    empty = instance()
    assert (host_name(empty), shown_state(empty)) == ("host1", CheckState.AWAITING_COMPUTATION)
    assert instance_view(empty, None).to_json()["version"] is None


@pytest.mark.parametrize(
    ("whole", "versions"),
    [
        (ACTIVE, [0]),
        (instance(version(0, CheckState.DEPROVISIONED), version(1, CheckState.BLOCKED), current=0), [0, 1]),
        (instance(version(0, CheckState.AWAITING_DELETION), version(1, CheckState.ACTIVE), current=1), [1]),
        (instance(version(0, CheckState.AWAITING_DELETION), version(1, CheckState.AWAITING_DELETION)), [1]),
        (instance(), []),
    ],
)
def test_the_listed_part_of_an_instance_is_listed_like_the_whole(whole, versions):
    listed = listed_part(whole)
    assert [found.version for found in listed.configurations] == versions
    assert all(found.details == {"host": {"name": "host1.example.com"}} for found in listed.configurations)
    assert instance_view(listed, None).to_json() == instance_view(whole, None).to_json()
    assert (listed.system, is_failed(listed)) == (whole.system, is_failed(whole))


def test_one_instance_is_shown_with_all_its_versions():
    shown = instance_to_view(FAILED, None, None)
    assert (shown["state"], shown["reason"], shown["changed"]) == ("rollout_failed", "no plugin", 3.0)
    assert shown["configurations"] == [
        {
            "version": 0,
            "config_id": "c0",
            "state": "rollout_failed",
            "monitoring": "nagios1",
            "publication": 7,
            "reason": "no plugin",
            "created": 5.0,
            "changed": 3.0,
            "details": {"host": {"id": "host1", "name": "host1.example.com"}},
        }
    ]


def test_only_failed_instances_may_be_retried():
    assert is_failed(FAILED)
    assert not is_failed(ACTIVE)
    assert not is_failed(NEW)


def test_a_system_is_silent_since_its_last_fetch_or_since_something_waits():
    assert waiting_since([ACTIVE, FAILED]) == 3.0
    assert waiting_since([]) is None
    assert SystemBacklog("nagios1", fetched=50.0).silent_for(100.0) == 0.0
    assert SystemBacklog("nagios1", fetched=50.0, waiting_since=10.0).silent_for(100.0) == 50.0
    assert SystemBacklog("nagios1", fetched=50.0, waiting_since=70.0).silent_for(100.0) == 30.0
    assert SystemBacklog("nagios1", waiting_since=70.0).silent_for(100.0) == 30.0


def test_a_system_is_unheard_only_while_checks_are_active():
    old, new = (version(0, CheckState.ACTIVE, changed) for changed in (10.0, 20.0))
    active = [instance(old, current=0), instance(new, current=0)]
    silent, heard = SystemContact(reported=30.0), SystemContact(reported=900.0)
    assert unheard_since(silent, active, 1000.0) == 30.0
    assert unheard_since(None, active, 1000.0) == 10.0
    assert unheard_since(heard, active, 1000.0) is None
    assert unheard_since(silent, [instance(version(0, CheckState.AWAITING_ROLLOUT), current=0)], 1000.0) is None
    assert SystemBacklog("nagios1", unheard_since=30.0).unheard_for(100.0) == 70.0
    assert SystemBacklog("nagios1").unheard_for(100.0) == 0.0


def test_identifiers_and_states_of_requests_are_checked():
    assert read_instance_id(ACTIVE.id.upper()) == ACTIVE.id
    for text in ("x", "", ACTIVE.id.replace("-", ""), f"{{{ACTIVE.id}}}"):
        with pytest.raises(ConfigurationError, match="expected a UUID, found "):
            read_instance_id(text)
    assert read_state(None) is None
    assert read_state("active") is CheckState.ACTIVE
    with pytest.raises(
        ConfigurationError, match=r"expected one of awaiting_computation, computed, .* found 'bad'"
    ):
        read_state("bad")


DEPLOYED = instance_of(state_version(0, CheckState.ACTIVE, "A"))
CURRENT = config_id(KEY.id, 0)


def test_a_dropped_result_is_recorded_with_its_first_and_last_time():
    records = with_report({}, {"a": "c1"}, [], 100.0)
    assert records == {"a": DroppedResult("c1", 100.0, 100.0)}
    assert with_report(records, {"a": "c1"}, [], 120.0) == records
    assert with_report(records, {"a": "c1"}, [], 200.0) == {"a": DroppedResult("c1", 100.0, 200.0)}
    assert with_report(records, {"a": "c2"}, [], 120.0) == {"a": DroppedResult("c2", 120.0, 120.0)}


def test_a_result_that_counts_ends_the_drift_and_so_does_an_hour_without_reports():
    records = with_report({}, {"a": "c1", "b": "c1"}, [], 100.0)
    assert [*with_report(records, {}, ["a"], 110.0)] == ["b"]
    assert with_report(records, {}, [], 3700.0) == {}


def test_only_the_latest_500_are_recorded():
    old = with_report({}, {f"{number:03d}": "c1" for number in range(500)}, [], 100.0)
    records = with_report(old, {"new": "c1"}, [], 101.0)
    assert len(records) == 500
    assert "new" in records


def test_stored_records_are_read_defensively():
    record = DroppedResult("c1", 1.0, 2.0)
    assert DroppedResult.if_valid(record.to_json()) == record
    for value in (None, [], {}, {"config_id": 1, "since": 1.0, "seen": 1.0}):
        assert DroppedResult.if_valid(value) is None


def test_a_deployed_check_is_not_a_drift():
    records = {"nagios1": with_report({}, {KEY.id: CURRENT}, [], 100.0)}
    assert check_drift(records, {KEY.id: DEPLOYED}, 110.0) == ()


def test_another_configuration_and_an_unknown_instance_and_another_system_are_drift():
    other = with_report({}, {KEY.id: "c9"}, [], 100.0)
    (found,) = check_drift({"nagios1": other}, {KEY.id: DEPLOYED}, 110.0)
    assert found == CheckDrift(KEY.id, "nagios1", "c9", CURRENT, 100.0, 100.0, DEPLOYED)
    assert (found.to_json()["check"], found.to_json()["expected"]) == ("front-http", CURRENT)
    (found,) = check_drift({"nagios1": other}, {}, 110.0)
    assert (found.expected, found.to_json()["check"]) == (None, None)
    (found,) = check_drift({"nagios2": other}, {KEY.id: DEPLOYED}, 110.0)
    assert found.expected is None
    assert check_drift({"nagios1": other}, {KEY.id: DEPLOYED}, 3700.0) == ()
