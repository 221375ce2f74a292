"""The pages of services: which hosts run them, and which instances have registered."""

from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.base.system import WantedSystem
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.service.views.service import page_hosts, service_view
from zkdeployment.service.views.services import PAGE_SIZE, find_services, services_view

WEB = Assignment("/shop/web", 2, "shop-web", "shop-web", version="1.3")
CART = Assignment("/shop/cart", 1, "shop-cart", "shop-cart")
GONE = Assignment("/shop/gone", 1, "shop-gone", "shop-gone", version="1")
OFF = Assignment("/shop/off", 0, "shop-off", "shop-off", version="1")
CONTROLLER = Assignment("/roles/web", 1, "web-controller", "web-controller", version="1")
OS = Assignment.of_system(WantedSystem("/shop/os", "2026-11-20"))
TARGETS = {"web": (WEB, OFF), "h3": (CART,), "nobody": (GONE,), "/roles/web": (CONTROLLER,), "/system/web": (OS,)}


def fleet(number=2):
    hosts = [Host(Identity(f"w{n:03}", f"w{n:03}", "web"), "r2" if n else "r1") for n in range(number)]
    hosts.append(Host(Identity("h3", "h3"), "r2", error="boom"))
    return FleetSnapshot(Cluster("r2"), published="r2", hosts=tuple(hosts))


def test_services_are_those_that_the_targets_deploy_those_with_problems_first():
    snapshot = fleet()

    rows = services_view(find_services(snapshot, TARGETS), fleet_status(snapshot)).part.rows

    assert [(row.path, row.hosts, row.version, row.warning) for row in rows] == [
        ("/shop/cart", 1, "any", "1 failed"),
        ("/shop/gone", 0, "", "no known host matches nobody"),
        ("/shop/web", 2, "1.3", ""),
    ]
    assert [(sign.name, count) for sign, count in rows[2].states] == [("behind", 1), ("converged", 1)]


def test_services_are_found_by_path_or_package():
    snapshot = fleet()
    services, status = find_services(snapshot, TARGETS), fleet_status(snapshot)

    assert [row.path for row in services_view(services, status, text="CART").part.rows] == ["/shop/cart"]
    assert services_view(services, status, text="none").part.rows == ()


def test_a_long_list_has_pages_that_keep_the_text():
    targets = {"web": tuple(Assignment(f"/s/n{n:03}", 1, "p-1", "p") for n in range(PAGE_SIZE + 1))}
    snapshot = fleet()
    services, status = find_services(snapshot, targets), fleet_status(snapshot)

    first = services_view(services, status, text="s/n").part
    second = services_view(services, status, text="s/n", page=2).part

    assert (len(first.rows), first.next, first.previous) == (PAGE_SIZE, "/services?text=s%2Fn&page=2", None)
    assert (len(second.rows), second.next, second.previous) == (1, None, "/services?text=s%2Fn")
    assert second.range == "51 to 51 of 51 services"


def test_a_service_shows_its_hosts_with_versions_and_its_instances():
    snapshot = fleet()
    status = fleet_status(snapshot)
    service = find_services(snapshot, TARGETS)["/shop/web"]
    markers = tuple(Marker(Deployment("/shop/web", n), "shop-web", "shop-web", version="1.2") for n in range(2))
    known = [KnownHost(Identity("w000", "w000", "web"), Inventory(markers=markers))]
    hosts = page_hosts(service, status, 1)

    found = service_view(service, status, hosts, known, {"a:80": {"pid": 7}}, {"port": 80, "name": "x"})

    assert [(row.name, row.instances, row.deployed) for row in found.part.rows] == [
        ("w000", "2 instances", "1.2"),
        ("w001", "2 instances", "not reported"),
    ]
    assert [(provider.name, provider.properties) for provider in found.providers] == [("a:80", ("pid = 7",))]
    assert found.properties == ("name = 'x'", "port = 80")


def test_the_hosts_of_a_service_have_pages():
    snapshot = fleet(PAGE_SIZE + 3)
    status = fleet_status(snapshot)
    service = find_services(snapshot, TARGETS)["/shop/web"]
    hosts = page_hosts(service, status, 2)

    found = service_view(service, status, hosts, (), {}, {}).part

    assert (len(found.rows), found.range) == (3, "51 to 53 of 53")
    assert (found.previous, found.next) == ("/services/shop/web", None)
    assert page_hosts(service, status, 99) == hosts
