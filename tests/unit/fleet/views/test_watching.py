from support.builders import make_host, make_known_host
from zkdeployment.base.act import Act, Decision, DecisionForm
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.stop import GroupStop, Stop
from zkdeployment.fleet.daemon_failures import DaemonFailure
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status, most_important_hosts, status_changes
from zkdeployment.publishing.records import Refusal

RUNNING = Cluster("r2")
NOW = 1000.0


def host(number, version="r2", **fields):
    return make_host(number, version, **fields)


def status(*hosts, cluster=RUNNING, **more):
    return fleet_status(FleetSnapshot(cluster, published="r2", hosts=hosts, **more))


def test_the_most_urgent_hosts_are_shown_first_and_the_rest_is_counted():
    fleet = status(
        host(1),
        host(2),
        host(3, "r1"),
        host(4, "r1", deploying="r2"),
        host(5, "r1", error="no foo"),
        absent=(make_known_host(6), make_known_host(7)),
        targets=frozenset({"h7"}),
    )
    rows, rest = most_important_hosts(fleet, 4)
    assert [row.id for row in rows] == ["h5", "h4", "h3", "h7"]
    assert rest == "and 1 absent, 2 converged"
    rows, rest = most_important_hosts(fleet, 99)
    assert [row.id for row in rows] == ["h5", "h4", "h3", "h7", "h1", "h2", "h6"]
    assert rest == ""


def test_the_first_output_lists_the_problems():
    fleet = status(host(1), host(2, "r1", error="no foo"), host(3, None))
    assert list(status_changes(None, fleet, NOW)) == ["app2: failed: no foo", "app3: behind", fleet.summary]


def test_changes_of_the_status_are_printed_line_by_line():
    stop = Stop.of_operator(Act("ann@adm1", "stop", "it smells", 1.0))
    first = status(host(1), host(2, "r1", deploying="r2", step="plan", steps=(0, 3)), host(3))
    two = status(host(1), host(2), cluster=Cluster(None), stops=(stop,))
    assert list(status_changes(first, first, NOW)) == []
    assert list(status_changes(first, two, NOW)) == [
        "stopped by ann@adm1: it smells",
        "app2: converged at r2",
        "app3: gone",
        "ALL STOP; 2 hosts: 2 converged at r2; running services continue",
    ]
    assert list(status_changes(two, first, NOW)) == [
        "app2: deploying 0/3 plan",
        "app3: converged at r2",
        first.summary,
    ]


def test_a_decision_that_becomes_due_is_printed_once():
    due = Decision("intent shop", "it is not approved", 1.0, "approve shop", DecisionForm("approve", "Approve"))
    before, after = status(host(1)), status(host(1), decisions=(due,))

    assert list(status_changes(before, after, NOW)) == [str(due)]
    assert list(status_changes(after, after, NOW)) == []


def test_problems_without_a_failed_host_are_printed_once():
    stop = GroupStop("p1/store/v1/shop", 7, Stop("h1", "app1", "r2", "deploy /a 0", "boom", NOW - 60))
    failure = DaemonFailure("syncer", "sync1 (7)", "no space", NOW - 60)
    before = status(host(1))
    after = status(
        host(1), group_stops=(stop,), refusal=Refusal("r3", ("a.zk:2:1: nonsense",), NOW), failures=(failure,)
    )

    found = list(status_changes(before, after, NOW))
    assert [line.partition(",")[0].partition(":")[0] for line in found] == [
        "the tip r3 is refused",
        "group p1/store/v1/shop is stopped",
        "the syncer sync1 (7) has failed in each cycle for 1 min",
    ]
    assert list(status_changes(after, after, NOW + 60)) == []
