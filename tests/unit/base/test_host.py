import pytest

from support.builders import make_host
from zkdeployment.base.act import MAX_REASON_LENGTH, Act, Maintenance, sanitize
from zkdeployment.base.cluster import ClusterState
from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.host import Host, Identity, retry_objection
from zkdeployment.base.stop import COORDINATOR, Stop


def test_host_node_round_trips():
    host = Host(
        Identity("id1", "app1.example.com", "web"),
        version="abc",
        former="ab0",
        error="it broke",
        deploying="def",
        step="deploy /who/myfoo 0",
        steps=(2, 5),
        pid=12,
        tags=("ssd",),
        labels={"site": "ams"},
        rack="rack01",
        sequence=0,
        completed=7,
        failed=DeploymentFailure(8, "deploy /who/myfoo 0", "/who/myfoo", 0),
        address="192.0.2.7",
    )
    assert Host.from_properties("id1", host.properties()) == host


FULL = Identity("h1", "app1.example.com", "web")


@pytest.mark.parametrize(
    ("reported", "remembered", "completed"),
    [
        (FULL, None, FULL),
        (FULL, Identity("h1", "app1.example.net", "web"), FULL),
        (Identity("h1", "app1"), None, None),
        (Identity("h1", "localhost"), None, None),
        (Identity("h1", "app2"), Identity("h1", "app1"), Identity("h1", "app2")),
        (Identity("h1", "app1", "web"), FULL, FULL),
        (Identity("h1", "app1", "db"), FULL, Identity("h1", "app1.example.com", "db")),
        (Identity("h1", "app", "web"), FULL, None),
        (Identity("h1", "localhost", "web"), FULL, None),
        (Identity("h1", "localhost.localdomain", "web"), FULL, None),
        (Identity("h2", "app1", "web"), FULL, None),
    ],
)
def test_a_name_without_a_domain_is_completed_from_memory_or_rejected(reported, remembered, completed):
    assert reported.completed(remembered) == completed


def test_a_new_host_has_its_name_and_no_version():
    assert Host(Identity("id1", "app1")).properties() == {"name": "app1", "version": None}


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {
            "name": 5,
            "version": [],
            "error": {},
            "steps": [1, "x"],
            "pid": "x",
            "tags": "ssd",
            "labels": ["x"],
        },
        {"version": True},
    ],
)
def test_malformed_host_node_reads_as_not_set(properties):
    assert Host.from_properties("id1", properties) == Host(Identity("id1", "id1"))


def test_a_host_is_selected_by_role_name_or_id_without_repetition():
    assert Identity("id1", "app1", "web").target_names == ("web", "app1", "id1")
    assert Identity("app1", "app1").target_names == ("app1",)
    assert str(Identity("id1", "app1")) == "app1 (id1)"


def test_stop_round_trips_and_reads_a_malformed_node_as_unknown():
    stop = Stop("id1", "app1", "abc", "deploy /who/myfoo 0", "script failed", 12.5)
    assert Stop.from_json(stop.to_json()) == stop
    assert Stop.from_json({"revision": [], "time": "x"}) == Stop("?", "?", "?", "?", "?", 0.0)


def test_the_stop_of_an_operator_round_trips_and_has_a_key_of_its_own():
    stop = Stop.of_operator(Act("ann@adm1", "stop", "it smells", 12.5))
    assert Stop.from_json(stop.to_json()) == stop
    assert (str(stop), stop.key, stop.is_hold) == ("stopped by ann@adm1: it smells", "~ann@adm1", False)


def test_an_act_round_trips_and_a_malformed_act_reads_as_unknown():
    act = Act("ann@adm1", "resume", "", 12.5)
    assert Act.from_json(act.to_json()) == act
    assert str(act) == "resume by ann@adm1: no reason given"
    assert Act.from_json({"time": "x"}) == Act("?", "?", "", 0.0)


def test_an_operators_input_becomes_one_printable_line():
    assert sanitize("  a\n\tb \x1b[2J\udcff ") == "a b \\x1b[2J\\udcff"
    assert len(sanitize("x" * 9999)) == MAX_REASON_LENGTH


FAILED = Stop("h1", "h1.example.com", "r2", "deploy /shop/web 0", "exit status 1", 1.0)
ROLLOUT = Stop.of_operator(Act(COORDINATOR, "stop", "a critical group failed", 2.0))
MAINTENANCE = Maintenance("h3", "ann", "a new disk", 1.0)
OPERATOR = Stop.of_operator(Act("ann", "stop", "the network is down", 3.0))


@pytest.mark.parametrize(
    ("host", "stops", "objection"),
    [
        (make_host("h1", "r1", error="exit status 1"), (FAILED,), ""),
        (make_host("h1", "r1", error="exit status 1"), (FAILED, ROLLOUT), ""),
        (make_host("h1", "r1"), (FAILED,), ""),  # its agent was restarted since the failure
        (make_host("h1", "r1"), (FAILED, ROLLOUT), ""),
        (make_host("h1", "r2", error="exit status 1"), (FAILED,), ""),  # it failed when it deployed r2 again
        (make_host("h2", "r1", error="exit status 1"), (FAILED,), ""),  # its rollout tolerated the failure
        (make_host("h1", "r2"), (FAILED,), "it has the published revision"),  # its retry succeeded
        (make_host("h2", "r1"), (FAILED,), "it has not failed"),
        (make_host("h1", "r1", error="exit status 1"), (FAILED, OPERATOR), "stopped by ann: the network is down"),
        (make_host("h1", "r1", error="exit status 1", idle_role="lease:web"), (FAILED,), "leases decide"),
        (
            make_host("h3", "r1", error="exit status 1"),
            (),
            "it is in maintenance by ann",
        ),
        (None, (FAILED,), "its agent is not registered"),
    ],
)
def test_a_failed_host_may_try_again_unless_an_operator_stopped_the_fleet(host, stops, objection):
    found = retry_objection(host, ClusterState.STOPPED, stops, "r2", {"h3": MAINTENANCE})
    assert found.startswith(objection)
    assert bool(found) is bool(objection)


def test_a_host_that_a_fleet_does_not_let_try_again_has_the_reason_that_concerns_it():
    failed = [make_host(name, "r1", error="exit status 1") for name in ("h1", "h3")]
    found = [retry_objection(host, ClusterState.RUNNING, (), "r2", {"h3": MAINTENANCE}) for host in failed]
    assert found[0].startswith("the fleet is running, and single hosts are retried only while it is stopped")
    assert found[1].startswith("it is in maintenance by ann")
    assert found[1].endswith("; end that first: 'zkdeployment uncordon h3'")
