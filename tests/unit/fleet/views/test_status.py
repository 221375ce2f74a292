import json
from dataclasses import replace

import pytest

from support.builders import make_host, make_known_host
from support.strategies import (
    active_rollout,
    advanced_rollout,
    begun_rollout,
    ended_rollout,
    group,
    plain_hosts,
    strategy,
)
from support.trees import controller_of_role, foo_assignment
from zkdeployment.base.act import Act, Maintenance
from zkdeployment.base.cluster import INITIAL, Cluster, Retry, short
from zkdeployment.base.deployment import Assignment, HostResult
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import KnownHost
from zkdeployment.base.publication import Origin, Published
from zkdeployment.base.stop import Stop
from zkdeployment.base.system import WantedSystem
from zkdeployment.fleet.views.instances import ServicesSnapshot
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import HostState
from zkdeployment.fleet.views.status import fleet_status as judge
from zkdeployment.fleet.views.waits import WaitVerdict, wait_verdict
from zkdeployment.publishing.records import PublicationRecord, Refusal
from zkdeployment.publishing.rules.convergence import PublicationSnapshot, describe_unserved, is_converged
from zkdeployment.strategies.state import Ending

REVISION = "0123456789abcdef0123456789abcdef01234567"
OLD = "f" * 40
CLUSTER = Cluster(REVISION)
STOP = Stop("h2", "app2", REVISION, "deploy /who/myfoo 0", "exit status 1", 5.0)
HOLD = Stop.of_operator(Act("ann@adm1", "hold", "switch is replaced", 4.0))


def host(name="h1", version=REVISION, **fields):
    return Host(Identity(name, name.replace("h", "app"), fields.pop("role", None)), version=version, **fields)


def fleet_status(cluster, hosts, stops=(), *, names=(), **more):
    return judge(FleetSnapshot(cluster, hosts=tuple(hosts), stops=tuple(stops), **more), names=names)


def states(status):
    return {row.id: row.state for row in status.hosts}


@pytest.mark.parametrize(
    ("known_host", "cluster", "state"),
    [
        (host(), CLUSTER, HostState.CONVERGED),
        (host(version=1112), Cluster(1112), HostState.CONVERGED),
        (host(version=OLD), CLUSTER, HostState.BEHIND),
        (host(version=None), CLUSTER, HostState.BEHIND),
        (host(version=OLD, deploying=REVISION), CLUSTER, HostState.DEPLOYING),
        (host(version=OLD, deploying=REVISION, step="waits to deploy: rollout 7-1"), CLUSTER, HostState.BEHIND),
        (host(version=OLD, error="no"), CLUSTER, HostState.FAILED),
        (host(error="no", deploying=REVISION), CLUSTER, HostState.FAILED),
        (host(), Cluster(OLD, importing=REVISION), HostState.CONVERGED),
        (host(version=OLD), Cluster(OLD, importing=REVISION), HostState.BEHIND),
        (host(), Cluster(None), HostState.UNKNOWN),
        (host(error="no"), Cluster(None), HostState.FAILED),
        (host(), Cluster(False), HostState.UNKNOWN),
        (host(), None, HostState.UNKNOWN),
    ],
)
def test_a_hosts_state(known_host, cluster, state):
    status = fleet_status(cluster, [known_host])
    assert states(status) == {"h1": state}
    assert status.converged == (state is HostState.CONVERGED and cluster.importing is None)


def test_while_nothing_may_start_hosts_are_compared_with_the_published_revision():
    hosts = [host("h1"), host("h2", OLD)]
    for version in (None, False):
        status = fleet_status(Cluster(version), hosts, published=REVISION)
        assert states(status) == {"h1": HostState.CONVERGED, "h2": HostState.BEHIND}
        assert not status.converged
        assert not fleet_status(Cluster(version), hosts[:1], published=REVISION).converged


def test_a_host_that_a_deployment_left_half_way_is_behind_at_the_version_that_it_had():
    [row] = fleet_status(CLUSTER, [host(version=None, former=REVISION)]).hosts
    assert (row.state, row.version, row.former) == (HostState.BEHIND, None, REVISION)


def test_hosts_are_sorted_by_name_and_show_their_steps():
    hosts = [host("h2"), host("h1", OLD, role="web", deploying=REVISION, step="deploy /a 0", steps=(1, 3))]
    status = fleet_status(CLUSTER, hosts)
    assert [row.name for row in status.hosts] == ["app1", "app2"]
    assert status.hosts[0].to_json() == {
        "id": "h1",
        "name": "app1",
        "role": "web",
        "state": "deploying",
        "version": OLD,
        "former": None,
        "wanted": REVISION,
        "step": "deploy /a 0",
        "steps": [1, 3],
        "error": None,
        "since": None,
        "expected": True,
        "lease": None,
        "leased": None,
        "maintenance": None,
    }


PUBLICATION = PublicationRecord(
    REVISION, 7.0, sequence=12, origin=Origin("Jane Doe <jane@example.com>", "Web 1.3", 6.0)
)


def test_the_publication_of_the_wanted_revision_is_shown_with_its_commit_but_not_that_of_another_one():
    found = fleet_status(CLUSTER, [host()], published=REVISION, publication=PUBLICATION)
    assert found.to_json()["publication"] == {
        "sequence": 12,
        "revision": REVISION,
        "time": 7.0,
        "author": "Jane Doe <jane@example.com>",
        "subject": "Web 1.3",
    }
    by_hand = fleet_status(Cluster(OLD), [host()], published=REVISION, publication=PUBLICATION)
    without_commit = fleet_status(CLUSTER, [], publication=replace(PUBLICATION, origin=None)).publication
    assert by_hand.publication is None
    assert (without_commit.author, without_commit.subject) == ("", "")


@pytest.mark.parametrize(
    ("cluster", "hosts", "stops", "change"),
    [
        (CLUSTER, [host(since=50.0)], [], ("wanted", 40.0)),
        (CLUSTER, [host(error="no", since=50.0), host("h2", error="no", since=45.0)], [], ("began", 45.0)),
        (Cluster(None), [host(error="no", since=3.0)], [STOP], ("began", 5.0)),
        (Cluster(None), [host()], [], ("wanted", 40.0)),
    ],
)
def test_a_fleet_is_in_its_state_since_a_stop_or_a_failure_or_the_last_order(cluster, hosts, stops, change):
    found = fleet_status(cluster, hosts, stops, changed=40.0)
    assert (found.change, found.since) == change


def test_the_fleet_as_json():
    status = fleet_status(Cluster(None), [host("h2", OLD, error="exit status 1")], [STOP], published=REVISION)
    assert json.loads(json.dumps(status.to_json())) == {
        "version": None,
        "cluster": "stopped",
        "wanted": REVISION,
        "converged": False,
        "summary": "ALL STOP; 1 host: 1 failed at 0123456789ab; running services continue",
        "stopped": ["app2 (h2) failed at deploy /who/myfoo 0 of 0123456789ab: exit status 1"],
        "stops": [STOP.to_json()],
        "stops_recorded": 1,
        "request": None,
        "refusal": None,
        "failures": [],
        "unserved": [],
        "down": {"count": 0, "of": 0, "instances": []},
        "decisions": [],
        "syncer_reported": None,
        "group_stops": [],
        "rollout": None,
        "warnings": [],
        "publication": None,
        "since": 5.0,
        "hosts": [status.hosts[0].to_json()],
    }
    assert fleet_status(None, []).to_json()["cluster"] is None
    assert fleet_status(CLUSTER, [host()]).to_json()["version"] == REVISION


@pytest.mark.parametrize(
    ("cluster", "hosts", "summary"),
    [
        (CLUSTER, [host()], "1 host: 1 converged at 0123456789ab"),
        (
            CLUSTER,
            [host("h1"), host("h2"), host("h3", OLD), host("h4", deploying="x")],
            "4 hosts: 2 converged at 0123456789ab, 1 behind, 1 deploying",
        ),
        (CLUSTER, [], "no hosts"),
        (None, [], "nothing was published yet, or ZooKeeper was wiped: there is no /hosts; no hosts"),
        (
            Cluster(None),
            [host()],
            "ALL STOP: the cluster version was set to null; 1 host: 1 unknown; running services continue",
        ),
        (Cluster(False), [host()], "held: hosts start nothing; 1 host: 1 unknown; running services continue"),
        (
            Cluster(OLD, importing=REVISION),
            [host(version=OLD)],
            "0123456789ab is being published; 1 host: 1 behind; 0123456789ab is wanted",
        ),
    ],
)
def test_the_fleet_in_a_sentence(cluster, hosts, summary):
    assert fleet_status(cluster, hosts).summary == summary


def test_stops_of_the_past_stop_nothing():
    assert fleet_status(CLUSTER, [host()], [STOP, HOLD]).stops == ()
    assert fleet_status(Cluster(False), [host()], [STOP]).stops == ()


def test_a_held_fleet_shows_who_holds_it_and_why():
    status = fleet_status(Cluster(False), [host()], [HOLD])
    assert [str(stop) for stop in status.stops] == ["held by ann@adm1: switch is replaced"]
    assert status.to_json()["stops"] == [
        {"by": "ann@adm1", "step": "hold", "reason": "switch is replaced", "time": 4.0}
    ]
    assert fleet_status(Cluster(None), [], [STOP, HOLD]).stops == (HOLD, STOP)


def test_stops_are_listed_in_the_order_in_which_they_happened():
    later = Stop("h1", "app1", REVISION, "change packages", "no foo 9", 6.0)
    assert [stop.host_name for stop in fleet_status(Cluster(None), [], [later, STOP]).stops] == ["app2", "app1"]


def test_no_hosts_are_not_a_converged_fleet():
    assert not fleet_status(CLUSTER, []).converged


def test_only_the_hosts_asked_for_are_judged():
    hosts = [host("h1"), host("h2", OLD), host("h3")]
    assert fleet_status(CLUSTER, hosts, names=["h1", "app3"]).converged
    assert states(fleet_status(CLUSTER, hosts, names=["app2"])) == {"h2": HostState.BEHIND}


def test_a_host_that_is_not_registered_is_unknown_and_never_converged():
    status = fleet_status(CLUSTER, [host("h1")], names=["h9", "h1"])
    assert states(status) == {"h1": HostState.CONVERGED, "h9": HostState.UNKNOWN}
    assert str(status.hosts[1].error).startswith("no such host: ")
    assert [found.exists for found in status.hosts] == [True, False]
    assert not status.converged


def test_a_host_that_never_registered_exists_if_the_published_tree_deploys_to_it():
    (found,) = fleet_status(CLUSTER, [], targets=["h9"], names=["h9"]).hosts
    assert (found.state, found.error, found.exists) == (HostState.UNKNOWN, "not registered", True)


@pytest.mark.parametrize(
    ("cluster", "hosts", "revision", "asked", "verdict"),
    [
        (CLUSTER, [host()], None, [], WaitVerdict.REACHED),
        (CLUSTER, [host(), host("h2", OLD)], None, [], WaitVerdict.WAITING),
        (CLUSTER, [host(), host("h2", OLD)], None, ["app1"], WaitVerdict.REACHED),
        (CLUSTER, [host()], None, ["h9"], WaitVerdict.WAITING),
        (CLUSTER, [host()], REVISION, ["h1", "h9"], WaitVerdict.WAITING),
        (CLUSTER, [], None, [], WaitVerdict.WAITING),
        (CLUSTER, [], REVISION, [], WaitVerdict.WAITING),
        (None, [], None, [], WaitVerdict.WAITING),
        (Cluster(INITIAL), [host(version=INITIAL)], None, [], WaitVerdict.WAITING),
        (Cluster(INITIAL), [host(version=INITIAL)], None, ["h1"], WaitVerdict.WAITING),
        (Cluster(INITIAL), [host(version=INITIAL)], INITIAL, [], WaitVerdict.REACHED),
        (Cluster(None), [host(version=OLD)], None, [], WaitVerdict.STOPPED),
        (Cluster(None), [host(version=OLD)], REVISION, [], WaitVerdict.STOPPED),
        (Cluster(None), [host()], None, [], WaitVerdict.STOPPED),
        (Cluster(None), [host()], REVISION, [], WaitVerdict.REACHED),
        (Cluster(None), [host(error="hook failed")], REVISION, [], WaitVerdict.STOPPED),
        (Cluster(False), [host(version=OLD)], None, [], WaitVerdict.WAITING),
        (Cluster(OLD, importing=REVISION), [host()], None, [], WaitVerdict.WAITING),
        (Cluster(OLD), [host(version=OLD)], REVISION, [], WaitVerdict.WAITING),
        (CLUSTER, [host(deploying=OLD)], REVISION, [], WaitVerdict.REACHED),
        (CLUSTER, [host()], REVISION[:7], [], WaitVerdict.REACHED),
        (CLUSTER, [host()], REVISION[:6], [], WaitVerdict.WAITING),
        (CLUSTER, [host()], "0123456 ", [], WaitVerdict.WAITING),
        (Cluster(1112), [host(version=1112)], "1112", [], WaitVerdict.REACHED),
        (Cluster(1112), [host(version=1112)], 1112, [], WaitVerdict.REACHED),
        (Cluster(12345678), [host(version=12345678)], "1234567", [], WaitVerdict.WAITING),
        (CLUSTER, [host(version=None)], "None", [], WaitVerdict.WAITING),
    ],
)
def test_a_wait_is_over_when_the_revision_is_reached_or_the_fleet_is_stopped(
    cluster, hosts, revision, asked, verdict
):
    assert wait_verdict(fleet_status(cluster, hosts), revision, asked) is verdict


@pytest.mark.parametrize(
    ("hosts", "retry", "asked", "verdict"),
    [
        ([host(error="boom"), host("h2", OLD)], None, [], WaitVerdict.STOPPED),
        ([host(error="boom"), host("h2", OLD)], Retry("h1", REVISION), ["h1"], WaitVerdict.WAITING),
        ([host(error="boom"), host("h2", OLD)], Retry("h1", REVISION), ["h2"], WaitVerdict.STOPPED),
        ([host(), host("h2", OLD)], Retry("h1", REVISION, succeeded=True), ["h1"], WaitVerdict.REACHED),
        ([host(), host("h2", OLD)], Retry("h1", REVISION, succeeded=True), [], WaitVerdict.WAITING),
        ([host(), host("h2", OLD)], None, ["h2"], WaitVerdict.WAITING),
    ],
)
def test_a_wait_goes_on_during_a_retry_and_after_the_failure_is_repaired(hosts, retry, asked, verdict):
    stop = Stop("h1", "app1", REVISION, "deploy /web 0", "boom", 1.0)
    status = fleet_status(Cluster(None, retry=retry), hosts, [stop], published=REVISION)
    assert wait_verdict(status, None, asked) is verdict
    is_repaired = hosts[0].error is None
    assert [str(stop).startswith("app1 (h1) is repaired: it failed at") for stop in status.stops] == [is_repaired]


@pytest.mark.parametrize(
    ("wanted", "revision", "verdict"),
    [
        (OLD, REVISION, WaitVerdict.REFUSED),
        (OLD, REVISION[:8], WaitVerdict.REFUSED),
        (OLD, "c" * 40, WaitVerdict.WAITING),
        (OLD, None, WaitVerdict.WAITING),
        (REVISION, REVISION, WaitVerdict.WAITING),  # accepted meanwhile
    ],
)
def test_a_wait_for_a_revision_that_the_syncer_refuses_is_over(wanted, revision, verdict):
    snapshot = FleetSnapshot(
        Cluster(wanted), wanted, hosts=(host(version="r0"),), refusal=Refusal(REVISION, ("wrong",))
    )
    assert wait_verdict(judge(snapshot), revision) is verdict


def results(*errors):
    """The result of each host: its error, or none."""
    ids = [f"h{number}" for number in range(1, len(errors) + 1)]
    return {name: HostResult(name, name, 8.0, 1.0, error) for name, error in zip(ids, errors, strict=True)}


@pytest.mark.parametrize(
    ("former", "asked", "verdict"),
    [
        ({"hosts": 2, "results": results(None, None)}, [], WaitVerdict.REACHED),
        ({"hosts": 2, "left_out": 2}, ["app2"], WaitVerdict.REACHED),
        ({"hosts": 2, "since": 10}, [], WaitVerdict.REACHED),
        ({"hosts": 2, "results": results(None)}, [], WaitVerdict.PASSED),
        ({"hosts": 2, "results": results(None)}, ["app1"], WaitVerdict.REACHED),
        ({"hosts": 2, "results": results(None)}, ["app2"], WaitVerdict.PASSED),
        ({"hosts": 2, "results": results(None, "boom")}, ["app1"], WaitVerdict.REACHED),
        ({"hosts": 2, "results": results(None, "boom")}, [], WaitVerdict.PASSED),
        ({"sequence": 12, "hosts": 2, "results": results(None)}, [], WaitVerdict.WAITING),
    ],
)
def test_a_wait_for_a_revision_that_a_later_publication_followed_is_over(former, asked, verdict):
    hosts = [host("h1"), host("h2")]
    status = fleet_status(CLUSTER, hosts, names=asked, published=REVISION, publication=PUBLICATION)
    record = replace(PublicationRecord(OLD, 5.0, sequence=11), **former)
    assert wait_verdict(status, OLD[:8], asked, [PUBLICATION, record]) is verdict
    assert wait_verdict(status, OLD[:8], asked, [PUBLICATION]) is WaitVerdict.WAITING
    assert wait_verdict(replace(status, publication=None), OLD, asked, [record]) is WaitVerdict.WAITING


def test_revisions_are_cut_for_reading_when_they_are_commit_ids():
    assert short(REVISION) == REVISION[:12]
    assert short(1112) == "1112"
    assert short("initial") == "initial"


GONE = make_known_host(7, role="web", time=5.0)


@pytest.mark.parametrize(
    ("targets", "expected"), [({"h7"}, True), ({"app7"}, True), ({"web"}, True), ({"h1"}, False)]
)
def test_an_absent_host_is_shown_and_counts_when_a_published_target_means_it(targets, expected):
    status = fleet_status(CLUSTER, [host()], absent=(GONE,), targets=frozenset(targets))
    assert states(status) == {"h1": HostState.CONVERGED, "h7": HostState.ABSENT}
    assert (status.hosts[1].since, status.hosts[1].version) == (None, None)
    assert status.hosts[1].expected is expected
    assert status.converged is not expected
    assert status.summary == "2 hosts: 1 converged at 0123456789ab, 1 absent"
    assert wait_verdict(status, REVISION) is (WaitVerdict.WAITING if expected else WaitVerdict.REACHED)


@pytest.mark.parametrize(
    ("disappeared", "since"), [({"h7": 9.0}, 9.0), ({"h7": None}, None), ({"h8": 9.0}, None), ({"h7": 4.0}, None)]
)
def test_an_absent_host_shows_its_last_version_and_since_when_it_is_absent(disappeared, since):
    gone = replace(GONE, completed=12)  # it reported its inventory at 5.0: an earlier absence ended
    found = fleet_status(CLUSTER, [], absent=(gone,), disappeared=disappeared, completed={12: REVISION})
    assert (found.hosts[0].version, found.hosts[0].since) == (REVISION, since)
    assert (
        fleet_status(CLUSTER, [], absent=(gone,)).hosts[0].version is None
    )  # the history does not go back so far


def test_an_absent_host_has_not_reached_the_revision_that_it_had():
    gone = replace(GONE, completed=12)
    targets, completed = frozenset({"h7"}), {12: REVISION}
    status = fleet_status(CLUSTER, [host()], absent=(gone,), targets=targets, completed=completed)
    assert wait_verdict(status, REVISION) is WaitVerdict.WAITING
    assert wait_verdict(status, REVISION, hosts=["h7"]) is WaitVerdict.WAITING


@pytest.mark.parametrize(
    ("hosts", "targets", "unserved"),
    [
        ([host(role="web")], {"h1", "app1", "web"}, ()),
        ([host()], {"app1", "app9", "db"}, ("app9", "db")),
        ([host(idle_role="spare")], {"db", "app9.example.com"}, ("app9.example.com",)),
        ([], {"app1"}, ("app1",)),
    ],
)
def test_a_fleet_is_not_converged_while_no_host_serves_a_target_of_the_tree(hosts, targets, unserved):
    status = fleet_status(CLUSTER, hosts, targets=frozenset(targets))
    assert status.unserved == unserved
    assert status.converged is (bool(hosts) and not unserved and hosts[0].idle_role is None)
    assert describe_unserved(status.unserved) == (
        [f"no host runs what the tree deploys to {', '.join(unserved)}"] if unserved else []
    )
    assert fleet_status(CLUSTER, [host("h5")], targets=frozenset(targets), names=["h5"]).converged


def test_a_target_to_which_only_a_controller_or_no_instance_is_deployed_needs_no_host():
    targets = {
        "/roles/db": (controller_of_role("/roles/db"),),
        "app8": (foo_assignment(n=0),),
        "app9": (foo_assignment(),),
        "/system/db2": (Assignment("/os", 0, "", "", system=WantedSystem("/os", "2026-11")),),
    }
    snapshot = FleetSnapshot(CLUSTER, hosts=(host(),), targets=frozenset({"db", "app8", "app9", "db2"}))
    assert judge(snapshot, services=ServicesSnapshot(targets)).unserved == ("app9", "db2")


def test_a_fleet_of_which_all_hosts_are_in_maintenance_is_converged():
    maintenance = {"h1": Maintenance("h1", "ann", "new disk", 1.0)}
    status = fleet_status(CLUSTER, [host(version=OLD)], maintenance=maintenance)
    assert status.converged
    assert wait_verdict(status, REVISION) is WaitVerdict.REACHED
    assert wait_verdict(status, "e" * 40) is WaitVerdict.WAITING  # not published yet


def test_an_absent_host_whose_name_another_host_has_was_replaced():
    absent = (KnownHost(Identity("old", "app1")),)
    assert fleet_status(CLUSTER, [host("h1")], absent=absent, targets=frozenset({"app1"})).converged
    assert not fleet_status(CLUSTER, [host("h1")], absent=absent, targets=frozenset({"old"})).converged


def test_an_absent_host_that_was_asked_for_counts():
    status = fleet_status(CLUSTER, [host("h1")], absent=(GONE,), names=["app7"])
    assert states(status) == {"h7": HostState.ABSENT}
    assert not status.converged
    assert wait_verdict(status, REVISION, ["h7"]) is WaitVerdict.WAITING


def ruled(rollout, *hosts, coordinator="ops1 (process 7)"):
    return judge(
        FleetSnapshot(
            Cluster("r2"),
            "r2",
            hosts=hosts,
            strategy="deployment-strategy",
            governed=True,
            rollout=rollout,
            coordinator=coordinator,
        )
    )


@pytest.mark.parametrize(
    ("rollout", "coordinator", "message"),
    [
        (begun_rollout(), "ops1", "rollout 7-1: 0 of 5 groups succeeded"),
        (
            begun_rollout(),
            None,
            "rollout 7-1: no coordinator runs, so the rollout does not continue; 0 of 5 groups succeeded",
        ),
        (None, "ops1", "the rollout by deployment-strategy has not begun; ops1 is the coordinator"),
        (None, None, "the rollout by deployment-strategy has not begun; no coordinator runs"),
        pytest.param(
            ended_rollout(advanced_rollout(begun_rollout(), "ctl1", "ctl2")),
            None,
            "another attempt of the rollout 7-1 by deployment-strategy has not begun; no coordinator runs",
            id="it failed, and somebody resumed",
        ),
    ],
)
def test_a_fleet_under_a_strategy_shows_the_state_of_its_rollout(rollout, coordinator, message):
    status = ruled(rollout, coordinator=coordinator)
    assert status.rollout == message
    assert status.to_json()["rollout"] == message


@pytest.mark.parametrize(
    ("rollout", "verdict"),
    [
        pytest.param(begun_rollout(), WaitVerdict.WAITING, id="under way"),
        pytest.param(
            ended_rollout(advanced_rollout(begun_rollout(), "two1")), WaitVerdict.STOPPED, id="over, with failures"
        ),
        pytest.param(
            ended_rollout(advanced_rollout(begun_rollout())),
            WaitVerdict.WAITING,
            id="over: who is late still comes",
        ),
        pytest.param(
            ended_rollout(advanced_rollout(begun_rollout(), "ctl1", "ctl2")),
            WaitVerdict.WAITING,
            id="failed, and resumed since",
        ),
        pytest.param(
            ended_rollout(begun_rollout(), Ending.ABORTED), WaitVerdict.WAITING, id="aborted, and resumed since"
        ),
    ],
)
def test_a_wait_ends_with_a_rollout_that_does_not_bring_the_revision_to_all(rollout, verdict):
    late = Host(Identity("two1", "app1"), "r1", tags=("compute",), rack="rack02")
    assert wait_verdict(ruled(rollout, late)) is verdict


HAS = make_host("a", "r2")
IN_NO_GROUP = make_host("z", "r1", deploying="r2", step="waits to prepare: not its turn")
ONE_GROUP = begun_rollout(strategy(group("one", hosts="a")), plain_hosts("az"))
DONE = ended_rollout(advanced_rollout(ONE_GROUP))


def test_a_host_in_no_group_does_not_count():
    status = ruled(DONE, HAS, IN_NO_GROUP)
    assert states(status) == {"a": HostState.CONVERGED, "z": HostState.EXCLUDED}
    assert [row.expected for row in status.hosts] == [True, False]
    assert status.summary == "2 hosts: 1 converged at r2, 1 excluded"
    assert status.converged
    assert wait_verdict(status) is WaitVerdict.REACHED
    assert wait_verdict(status, "r2") is WaitVerdict.REACHED


def test_a_host_in_no_group_that_begins_is_not_awaited_until_it_runs_a_step():
    begins = replace(IN_NO_GROUP, step=None)
    assert states(ruled(DONE, HAS, begins))["z"] is HostState.EXCLUDED
    assert states(ruled(DONE, HAS, replace(begins, step="deploy /a 0")))["z"] is HostState.DEPLOYING


def test_an_absent_host_in_no_group_does_not_count():
    absent = (make_known_host("z"), make_known_host("a"))
    targets = frozenset({"a", "z"})
    snapshot = FleetSnapshot(Cluster("r2"), "r2", absent=absent, targets=targets, governed=True, rollout=DONE)
    assert [(row.id, row.expected) for row in judge(snapshot).hosts] == [("a", True), ("z", False)]


def test_a_strategy_without_a_host_in_any_group_is_converged():
    assert ruled(ended_rollout(begun_rollout(strategy(), plain_hosts("z"))), IN_NO_GROUP).converged
    assert (
        wait_verdict(ruled(ended_rollout(begun_rollout(strategy(), plain_hosts("z"))), IN_NO_GROUP))
        is WaitVerdict.REACHED
    )


def test_a_wait_for_a_host_in_no_group_ends():
    assert wait_verdict(ruled(DONE, HAS, IN_NO_GROUP), "r2", ["z"]) is WaitVerdict.STOPPED
    assert wait_verdict(ruled(DONE, HAS, IN_NO_GROUP), None, ["z"]) is WaitVerdict.STOPPED


def test_a_host_that_came_after_its_group_was_judged_counts():
    late = make_host("c", "r1")
    state = ended_rollout(advanced_rollout(begun_rollout(strategy(group("one", hosts="ac")), plain_hosts("a"))))
    assert states(ruled(state, HAS, late)) == {"a": HostState.CONVERGED, "c": HostState.BEHIND}
    over = "rollout 7-1: success: 1 of 1 groups succeeded"
    assert [ruled(state, HAS, late, coordinator=leader).rollout for leader in ("ops1", None)] == [
        over,
        f"{over}; no coordinator runs",
    ]
    assert ruled(state, HAS, coordinator=None).rollout == over


def test_a_version_that_was_set_by_hand_is_for_all_hosts():
    by_hand = FleetSnapshot(Cluster("r3"), "r2", hosts=(HAS, IN_NO_GROUP), strategy="s", rollout=DONE)
    assert states(judge(by_hand)) == {"a": HostState.BEHIND, "z": HostState.BEHIND}


def test_a_stop_does_not_bring_hosts_in_no_group_back():
    stopped = FleetSnapshot(Cluster(None), "r2", hosts=(HAS, IN_NO_GROUP), strategy="s", rollout=DONE)
    assert states(judge(stopped)) == {"a": HostState.CONVERGED, "z": HostState.EXCLUDED}


ORDERED = Published("r2", sequence=7, strategy="deployment-strategy", ordered="r2")
BAKING = active_rollout(ONE_GROUP, done="a", baking=5.0)


FAILED = ended_rollout(
    advanced_rollout(begun_rollout(strategy(group("one", critical=True, maximum_failed=0)), plain_hosts("a")), "a")
)


@pytest.mark.parametrize("rollout", [BAKING, ended_rollout(ONE_GROUP, Ending.ABORTED), FAILED])
def test_a_fleet_whose_rollout_is_not_completed_is_not_converged_though_all_hosts_have_the_revision(
    rollout,
):
    status = ruled(rollout, HAS)
    assert not status.converged
    assert not is_converged(PublicationSnapshot(Cluster("r2"), ORDERED, hosts=(HAS,), rollout=rollout))
    assert wait_verdict(status) is WaitVerdict.WAITING
    assert wait_verdict(status, "r2") is WaitVerdict.WAITING
    assert wait_verdict(status, "r2", ["a"]) is WaitVerdict.REACHED
    assert judge(
        FleetSnapshot(Cluster("r2"), "r2", hosts=(HAS,), governed=True, rollout=rollout), names=["a"]
    ).converged


def test_a_fleet_whose_rollout_is_completed_is_converged():
    status = ruled(DONE, HAS)
    assert status.converged
    assert is_converged(PublicationSnapshot(Cluster("r2"), ORDERED, hosts=(HAS,), rollout=DONE))
    assert wait_verdict(status, "r2") is WaitVerdict.REACHED


def test_a_fleet_that_has_the_revision_waits_for_no_rollout():
    assert ruled(None, HAS).converged
    assert not ruled(None, HAS, IN_NO_GROUP).converged


def test_a_selector_that_matches_no_known_host_is_warned_of_while_its_strategy_governs():
    rollout = begun_rollout(
        strategy(group("x", hosts="a"), group("y", hosts="z")), plain_hosts("a"), revision=REVISION
    )
    snapshot = FleetSnapshot(
        CLUSTER, hosts=(host("b"),), absent=(KnownHost(Identity("a", "a")),), rollout=rollout, governed=True
    )
    (warning,) = judge(snapshot).warnings
    assert warning.startswith("selector 1 of group y matches no known host (node_names z)")
    assert judge(replace(snapshot, governed=False)).warnings == ()
