"""The report of a fleet for its promoter, from the status of the fleet."""

from dataclasses import replace

import pytest

from support.strategies import active_rollout, begun_rollout, ended_rollout
from zkdeployment.base.act import Act
from zkdeployment.base.cluster import INITIAL, Cluster
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.stop import GroupStop, Stop
from zkdeployment.fleet.daemon_failures import DaemonFailure
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.promotion.api import fleet_report
from zkdeployment.promotion.records import FleetReport, FleetStanding, FleetState
from zkdeployment.promotion.views.fleets import describe_stopped
from zkdeployment.publishing.records import Refusal

REVISION = "0123456789abcdef0123456789abcdef01234567"
OLD = "f" * 40
FAILURE = Stop("h2", "app2", REVISION, "deploy /who/myfoo 0", "exit status 1", 5.0)
STOP = Stop.of_operator(Act("ann@adm1", "stop", "smoke in the rack", 7.0))
HOLD = Stop.of_operator(Act("ann@adm1", "hold", "switch is replaced", 4.0))


def host(name, version=REVISION, since=1.0, **fields):
    return Host(Identity(name, name.replace("h", "app")), version=version, since=since, **fields)


def report(cluster, *hosts, **fields):
    snapshot = FleetSnapshot(cluster, published=REVISION, changed=2.0, hosts=hosts, **fields)
    return fleet_report(fleet_status(snapshot), snapshot)


def test_a_fleet_converged_when_its_last_host_did():
    found = report(Cluster(REVISION), host("h1", since=3.0), host("h2", since=9.0))
    assert found == FleetReport(FleetState.CONVERGED, REVISION, 2, 2, since=9.0)


def test_a_publication_without_work_for_hosts_begins_the_state():
    assert report(Cluster(REVISION), host("h1", since=1.0)).since == 2.0


def test_hosts_that_are_behind_or_failed_have_yet_to_converge():
    found = report(Cluster(REVISION), host("h1"), host("h2", version=OLD))
    assert found == FleetReport(FleetState.ROLLING_OUT, REVISION, 2, 1, since=2.0)
    failed = [host(name, version=OLD, error="no hello") for name in ("h2", "h3", "h4")]
    assert report(Cluster(REVISION), host("h1"), *failed).problem == "app2 failed: no hello (and 2 others)"


def test_a_daemon_that_fails_is_a_problem():
    failure = DaemonFailure("syncer", "sync1 (7)", "unexpected KeyError: 1; see the log", 3.0)
    found = report(Cluster(REVISION), host("h1", version=OLD), failures=(failure,))
    assert found.problem == "the syncer fails: unexpected KeyError: 1; see the log"


def test_a_stopped_group_is_a_problem_of_a_fleet_that_converged():
    found = report(Cluster(REVISION), host("h1"), group_stops=(GroupStop("p1/store/v1/shop", 7, FAILURE),))
    assert found.state is FleetState.CONVERGED
    assert found.problem == f"group p1/store/v1/shop is stopped: {FAILURE}"


@pytest.mark.parametrize(
    ("version", "stops", "state", "since", "by", "problem"),
    [
        (None, (FAILURE, STOP), "stopped", 5.0, "", f"{FAILURE} (and 1 other)"),
        (None, (STOP,), "stopped", 7.0, "ann@adm1", "stopped by ann@adm1: smoke in the rack"),
        (False, (HOLD,), "held", 4.0, "ann@adm1", "held by ann@adm1: switch is replaced"),
        (None, (), "stopped", 2.0, "", "ALL STOP: the cluster version was set to null; 1 host: 1 converged at"),
    ],
)
def test_a_stop_or_a_hold_has_its_author_and_its_reason(version, stops, state, since, by, problem):
    found = report(Cluster(version), host("h1"), stops=stops)
    assert (found.state, found.revision, found.since, found.by) == (FleetState(state), REVISION, since, by)
    assert found.problem.startswith(problem)


def test_a_refused_tip_has_its_problems_even_if_the_fleet_converged():
    refusal = Refusal(OLD, ("a.zk:2:1: nonsense", "a.zk:3:1: more"), 8.0)
    found = report(Cluster(REVISION), host("h1"), refusal=refusal)
    assert (found.state, found.revision, found.refused, found.since) == (FleetState.REFUSED, REVISION, OLD, 8.0)
    assert found.problem == "the syncer refuses ffffffffffff: a.zk:2:1: nonsense; a.zk:3:1: more"


def test_a_fleet_without_hosts_converges_at_its_revision_once_it_has_one():
    assert report(Cluster(REVISION)) == FleetReport(FleetState.CONVERGED, REVISION, since=2.0)
    assert report(Cluster(OLD, importing=REVISION)).state is FleetState.ROLLING_OUT
    nothing = FleetSnapshot()
    assert fleet_report(fleet_status(nothing), nothing) == FleetReport(FleetState.ROLLING_OUT)


@pytest.mark.parametrize("version", [INITIAL, "a version by hand", 17])
def test_a_version_that_is_no_commit_is_not_reported(version):
    """Before its first promotion, a fleet with agents has such a version."""
    found = report(Cluster(version), host("h1", version=version))
    assert (found.state, found.revision, found.converged) == (FleetState.CONVERGED, None, 1)


def test_a_rollout_that_ended_without_some_hosts_never_converges():
    """Their groups succeeded nevertheless, so the fleet was not stopped."""
    rollout = ended_rollout(begun_rollout())
    snapshot = FleetSnapshot(
        Cluster(rollout.revision),
        published=rollout.revision,
        changed=2.0,
        hosts=(host("h1", version=OLD),),
        strategy="all",
        governed=True,
        rollout=rollout,
    )
    status = replace(fleet_status(snapshot), missed=True)
    found = fleet_report(status, snapshot)
    assert (found.state, found.problem) == (FleetState.STOPPED, status.rollout)
    assert found.problem.startswith(f"rollout {rollout.id}: ")
    standing = FleetStanding("eu-1", found.state)
    assert describe_stopped([standing]).startswith("stopped, so that hosts there start nothing: eu-1; 'zkdeploy")
    under_way = replace(snapshot, rollout=active_rollout(begun_rollout()))
    assert fleet_report(fleet_status(under_way), under_way).state is FleetState.ROLLING_OUT
