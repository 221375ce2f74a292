"""Drift: dropped results of other configurations, and which of them still differ."""

from support.checks.instances import KEY, instance_of, version
from zkdeployment.checks.rules.instance import CheckState, config_id
from zkdeployment.checks.rules.overview import CheckDrift, DroppedResult, check_drift, with_report

ACTIVE = instance_of(version(0, CheckState.ACTIVE, "A"))
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
    assert check_drift(records, {KEY.id: ACTIVE}, 110.0) == ()


def test_another_configuration_and_an_unknown_instance_and_another_system_are_drift():
    other = with_report({}, {KEY.id: "c9"}, [], 100.0)
    (found,) = check_drift({"nagios1": other}, {KEY.id: ACTIVE}, 110.0)
    assert found == CheckDrift(KEY.id, "nagios1", "c9", CURRENT, 100.0, 100.0, ACTIVE)
    assert (found.to_json()["check"], found.to_json()["expected"]) == ("front-http", CURRENT)
    (found,) = check_drift({"nagios1": other}, {}, 110.0)
    assert (found.expected, found.to_json()["check"]) == (None, None)
    (found,) = check_drift({"nagios2": other}, {KEY.id: ACTIVE}, 110.0)
    assert found.expected is None
    assert check_drift({"nagios1": other}, {KEY.id: ACTIVE}, 3700.0) == ()
