"""Reports of the fleet, combined from hosts' nodes, inventories, results and providers."""

from zkdeployment.base.deployment import Deployment, DeploymentFailure, HostResult
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.intents.rules.reality import RecordedDeployment, fleet_reports

WEB = Identity("w1", "w1.example.com", "web")
FRONT = Deployment("/p1/front", 0)
MARKERS = Inventory(markers=(Marker(FRONT, "front", "front", version="2.0", sequence=7),))
FAILURE = DeploymentFailure(8, "deploy /p1/front 0", "/p1/front", 0)
FAILED = HostResult("w1", "w1.example.com", 90.0, 1.0, "exit status 1", FAILURE)


def report(host=None, known=None, result=None):
    """Return the report of the only host."""
    fleet = fleet_reports(
        [] if host is None else [host],
        [] if known is None else [known],
        {} if result is None else {result.host_id: result},
        {},
    )
    (reported,) = fleet.hosts.by_id.values()
    return reported


def test_a_registered_host_has_the_markers_of_its_inventory_and_the_facts_of_its_node():
    host = Host(WEB, version="r1", sequence=7, address="192.0.2.1", rack="r1", tags=("ssd",), step="done")
    found = report(host, KnownHost(WEB, MARKERS))
    assert found.is_present
    assert found.deployments == {FRONT: RecordedDeployment("front", "2.0", 7)}
    assert (found.completed, found.address, found.step, found.error) == (7, "192.0.2.1", "done", None)
    assert found.facts == {
        "id": "w1",
        "name": "w1.example.com",
        "role": "web",
        "address": "192.0.2.1",
        "rack": "r1",
        "tags": ["ssd"],
    }


def test_a_host_without_an_inventory_or_with_an_unreadable_one_has_unknown_deployments():
    assert report(Host(WEB)).deployments is None
    assert report(Host(WEB), KnownHost(WEB, unknown="it is too large")).deployments is None


def test_a_host_that_is_not_registered_is_absent_with_its_last_inventory():
    found = report(known=KnownHost(WEB, MARKERS, address="192.0.2.1", completed=7))
    assert not found.is_present
    assert (found.deployments, found.completed) == ({FRONT: RecordedDeployment("front", "2.0", 7)}, 7)
    assert found.address == "192.0.2.1"


def test_registered_and_absent_hosts_may_be_in_maintenance():
    absent = KnownHost(Identity("w2", "w2.example.com", "web"), MARKERS)
    fleet = fleet_reports([Host(WEB), Host(Identity("w3", "w3.example.com"))], [absent], {}, {}, {"w1", "w2"})
    assert {name: (host.is_present, host.in_maintenance) for name, host in fleet.hosts.by_id.items()} == {
        "w1": (True, True),
        "w2": (False, True),
        "w3": (True, False),
    }


def test_a_known_host_whose_name_a_registered_host_has_now_is_replaced():
    fleet = fleet_reports([Host(Identity("new", WEB.name))], [KnownHost(WEB, MARKERS)], {}, {})
    assert list(fleet.hosts.by_id) == ["new"]


def test_a_host_keeps_its_last_complete_publication_during_the_next_deployment():
    assert report(Host(WEB, sequence=0, completed=7, deploying="r2")).completed == 7
    assert report(Host(WEB, sequence=9, completed=7)).completed == 9
    assert report(Host(WEB)).completed is None


def test_the_failure_in_a_hosts_node_counts_first():
    found = report(Host(WEB, error="exit status 1", failed=FAILURE), result=FAILED)
    assert (found.failure, found.error, found.step) == (FAILURE, "exit status 1", "deploy /p1/front 0")


def test_the_recorded_failure_counts_after_a_restart_and_for_absent_hosts():
    for found in (
        report(Host(WEB, sequence=0, completed=7), result=FAILED),
        report(known=KnownHost(WEB), result=FAILED),
    ):
        assert (found.failure, found.error, found.step) == (FAILURE, "exit status 1", "deploy /p1/front 0")


def test_a_recorded_failure_does_not_count_during_the_next_attempt_nor_after_its_success():
    assert report(Host(WEB, deploying="r2"), result=FAILED).failure is None
    assert report(Host(WEB, sequence=8), result=FAILED).failure is None
    assert report(known=KnownHost(WEB, completed=8), result=FAILED).failure is None


def test_the_result_of_an_older_agent_has_no_structured_failure():
    found = report(Host(WEB), result=HostResult("w1", "w1", 1.0, 1.0, "boom"))
    assert found.failure is None


def test_providers_name_their_host_and_deployment_if_they_can():
    instances = {
        "w1:80": {"host": "w1", "deployment": "/p1/front 1", "pid": 7},
        "192.0.2.1:81": {"pid": 8},
        "odd": {"host": 5, "deployment": "front", "port": []},
    }
    providers = fleet_reports([], [], {}, {"/p1/front": instances}).providers
    found = {provider.path: provider for provider in providers}
    assert found["/p1/front/providers/w1:80"].host == "w1"
    assert found["/p1/front/providers/w1:80"].deployment == Deployment("/p1/front", 1)
    assert found["/p1/front/providers/192.0.2.1:81"].address == "192.0.2.1"
    for path in ("/p1/front/providers/192.0.2.1:81", "/p1/front/providers/odd"):
        assert (found[path].host, found[path].deployment, found[path].service) == (None, None, "/p1/front")
