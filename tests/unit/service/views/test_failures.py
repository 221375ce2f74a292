"""Failures of hosts with the same error are one group, with the last lines of the failed script."""

from dataclasses import replace

from support.builders import make_host
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.stop import Stop, last_lines
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.service.views.failures import failure_groups

#: 1970-01-02 03:12:04 UTC.
FIRST = 97_924.0
NOW = FIRST + 60
STOP = Stop("h1", "h1.example.com", "c1fb3efd0f91", "deploy /shop/web 0", "exit status 1", FIRST)
FAILED = DeploymentFailure(7, "deploy /shop/web 0", "/shop/web", 0)


def groups(*hosts, stops=()):
    snapshot = FleetSnapshot(Cluster(None if stops else "r2"), published="r2", hosts=hosts, stops=stops)
    return failure_groups(snapshot, fleet_status(snapshot))


def failed(number, error="exit status 1", **fields):
    return make_host(f"h{number}", "r1", **{"error": error, "failed": FAILED, "since": FIRST + number} | fields)


def test_a_fleet_without_failures_has_no_group():
    assert groups(make_host("h1", "r2")) == ()


def test_two_hosts_with_the_same_error_are_one_group_since_the_first():
    second = replace(STOP, host_id="h2", host_name="h2.example.com", time=FIRST + 5)
    (group,) = groups(failed(1, output="migrating\nno such table: carts"), failed(2), stops=(second, STOP))
    assert group.title == "2 hosts failed at deploy /shop/web 0 of c1fb3efd0f91"
    assert group.summary(NOW) == "2 hosts, same error, first at 03:12:04"
    assert [host.id for host in group.hosts] == ["h1", "h2"]
    assert group.error == "exit status 1"
    assert group.lines == ("migrating", "no such table: carts")


def test_a_host_that_failed_alike_without_stopping_the_fleet_joins_the_group():
    (group,) = groups(failed(1), failed(2), stops=(STOP,))
    assert [(host.id, host.stops) for host in group.hosts] == [("h1", True), ("h2", False)]


def test_the_failure_that_stopped_the_fleet_comes_before_larger_groups():
    hosts = [failed(number, "disk full", failed=None) for number in range(2, 6)]
    stopping, others = groups(failed(1), *hosts, stops=(STOP,))
    assert (len(stopping.hosts), len(others.hosts)) == (1, 4)
    assert stopping.summary(NOW) == "at 03:12:04"
    assert others.title == "4 hosts failed"
    assert others.lines == ()


def test_a_stop_is_shown_after_the_agent_of_its_host_has_ended_or_failed_in_another_way():
    (group,) = groups(stops=(STOP,))
    assert (group.title, group.lines) == ("1 host failed at deploy /shop/web 0 of c1fb3efd0f91", ())
    (group,) = groups(failed(1, "another error", output="of the other error"), stops=(STOP,))
    assert (group.error, group.lines) == ("exit status 1", ())


def test_the_time_of_an_old_failure_has_a_date_and_an_unknown_time_is_omitted():
    (group,) = groups(failed(1), failed(2))
    assert group.summary(NOW + 90_000) == "2 hosts, same error, first at 1970-01-02 03:12:05"
    (group,) = groups(failed(1, since=None), failed(2, since=None))
    assert group.summary(NOW) == "2 hosts, same error"
    (group,) = groups(failed(1, since=1e300))
    assert group.summary(NOW) == ""


def test_a_host_keeps_the_last_ten_lines_of_an_output():
    lines = [f"line {number}" for number in range(30)]
    assert last_lines("\n".join(lines) + "\n\n") == "\n".join(lines[-10:])
    assert last_lines("x" * 1000 + "\nend\n") == "x" * 200 + "\nend"
    assert last_lines("\n \n") is None
