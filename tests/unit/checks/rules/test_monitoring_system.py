"""Results and contacts of monitoring systems."""

import pytest

from zkdeployment.checks.rules.monitoring_system import CheckResult, ResultState, SystemContact


@pytest.mark.parametrize("checked", [None, 12.75])
def test_a_result_is_stored_and_read_back(checked: float | None):
    result = CheckResult(ResultState.WARNING, "slow", 12.5, 13.0, checked)
    assert CheckResult.if_valid(result.to_json()) == result


def test_a_result_of_an_earlier_version_has_no_time_of_the_run():
    stored = {"state": "ok", "output": "", "since": 1.0, "reported": 2.0}
    assert CheckResult.if_valid(stored) == CheckResult(ResultState.OK, "", 1.0, 2.0)


@pytest.mark.parametrize("change", [{"state": "fine"}, {"output": 1}, {"since": "x"}, {"reported": None}])
def test_a_malformed_result_yields_none(change: dict[str, object]):
    assert CheckResult.if_valid({**CheckResult(ResultState.OK, "", 1.0, 1.0).to_json(), **change}) is None


def test_a_contact_keeps_the_times_that_a_later_one_does_not_have():
    assert SystemContact(1.0, 2.0).merged(SystemContact(reported=5.0)) == SystemContact(1.0, 5.0)
    assert SystemContact.from_json(SystemContact(1.0).to_json()) == SystemContact(1.0)
    assert SystemContact.from_json({"fetched": True, "reported": "x"}) == SystemContact()
