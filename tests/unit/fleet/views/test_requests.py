from dataclasses import replace

import pytest

from zkdeployment.base.act import Maintenance
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.base.stop import Stop
from zkdeployment.fleet.views.requests import describe_request, describe_unknown, publication_obstacles
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.publishing.records import PublicationRequest

REQUEST = PublicationRequest("1", "ann@adm1", "web 1.3", 0.0, age_limit=60.0, written=100.0)


def test_a_request_is_described_with_its_state():
    action = "to publish the branch's tip (web 1.3)"
    assert describe_request(REQUEST, 110.0) == (
        f"ann@adm1 requested 10 s ago {action}; no syncer has answered yet, and the request expires in 50 s"
    )
    assert describe_request(REQUEST, 161.0) == (
        f"ann@adm1 requested 1 min ago {action}; no syncer answered in time, and the request has expired"
    )
    refused = replace(REQUEST, error="the tree does not parse", reason="")
    assert describe_request(refused, 161.0) == (
        "ann@adm1 requested 1 min ago to publish the branch's tip; the syncer refused: the tree does not parse"
    )


def hosts(*versions):
    return tuple(Host(Identity(f"h{n}", f"h{n}"), version) for n, version in enumerate(versions))


def test_a_stop_and_hosts_that_are_behind_are_obstacles_to_a_commit():
    stop = Stop("?", "?", "?", "stop", "it burns", 1.0, by="ann@ops")
    stopped = FleetSnapshot(Cluster(None), stops=(stop,), hosts=hosts("r1"))
    assert [*publication_obstacles(stopped, "c")] == [
        "the fleet is stopped: nothing is published before 'zkdeployment resume --latest'",
        "stopped by ann@ops: it burns",
    ]
    (behind,) = publication_obstacles(FleetSnapshot(Cluster("r2"), published="r2", hosts=hosts("r2", "r1")), "c")
    assert behind.startswith("not converged, so c is not published: expected version r2, but h1 (h1) has r1")


def test_a_host_in_maintenance_is_no_obstacle_to_a_commit():
    maintenance = {"h1": Maintenance("h1", "ann@ops", "its disk is replaced", 1.0)}
    fleet = FleetSnapshot(Cluster("r2"), published="r2", hosts=hosts("r2", "r1"), maintenance=maintenance)
    assert [*publication_obstacles(fleet, "c")] == []


def test_a_host_that_reboots_is_an_obstacle_to_a_commit():
    reboot = RebootRecord("h7", "app7", "r2", 7, "/os/web", 0, "reboot", "boot-1", 0.0, 900.0)
    fleet = FleetSnapshot(Cluster("r2"), published="r2", hosts=hosts("r2"), reboots={"h7": reboot})
    (obstacle,) = publication_obstacles(fleet, "c")
    assert "app7 (h7) reboots, expected back by 00:15 UTC" in obstacle


def test_converged_held_and_new_fleets_have_no_obstacles_to_a_commit():
    for cluster in (Cluster("r2"), Cluster(False), None):
        assert [*publication_obstacles(FleetSnapshot(cluster, published="r2", hosts=hosts("r2")), "c")] == []


@pytest.mark.parametrize(
    ("name", "known", "is_unknown"),
    [
        ("r1", ["r1"], False),
        ("a" * 8, ["a" * 40], False),
        ("a" * 6, ["a" * 40], True),  # too short for a commit id
        ("r1", ["r12"], True),
        ("r1", [], True),
    ],
)
def test_only_a_revision_that_is_not_known_is_described_as_unknown(name, known, is_unknown):
    found = describe_unknown(name, known, None, 100.0)
    assert found.startswith(f"waiting until {name} is pushed and the syncer reads it: no syncer has") is is_unknown
    assert bool(found) is is_unknown
