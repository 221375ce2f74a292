"""Results and contacts of monitoring systems."""

import pytest

from support.builders import make_host
from zkdeployment.base.act import Maintenance
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.checks.rules.monitoring_system import (
    CheckResult,
    ResultState,
    SystemContact,
    SystemLease,
    hosts_at_work,
    is_removal_allowed,
    is_stale,
    lease_after,
)
from zkdeployment.fleet.views.snapshot import FleetSnapshot


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


HELD = SystemLease("a", 220.0)


def test_a_bridge_gets_a_free_lease_and_renews_it_from_time_to_time():
    assert lease_after(None, "a", 100.0) == HELD
    assert lease_after(HELD, "a", 139.0) is HELD
    assert lease_after(HELD, "a", 141.0) == SystemLease("a", 261.0)


def test_another_bridge_gets_the_lease_only_when_it_has_ended():
    assert lease_after(HELD, "b", 219.0) is HELD
    assert lease_after(HELD, "b", 220.0) == SystemLease("b", 340.0)


def test_a_bridge_without_a_name_gets_no_lease():
    assert lease_after(None, "", 100.0) is None
    assert lease_after(HELD, "", 100.0) is HELD
    assert lease_after(HELD, "", 220.0) is None


def test_a_lease_that_ends_too_late_does_not_hold():
    assert lease_after(SystemLease("a", 1e6), "b", 100.0) == SystemLease("b", 220.0)


@pytest.mark.parametrize("value", [{}, {"holder": 1, "until": 5.0}, {"holder": "a", "until": "5"}])
def test_malformed_leases_yield_none(value):
    assert SystemLease.if_valid(value) is None


def test_a_stored_lease_is_read_again_and_shows_its_end():
    assert SystemLease.if_valid(HELD.to_json()) == HELD
    assert HELD.end == "1970-01-01 00:03:40+00:00"


@pytest.mark.parametrize(
    ("reported", "stale"), [(None, True), (699.0, True), (700.0, False), (1600.0, False), (1601.0, True)]
)
def test_a_report_that_is_old_or_from_the_future_shows_no_life(reported, stale):
    assert is_stale(SystemContact(reported=reported), 1000.0) is stale


@pytest.mark.parametrize(("until", "allowed"), [(1000.0, False), (1001.0, True), (5200.0, True), (5201.0, False)])
def test_a_removal_is_allowed_for_an_hour_by_a_plausible_clock(until, allowed):
    assert is_removal_allowed(until, 1000.0) is allowed


def test_checks_may_fail_on_hosts_in_a_step_in_a_reboot_and_in_maintenance():
    fleet = FleetSnapshot(
        hosts=(
            make_host("h1", deploying="r2", step="deploy /web 0"),
            make_host("h2", deploying="r2", step="waits to deploy"),
            make_host("h3"),
        ),
        maintenance={"h3": Maintenance("h3", "ann", "new disk", 1.0), "away": Maintenance("away", "ann", "", 1.0)},
        reboots={
            name: RebootRecord(
                name, name, "r2", 5, "/os", 0, "reboot", "boot-1", 1.0, 900.0, expired=name == "late"
            )
            for name in ("reboots", "late")
        },
    )
    assert hosts_at_work(fleet) == {"h1", "h3", "away", "reboots"}
