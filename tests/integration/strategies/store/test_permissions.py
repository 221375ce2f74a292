"""The permissions that an agent reads from a rollout, and the reports that it writes."""

import threading

import pytest

from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.host import Host, Identity
from zkdeployment.strategies.permission import Grant, Permission, Phase, PhaseReport
from zkdeployment.strategies.store.agent_records import encode_grant
from zkdeployment.zookeeper.transactions import Create, Delete, Set

WEB1 = Identity(id="rack:1", name="web1.example.com")
HOST = Host(WEB1, version="abc")
ROLLOUT = "/zkdeployment/rollouts/7-1"
GRANT = f"{ROLLOUT}/grants/rack%3A1"
PREPARE = Grant("web", Phase.PREPARE)


@pytest.fixture
def fleet(session):
    return ZooKeeperFleet(session, patience=0.3)


@pytest.fixture
def rollout(session):
    session.ensure("/zkdeployment/rollouts")
    session.commit(Set("/zkdeployment/rollouts", b'{"current": "7-1"}'))
    for name in ("grants", "reports"):
        session.ensure(f"{ROLLOUT}/{name}")


def test_no_phase_is_permitted_without_a_rollout_of_the_publication(fleet, session):
    assert fleet.permission(7, WEB1) == Permission()
    session.ensure("/zkdeployment/rollouts")
    for current in (b"", b'{"current": "6-1"}', b'{"current": "77-1"}', b'{"current": 7}'):
        session.commit(Set("/zkdeployment/rollouts", current))
        assert fleet.permission(7, WEB1) == Permission()


@pytest.mark.usefixtures("rollout")
def test_a_permission_has_the_grant_and_the_reports(fleet, session):
    assert fleet.permission(7, WEB1) == Permission("7-1")
    session.commit(Create(GRANT, encode_grant(PREPARE)))
    fleet.report_phase("7-1", Phase.PREPARE, HOST, PhaseReport(5.0, "it fell"))
    permission = fleet.permission(7, WEB1)
    assert permission == Permission("7-1", PREPARE, {Phase.PREPARE: PhaseReport(5.0, "it fell")})
    assert (permission.allows(Phase.PREPARE), permission.allows(Phase.DEPLOY), permission.failure) == (
        True,
        False,
        "it fell",
    )


@pytest.mark.usefixtures("rollout")
@pytest.mark.parametrize("change", ["grant", "withdrawal", "attempt"])
def test_a_reader_of_a_permission_is_notified_of_its_change(fleet, session, change):
    notified = threading.Event()
    if change == "withdrawal":
        session.commit(Create(GRANT, encode_grant(PREPARE)))
    for _ in range(3):
        fleet.permission(7, WEB1, notified.set)
    assert not notified.is_set()
    match change:
        case "grant":
            session.commit(Create(GRANT, encode_grant(PREPARE)))
        case "withdrawal":
            session.commit(Delete(GRANT))
        case _:
            session.commit(Set("/zkdeployment/rollouts", b'{"current": "7-2"}'))
    assert notified.wait()


@pytest.mark.usefixtures("rollout")
def test_a_report_is_written_once_together_with_the_hosts_node(fleet, session):
    fleet.register(HOST)
    fleet.report_phase("7-1", Phase.DEPLOY, Host(WEB1, error="it fell"), PhaseReport(5.0, "it fell"))
    report, host = session.get_many([f"{ROLLOUT}/reports/deploy:rack%3A1", "/hosts/rack:1"])
    assert report is not None
    assert host is not None
    assert (report.born, host.properties["error"]) == (host.changed, "it fell")
    fleet.report_phase("7-1", Phase.DEPLOY, HOST, PhaseReport(6.0))
    assert fleet.permission(7, WEB1).reports == {Phase.DEPLOY: PhaseReport(5.0, "it fell")}


def test_a_removed_rollout_gets_no_report_but_the_hosts_node_has_the_error(fleet, session):
    fleet.register(HOST)
    fleet.report_phase("7-1", Phase.DEPLOY, Host(WEB1, error="it fell"), PhaseReport(5.0, "it fell"))
    assert session.children("/zkdeployment/rollouts") is None
    assert session.get("/hosts/rack:1").properties["error"] == "it fell"
