"""Problems come first on the front page: stops, failures, absences, locks without a holder, requests."""

from dataclasses import replace

from support.builders import make_host, make_known_host
from zkdeployment.base.act import Act, Maintenance
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.lock import Contender, Lock, LockKind
from zkdeployment.base.stop import Stop
from zkdeployment.fleet.daemon_failures import DaemonFailure
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.publishing.records import PublicationRequest
from zkdeployment.service.views.fleet import fleet_problems

NOW = 10_000.0
STOP = Stop("h1", "h1.example.com", "r2", "deploy /shop/web 0", "exit status 1", 9_990.0)


def host(number, **fields):
    return make_host(f"h{number}", "r2", since=9_900.0, **fields)


def problems(cluster=None, hosts=(), locks=(), **fields):
    snapshot = FleetSnapshot(cluster or Cluster("r2"), published="r2", hosts=tuple(hosts), **fields)
    return fleet_problems(snapshot, fleet_status(snapshot), locks, NOW)


def test_a_fleet_as_wanted_has_no_problems():
    assert problems(hosts=[host(1)]) == ()


def test_a_daemon_that_fails_in_each_cycle_is_a_problem_with_its_error():
    failure = DaemonFailure("syncer", "adm1 (process 7)", "KeyError: 'topdir'", NOW - 60)
    (problem,) = problems(hosts=[host(1)], failures=(failure,))
    assert problem.title == "The syncer adm1 (process 7) fails in each cycle"
    assert (problem.detail, problem.severe, problem.at.age) == ("KeyError: 'topdir'", True, "1 min ago")


def test_the_failure_of_a_host_in_maintenance_is_no_problem():
    maintenance = {"h1": Maintenance("h1", "ann", "new disk", 1.0)}
    assert problems(hosts=[host(1, error="no space"), host(2)], maintenance=maintenance) == ()


def test_hosts_that_failed_in_the_same_way_share_a_problem():
    stops = tuple(replace(STOP, host_id=f"h{n}", host_name=f"h{n}.example.com") for n in range(7))

    (problem,) = problems(Cluster(None), stops=stops)

    assert problem.title == "7 hosts failed at deploy /shop/web 0 of r2"
    assert problem.summary == "7 hosts, same error, first at 02:46:30"
    assert (problem.detail, problem.more, problem.severe) == ("exit status 1", 3, True)
    assert problem.hosts[0].href == "/hosts/h0"
    assert problem.href == "/?state=failed"
    assert problem.at is not None
    assert problem.at.age == "10 s ago"


def test_an_operators_stop_names_its_author_and_reason():
    act = Act("ann", "hold", "the switch is replaced", 9_940.0)

    (problem,) = problems(Cluster(False), stops=(Stop.of_operator(act),))

    assert (problem.title, problem.detail, problem.severe) == ("Held by ann", "the switch is replaced", False)


def test_stops_and_failures_of_many_kinds_are_summed_up():
    stops = tuple(replace(STOP, host_id=f"h{n}", reason=f"reason {n}") for n in range(8))
    hosts = [host(n, error=f"error {n}") for n in range(20, 28)]

    found = problems(Cluster(None), hosts, stops=stops)

    assert [problem.title for problem in found if "more" in problem.title] == [
        "11 more hosts failed in other ways"
    ]
    assert len([problem for problem in found if problem.summary]) == 5


def test_failures_without_a_stop_are_shown_once():
    failed = [host(1, error="boom"), host(2, error="boom"), host(3)]

    (problem,) = problems(hosts=failed)

    assert (problem.title, problem.detail, len(problem.hosts)) == ("2 hosts failed", "boom", 2)


def test_absent_hosts_are_a_problem_only_if_the_tree_deploys_to_them():
    known = tuple(make_known_host(name) for name in ("h7", "h8"))

    (problem,) = problems(hosts=[host(1)], absent=known, targets=frozenset({"h7"}))

    assert (problem.title, [link.name for link in problem.hosts]) == ("1 host absent", ["h7.example.com"])


def test_a_role_lock_of_an_absent_holder_is_a_problem():
    contender = Contender("h9.example.com (h9)", 9_000.0, "/role-locks/web/lr-1", "h9")

    (problem,) = problems(hosts=[host(1)], locks=[Lock(LockKind.ROLE, "web", "/role-locks/web", (contender,))])

    assert problem.title == "The lock of role web is held by a host that is not registered"
    assert problem.href == "/locks"


def test_a_refused_request_for_a_publication_is_shown():
    request = PublicationRequest("1", "ann", "the fix", 9_990.0, error="the tree has errors", written=9_990.0)

    (problem,) = problems(Cluster(None), request=request)[-1:]

    assert problem.title == "A requested publication was refused"
    assert "the tree has errors" in problem.detail
