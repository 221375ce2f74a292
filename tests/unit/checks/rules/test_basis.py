"""The basis of check instances: the reports of hosts, and the properties of services."""

from support.builders import make_host
from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.host import Facts, Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.checks.rules.spawning import CheckedHost, checked_hosts, service_paths, service_properties

FRONT = Deployment("/p1/front", 0)


def known(host_id, name=None, **values):
    inventory = Inventory(markers=(Marker(FRONT, "front"),))
    return KnownHost(Identity(host_id, name or f"{host_id}.example.com"), inventory, **values)


def test_registered_and_absent_hosts_are_known():
    registered = make_host("host1", "r1", "web", sequence=7, tags=("edge",))
    found = checked_hosts([registered], [known("host1"), known("host2", rack="r2")])
    assert found == {
        "host1": CheckedHost(
            Identity("host1", "host1.example.com", "web"),
            "host1.example.com",
            Facts(tags=frozenset({"edge"}), name="host1.example.com"),
            frozenset({FRONT}),
            completed=7,
        ),
        "host2": CheckedHost(
            Identity("host2", "host2.example.com"),
            "host2.example.com",
            Facts(rack="r2", name="host2.example.com"),
            frozenset({FRONT}),
        ),
    }


def test_a_host_that_came_back_with_another_id_is_not_absent_too():
    registered = Host(Identity("new", "app1.example.com"))
    assert list(checked_hosts([registered], [known("old", "app1.example.com")])) == ["new"]


def test_a_host_has_reported_a_deployment_when_it_completed_the_publication():
    host = CheckedHost(Identity("host1", "host1"), "host1", Facts(), frozenset({FRONT}), completed=5)
    assert host.has_reported(FRONT, 5)
    assert host.has_reported(FRONT, 4)
    assert not host.has_reported(FRONT, 6)
    assert not host.has_reported(Deployment("/p1/front", 1), 5)


def test_a_host_in_the_middle_of_a_deployment_completed_nothing():
    registered = make_host("host1", None, sequence=7)
    assert checked_hosts([registered], [known("host1")])["host1"].completed == 0


def test_properties_have_the_values_that_links_lead_to():
    nodes = {
        "/p1/front": {
            "port": 80,
            "tier =>": "/texts tier",
            "port =>": "/texts x",
            "broken =>": "/no",
            "a ->": "/x",
        },
        "/texts": {"tier": "web", "x": 1},
    }
    assert service_properties(nodes.get, ["/p1/front", "/p1/back"]) == {"/p1/front": {"port": 80, "tier": "web"}}


def test_services_are_those_of_targets_but_not_controllers_of_roles():
    targets = {
        "host1": (Assignment("/p1/front", 1, "front", "front"),),
        "/roles/web": (Assignment("/roles/web", 1, "web", "web"),),
    }
    assert service_paths(targets) == {"/p1/front"}
