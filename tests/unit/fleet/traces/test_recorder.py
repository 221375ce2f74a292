"""The steps that hosts show are recorded with the times of ZooKeeper."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from structlog.testing import capture_logs

from support.builders import make_host
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.fleet.feed.feed import ZooKeeperFeed
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.fleet.traces.exporter import StepRecorder
from zkdeployment.fleet.traces.spans import StepTime
from zkdeployment.fleet.views.snapshot import FleetSnapshot

if TYPE_CHECKING:
    from zkdeployment.base.host import Host


class Readings:
    """A feed with the readings that a test gives it."""

    def __init__(self) -> None:
        self.reading = FleetReading()
        self.recorder = StepRecorder(cast("ZooKeeperFeed", self))

    def snapshot(self) -> Any:
        return SimpleNamespace(reading=self.reading)

    def show(self, step: str | None, since: float, sequence: int = 7, *, name: str = "h1") -> None:
        self.show_host(make_host(name, "r1", deploying=step and "r2", step=step, since=since), sequence)

    def show_host(self, host: Host, sequence: int = 7) -> None:
        self.show_fleet(FleetSnapshot(Cluster("r2"), "r2", hosts=(host,), since=sequence), sequence)

    def show_fleet(self, fleet: FleetSnapshot, sequence: int = 7) -> None:
        self.reading = FleetReading(fleet, number=self.reading.number + 1, sequence=sequence)
        self.recorder.record()


def test_a_step_lasts_until_the_next_one():
    readings = Readings()
    readings.show("prepare packages", 10.0)
    readings.show("prepare packages", 11.0)
    readings.show("deploy /web 0", 12.0)
    readings.show(None, 15.0)
    readings.show(None, 16.0)
    assert readings.recorder.steps(7) == {
        "h1": (StepTime("prepare packages", 10.0, 12.0), StepTime("deploy /web 0", 12.0, 15.0))
    }


def test_a_host_that_is_away_for_a_reboot_is_rebooting_until_it_shows_another_step():
    readings = Readings()
    readings.show("reboot for /os/web", 10.0)
    for expired in (False, False, True):
        away = RebootRecord("h1", "app1", "r2", 7, "/os/web", 0, "reboot for /os/web", "b", 12.0, 912.0)
        away = replace(away, expired=expired)
        readings.show_fleet(FleetSnapshot(Cluster("r2"), "r2", since=7, reboots={"h1": away}))
    assert readings.recorder.steps(7)["h1"][-1].ended is None
    readings.show("reboot for /os/web", 70.0)
    readings.show(None, 75.0)
    assert readings.recorder.steps(7)["h1"] == (
        StepTime("reboot for /os/web", 10.0, 12.0),
        StepTime("rebooting, expected back by 00:15 UTC", 12.0, 70.0, deadline=912.0),
        StepTime("reboot for /os/web", 70.0, 75.0),
    )


def test_hosts_that_deploy_nothing_are_not_recorded():
    readings = Readings()
    readings.show(None, 10.0)
    assert readings.recorder.steps(7) == {}


def test_a_host_that_shows_a_step_without_a_deployment_is_not_recorded():
    readings = Readings()
    readings.show_host(make_host("h1", "r1", step="deploy", since=10.0))
    assert readings.recorder.steps(7) == {}


def test_a_host_that_begins_when_the_record_is_full_is_not_recorded(monkeypatch):
    monkeypatch.setattr("zkdeployment.fleet.traces.exporter._STEPS", 3)
    readings = Readings()
    for number in range(5):
        readings.show("deploy", float(number), name=f"h{number}")
    assert list(readings.recorder.steps(7)) == ["h0", "h1", "h2"]
    readings.show("deploy", 5.0, 8)
    assert list(readings.recorder.steps(8)) == ["h1"]


def test_the_steps_of_the_last_publications_are_kept():
    readings = Readings()
    for sequence in range(20):
        readings.show("deploy", float(sequence), sequence)
    assert [sequence for sequence in range(20) if readings.recorder.steps(sequence)] == [15, 16, 17, 18, 19]


def test_a_host_keeps_a_limited_number_of_steps():
    readings = Readings()
    for number in range(1000):
        readings.show(f"deploy {number}", float(number))
    assert len(readings.recorder.steps(7)["h1"]) == 200


def test_a_feed_that_closes_before_its_first_reading_is_not_an_error_of_the_recorder():
    feed = ZooKeeperFeed(lambda: pytest.fail("the feed was not started"))
    recorder = StepRecorder(feed)
    recorder.start()
    with capture_logs() as logs:
        feed.close()
    assert (logs, recorder.steps(0)) == ([], {})
