import pytest

from support.builders import make_package as package
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.errors import NotFoundError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker, Package
from zkdeployment.base.system import WantedSystem
from zkdeployment.fleet.views.instances import paths_of_services
from zkdeployment.fleet.views.services import InstanceState, ServicesStatus, require_services, services_status
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status

A, B, C = Identity("a", "a.example"), Identity("b", "b.example", "web"), Identity("c", "c.example")
HELLO = Assignment("/demo/hello", 2, "hello", "hello", version="1.1")
STORE = Assignment("/demo/store", 1, "store-2.0", "store")
CHECKED_OUT = Assignment("/demo/site", 1, "site", "site", version="git+https://example.com/site@v1")


def marker(path: str, number: int = 0, name: str = "hello", version: str = "1.1") -> Marker:
    return Marker(Deployment(path, number), name, name, version=version)


def inventory(*packages: Package, markers: tuple[Marker, ...] = (), **checkouts: str) -> Inventory:
    return Inventory({one.name: (one,) for one in packages}, markers=markers, checkouts=checkouts)


def status_of(
    targets: dict[str, tuple[Assignment, ...]],
    *known: KnownHost,
    hosts: tuple[Host, ...] = (),
    path: str = "",
    providers: dict[str, dict[str, dict[str, object]]] | None = None,
) -> ServicesStatus:
    registered = {host.identity.id for host in hosts}
    absent = tuple(host for host in known if host.identity.id not in registered)
    snapshot = FleetSnapshot(Cluster("r1"), "r1", hosts=hosts, absent=absent, targets=frozenset(targets))
    return services_status(fleet_status(snapshot), snapshot, targets, known, providers or {}, path=path)


def states(status: ServicesStatus) -> dict[str, list[tuple[str, int, str | None, str]]]:
    return {
        service.path: [
            (host.id, deployment.number, deployment.version, deployment.state.value)
            for host in service.hosts
            for deployment in host.deployments
        ]
        for service in status.services
    }


def test_a_service_is_as_wanted_if_all_its_deployments_are():
    present = inventory(package("hello", "1.1"), markers=(marker("/demo/hello"), marker("/demo/hello", 1)))
    status = status_of({"a": (HELLO,)}, KnownHost(A, present), hosts=(Host(A, "r1"),))
    assert states(status) == {"/demo/hello": [("a", 0, "1.1-1", "deployed"), ("a", 1, "1.1-1", "deployed")]}
    assert status.as_wanted


@pytest.mark.parametrize(
    ("found", "host", "expected"),
    [
        (inventory(package("hello", "1.0"), markers=(marker("/demo/hello"),)), Host(A, "r1"), "outdated"),
        (inventory(package("hello", "1.1")), Host(A, "r0"), "missing"),
        (inventory(package("hello", "1.1"), markers=(marker("/demo/hello"),)), Host(A, "r0"), "pending"),
        (inventory(package("hello", "1.1"), markers=(marker("/demo/hello"),)), Host(A, error="x"), "pending"),
        (None, Host(A, "r1"), "unknown"),
    ],
)
def test_the_state_of_a_deployment_follows_from_the_inventory(found: Inventory | None, host: Host, expected: str):
    one = Assignment("/demo/hello", 1, "hello", "hello", version="1.1")
    status = status_of({"a": (one,)}, KnownHost(A, found), hosts=(host,))
    assert states(status)["/demo/hello"][0][3] == expected
    assert not status.as_wanted


@pytest.mark.parametrize(
    ("others", "installonly", "expected"),
    [
        ([package("hello", "1.1", arch="i686")], False, ("1.1-1", "deployed")),
        ([package("hello", "1.9", arch="i686")], False, ("1.1-1", "outdated")),
        ([package("hello", "1.10", arch="x86_64")], False, ("1.1-1", "outdated")),
        ([package("hello", "1.10", arch="x86_64")], True, ("1.1-1", "deployed")),
    ],
)
def test_all_packages_of_the_name_decide_whether_a_deployment_is_outdated(
    others: list[Package], installonly: bool, expected: tuple[str, str]
):
    one = Assignment("/demo/hello", 1, "hello", "hello", version="1.1")
    present = Inventory(
        {"hello": tuple(sorted([package("hello", "1.1", arch="x86_64"), *others]))},
        markers=(marker("/demo/hello"),),
        installonly=frozenset({"hello"} if installonly else ()),
    )
    status = status_of({"a": (one,)}, KnownHost(A, present), hosts=(Host(A, "r1"),))
    assert states(status)["/demo/hello"][0][2:] == expected


def test_deployments_of_absent_hosts_and_leftovers_are_not_as_wanted():
    left = inventory(package("hello", "1.1"), markers=(marker("/demo/hello", 7), marker("/old/gone")))
    status = status_of({"c": (HELLO,)}, KnownHost(A, left), KnownHost(C, left), hosts=(Host(A, "r1"),))
    assert states(status) == {
        "/demo/hello": [
            ("a", 7, "1.1", "leftover"),
            ("c", 0, "1.1-1", "absent"),
            ("c", 1, "1.1-1", "absent"),
            ("c", 7, "1.1", "absent"),
        ],
        "/old/gone": [("a", 0, "1.1", "leftover"), ("c", 0, "1.1", "absent")],
    }
    gone = status.services[1]
    assert (gone.package, gone.version, gone.count(InstanceState.LEFTOVER)) == ("hello", "1.1", 1)


@pytest.mark.parametrize(
    ("providers", "down", "sentence"),
    [
        ({"/demo/hello": {"1:80": {}, "1:81": {}}}, 0, ""),
        ({"/demo/hello": {"1:80": {}}}, 1, "1 of 2 instances is down"),
        ({"/demo/hello": {}}, 2, "2 of 2 instances are down"),
        ({}, 0, ""),
    ],
)
def test_deployed_instances_that_are_not_registered_are_down(providers, down: int, sentence: str):
    present = inventory(
        package("hello", "1.1"),
        markers=(marker("/demo/hello"), marker("/demo/hello", 1), marker("/demo/hello", 7)),
    )
    status = status_of({"a": (HELLO,)}, KnownHost(A, present), hosts=(Host(A, "r1"),), providers=providers)
    (service,) = status.services
    assert (service.wanted, service.down.count, str(service.down)) == (2, down, sentence)


def started(host: str, number: int) -> dict[str, object]:
    return {"host": host, "deployment": f"/demo/hello {number}"}


@pytest.mark.parametrize(
    ("providers", "b", "sentence", "which"),
    [
        (
            [started("a", 0), started("b", 0)],
            Host(B, "r1"),
            "1 of 3 instances is down",
            ["/demo/hello 1 on a.example"],
        ),
        (
            [started("a", 0), started("b", 0)],
            Host(B, "r0"),
            "1 of 3 instances is down",
            ["/demo/hello 1 on a.example"],
        ),
        ([started("a", 0), {}], Host(B, "r1"), "1 of 3 instances is down", []),
        ([started("a", 0), {}, {}], Host(B, "r1"), "", []),
        ([started("a", 0), started("a", 1)], Host(B, "r0", deploying="r1"), "", []),
        (
            [started("a", 0), started("b", 0)],
            Host(B, "r0", deploying="r1"),
            "1 of 2 instances is down",
            ["/demo/hello 1 on a.example"],
        ),
        ([started("a", 0), started("b", 0)], None, "1 of 2 instances is down", ["/demo/hello 1 on a.example"]),
    ],
)
def test_instances_that_state_their_deployment_show_which_are_down(
    providers, b: Host | None, sentence: str, which: list[str]
):
    one = Assignment("/demo/hello", 1, "hello", "hello", version="1.1")
    present = inventory(package("hello", "1.1"), markers=(marker("/demo/hello"), marker("/demo/hello", 1)))
    status = status_of(
        {"a": (HELLO,), "web": (one,)},
        KnownHost(A, present),
        KnownHost(B, inventory(package("hello", "1.1"), markers=(marker("/demo/hello"),))),
        hosts=(Host(A, "r1"), *([] if b is None else [b])),
        providers={"/demo/hello": {f"h:{number}": values for number, values in enumerate(providers)}},
    )
    (service,) = status.services
    assert (str(service.down), [*map(str, service.down.instances)]) == (sentence, which)
    assert service.down.sentence == ": ".join([sentence, *which])


def test_a_target_without_a_host_is_named():
    status = status_of({"nobody": (HELLO,)}, hosts=(Host(A, "r1"),))
    assert status.services[0].unmatched == ("nobody",)
    assert not status.as_wanted


def test_hosts_of_a_role_run_the_services_of_the_role():
    present = inventory(package("store-2.0", "2.0"), markers=(marker("/demo/store", name="store"),))
    status = status_of({"web": (STORE,)}, KnownHost(B, present), hosts=(Host(B, "r1"),))
    assert states(status) == {"/demo/store": [("b", 0, "2.0-1", "deployed")]}


@pytest.mark.parametrize(("present", "state"), [(CHECKED_OUT.version, "deployed"), ("other", "outdated")])
def test_checkouts_are_compared_by_their_recorded_version(present: str, state: str):
    found = inventory(markers=(marker("/demo/site", name="site"),), site=present)
    status = status_of({"a": (CHECKED_OUT,)}, KnownHost(A, found), hosts=(Host(A, "r1"),))
    assert states(status) == {"/demo/site": [("a", 0, present, state)]}


def test_only_services_at_and_below_the_path_are_shown():
    targets = {"a": (HELLO, STORE, Assignment("/demo/hello2", 1, "x", "x", version="1"))}
    targets["/system/a"] = (Assignment.of_system(WantedSystem("/demo/hello/os", "2026-11-20")),)
    assert list(states(status_of(targets, hosts=(Host(A),), path="/demo/hello"))) == ["/demo/hello"]
    assert len(states(status_of(targets, hosts=(Host(A),), path="/demo"))) == 3
    assert paths_of_services(targets, "/demo/hello") == {"/demo/hello"}


def test_a_path_without_services_is_not_found_unless_one_is_withheld_there():
    none = status_of({"a": (HELLO,)}, hosts=(Host(A),), path="/demo/hel")
    with pytest.raises(NotFoundError, match="no service at or below /demo/hel:"):
        require_services(none, "/demo/hel", [("/demo/hello", "a")])
    require_services(none, "/demo/hel", [("/demo/hel/withheld", "a")])
    require_services(none, "", ())


def test_the_body_names_services_hosts_deployments_and_instances():
    providers = {"/demo/store": {"192.0.2.1:80": {"pid": 7}}}
    status = status_of({"a": (STORE,)}, KnownHost(A, inventory()), hosts=(Host(A, "r1"),), providers=providers)
    assert status.to_json() == {
        "wanted": "r1",
        "as_wanted": False,
        "services": [
            {
                "path": "/demo/store",
                "package": "store-2.0",
                "version": None,
                "as_wanted": False,
                "down": 0,
                "unmatched": [],
                "hosts": [
                    {
                        "id": "a",
                        "name": "a.example",
                        "role": None,
                        "state": "converged",
                        "n": 1,
                        "deployments": [{"number": 0, "version": None, "state": "missing"}],
                    }
                ],
                "providers": {"192.0.2.1:80": {"pid": 7}},
            }
        ],
    }
