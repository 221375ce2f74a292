"""Reports: which results are sent, in which parts; which hosts get a downtime."""

from dataclasses import replace

from support.checks.instances import CHECK
from zkdeployment.checks.nagios.files import (
    NagiosResult,
    changed_results,
    downtime_command,
    downtime_hosts,
    due_downtimes,
    result_batches,
    results_of_checks,
)

OK = NagiosResult("ok", "fine", 5.0, 6.0)


def test_unchanged_results_are_sent_again_only_when_they_are_refreshed():
    again = replace(OK, checked=7.0)
    bad = replace(OK, state="critical")
    assert changed_results({"a": again, "b": bad, "c": OK}, {"a": OK, "b": OK}, refresh=False) == {
        "b": bad,
        "c": OK,
    }
    assert changed_results({"a": again, "b": OK}, {"a": OK, "b": OK}, refresh=True) == {"a": again}


def test_results_are_sent_in_parts_that_fit_into_a_request():
    results = {f"{number:03d}": replace(OK, output="x" * 1000) for number in range(200)}
    batches = [*result_batches(results)]
    assert len(batches) == 3
    assert {key: value for batch in batches for key, value in batch.items()} == results


def test_no_results_are_one_empty_part():
    assert [*result_batches({})] == [{}]


def test_results_name_the_configuration_and_results_of_a_former_definition_do_not_count():
    checks = {CHECK.instance: CHECK}
    found = {CHECK.instance: OK, "other": OK}
    named = {CHECK.instance: replace(OK, config_id="c1")}
    assert results_of_checks(found, checks, {}) == named
    assert results_of_checks(found, checks, {CHECK.instance: 6.9}) == named
    assert results_of_checks(found, checks, {CHECK.instance: 7.1}) == {}
    assert named[CHECK.instance].to_json()["config_id"] == "c1"


def test_only_hosts_with_checks_get_downtimes():
    assert downtime_hosts({"h1", "h2"}, [CHECK]) == {"h1.example.com"}


def test_a_downtime_is_requested_once_and_renewed_before_its_end():
    assert due_downtimes({"h1"}, {}, 1000.0) == {"h1": 1180.0}
    assert due_downtimes({"h1"}, {"h1": 1180.0}, 1090.0) == {}
    assert due_downtimes({"h1"}, {"h1": 1180.0}, 1091.0) == {"h1": 1271.0}


def test_the_command_for_a_downtime():
    assert downtime_command("h1", 1000.0, 1180.0) == (
        "[1000] SCHEDULE_HOST_SVC_DOWNTIME;h1;1000;1180;1;0;180;zkdeployment;deployment or maintenance in progress"
    )
