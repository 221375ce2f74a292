from support.builders import make_host
from zkdeployment.base.cluster import Cluster
from zkdeployment.fleet.explanations.explanation import Cause
from zkdeployment.fleet.explanations.host import HostSnapshot, explain_host
from zkdeployment.fleet.views.snapshot import FleetSnapshot

NOW = 10_000.0
WAITING = make_host(1, "r1", deploying="r2", step="waits for /shop/db on app3 and 2 other hosts", since=NOW - 30)


def explain(*others):
    snapshot = FleetSnapshot(cluster=Cluster("r2"), published="r2", changed=NOW - 60, hosts=(WAITING, *others))
    return explain_host(HostSnapshot(snapshot), "h1", now=NOW)


def app3(**fields):
    return make_host(3, "r1", **fields)


def test_a_host_that_waits_for_a_service_names_it_and_the_step_of_the_awaited_host():
    explanation = explain(app3(deploying="r2", step="deploy /shop/db 0", since=NOW - 20))
    assert explanation.cause is Cause.ORDER
    assert explanation.sentence == (
        "app1 (h1) waits for /shop/db on app3 and 2 other hosts (last change 30 s ago)."
    )
    assert explanation.facts[0] == "app3 (h3) is at: deploy /shop/db 0, last change 20 s ago"
    assert "'zkdeployment why app3' explains the state of that host" in explanation.advice


def test_an_explanation_names_an_awaited_host_that_has_failed_has_not_begun_or_is_absent():
    assert explain(app3(error="boom")).facts[0] == "app3 (h3) failed: boom"
    assert explain(app3()).facts[0] == "app3 (h3) has not begun to deploy"
    assert explain().facts[0].startswith("app3 is not registered; it is to gain /shop/db")
