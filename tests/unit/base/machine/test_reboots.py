"""The state of a host's system on its disk, and the records of reboots."""

from dataclasses import replace

import pytest

from zkdeployment.base.deployment import Deployment, DeploymentFailure
from zkdeployment.base.machine.reboots import RebootRecord, SystemState
from zkdeployment.base.system import WantedSystem

NODE = WantedSystem("/os/web", "2026-11-20", ("kernel*",), exclude=("postgresql*",))
RECORD = RebootRecord("h1", "h1.example.com", "r1", 7, "/os/web", 0, "reboot for /os/web", "boot-1", 100.0, 1000.0)


def test_a_state_survives_its_form():
    state = SystemState().after_update(NODE, 50.0).rebooting(RECORD, "7")
    assert SystemState.from_json(state.to_json()) == state
    assert SystemState().to_json() == {}


def test_a_reboot_is_counted_when_it_begins_and_when_the_host_has_booted():
    begun = SystemState().after_update(NODE, 50.0).rebooting(RECORD, "7")
    assert (begun.pending, begun.begun, begun.boots) == (RECORD, {"/os/web 0": 1}, {})
    assert begun.booted("boot-1") == begun
    back = begun.booted("boot-2")
    assert (back.pending, back.begun, back.boots) == (None, {"/os/web 0": 1}, {"/os/web 0": 1})
    assert back.booted("boot-3") == back


@pytest.mark.parametrize("end", [lambda state: state.settled(NODE), lambda state: state.after_update(NODE, 60.0)])
def test_the_end_of_a_step_forgets_its_reboots_only(end):
    other = replace(RECORD, path="/shop/db", number=1)
    state = SystemState(updated=NODE).rebooting(RECORD, "7").booted("boot-2").rebooting(other, "7")
    ended = end(state)
    assert ended.begun == {"/shop/db 1": 1}
    assert ended.boots == {}
    assert ended.pending == other
    assert ended.completed(Deployment("/shop/db", 1)).pending is None


def test_a_reboot_that_does_not_take_place_does_not_count():
    once = SystemState().rebooting(RECORD, "7").booted("boot-2")
    assert once.rebooting(replace(RECORD, count=2), "7").withdrawn() == once
    assert SystemState().rebooting(RECORD, "7").withdrawn() == SystemState()
    assert once.withdrawn() == once


def test_only_a_step_that_used_all_its_reboots_counts_them_anew_after_its_failure():
    step = RECORD.deployment
    twice = SystemState().rebooting(replace(RECORD, count=2), "7").booted("boot-2")
    assert twice.after_failure(step) == twice
    thrice = twice.rebooting(replace(RECORD, count=3), "7").booted("boot-3")
    assert thrice.after_failure(Deployment("/shop/db", 1)) == thrice
    assert thrice.after_failure(step) == SystemState()


def test_times_of_a_damaged_record_are_shown_as_seconds():
    assert str(RECORD) == "reboots since 00:01 UTC for 'reboot for /os/web', expected back by 00:16 UTC"
    damaged = replace(RECORD, since=float("nan"), deadline=1e12)
    assert "since nan seconds since the epoch for" in str(damaged)
    assert damaged.return_text == "expected back by 1e+12 seconds since the epoch"


def test_reboots_count_only_for_their_publication():
    state = SystemState().rebooting(RECORD, "7").booted("boot-2")
    assert state.counting_for("7") == state
    assert state.counting_for("8") == SystemState()
    assert state.counting_for("8", {*state.boots, *state.begun}) == state
    unfinished = state.rebooting(replace(RECORD, count=2), "7")
    assert unfinished.counting_for("8").booted("boot-3").counting_for("8") == SystemState()


def test_reboots_that_an_earlier_program_recorded_without_their_publication_count():
    state = SystemState.from_json({"begun": {"/os/web 0": 1}, "boots": {"/os/web 0": 1}})
    assert state.counting_for("7") == replace(state, publication="7")
    assert state.counting_for("7").counting_for("8") == SystemState()


def test_a_deadline_that_passed_is_the_failure_of_the_host_at_its_step():
    assert not RECORD.is_due(1000.0)
    assert RECORD.is_due(1000.1)
    assert not replace(RECORD, expired=True).is_due(1000.1)
    stop = RECORD.failure(1200.0)
    assert str(stop).startswith("h1.example.com (h1) failed at reboot for /os/web of r1: the host did not")
    assert "within 900 s" in stop.reason
    assert RECORD.failed == DeploymentFailure(7, "reboot for /os/web", "/os/web", 0)
