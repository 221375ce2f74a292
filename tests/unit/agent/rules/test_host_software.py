from dataclasses import replace

import pytest

from support.builders import make_package as package
from zkdeployment.agent.rules.availability import (
    Demand,
    demands_of_absent_hosts,
    host_software,
    new_demands,
    unmet_demands,
)
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Package
from zkdeployment.base.system import HostSystem, WantedSystem
from zkdeployment.publishing.targets.systems import system_target


def known(host: str, *packages: Package, role: str | None = None) -> KnownHost:
    return KnownHost(Identity(host, host, role), Inventory(packages={one.name: (one,) for one in packages}))


def wanting(*wants: tuple[str, str | None]) -> tuple[Assignment, ...]:
    return tuple(Assignment(f"/a/{name}", 1, name, name, version=version) for name, version in wants)


def test_the_changes_are_those_of_the_hosts_plan_with_the_controller_first():
    controller = Assignment("/roles/web", 1, "ctl", "ctl", version="2")
    targets = {"web": wanting(("shop", "1.1"), ("had", "1")), "/roles/web": (controller,)}
    host = host_software(known("h1", package("had", "1"), role="web"), targets)
    assert host is not None
    assert [dict(change.want) for change in host.changes] == [{"ctl": "2"}, {"shop": "1.1"}]
    assert host.missing == {Demand("/a/shop", "shop", "1.1"), Demand("/roles/web", "ctl", "2")}


def test_hosts_without_an_inventory_or_whose_agent_refuses_the_tree_have_no_software():
    targets = {"h1": (*wanting(("shop", "1")), Assignment("/b/shop", 1, "shop", "shop", version="2"))}
    assert host_software(known("h1"), targets) is None
    assert host_software(KnownHost(Identity("h1", "h1"), unknown="broken"), {"h1": targets["h1"][:1]}) is None


def test_a_host_that_reports_no_packages_lacks_no_package():
    targets = {"h1": wanting(("shop", "9.9"))}
    host = host_software(KnownHost(Identity("h1", "h1"), Inventory()), targets)
    assert host is not None
    assert unmet_demands(new_demands(targets, {}), [host]) == {}


@pytest.mark.parametrize(
    ("update", "reported", "release"),
    [("all", "1", "2"), ("none", "1", "1"), ("none", None, "")],
)
def test_the_packages_of_a_host_come_from_the_release_that_its_system_node_brings_or_leaves(
    update, reported, release
):
    system = Assignment.of_system(WantedSystem("/os/web", "2", update))
    reporting = replace(known("h1"), system=HostSystem(reported))
    host = host_software(reporting, {"h1": (), system_target("h1"): (system,)})
    assert host is not None
    assert host.release == release


def test_demands_of_absent_hosts_are_those_that_registered_hosts_meet():
    targets = {"web": wanting(("shop", "1"), ("tool", "1"))}
    gone = host_software(known("h1", package("old", "1"), role="web"), targets, absent=True)
    registered = host_software(known("h2", package("shop", "1"), role="web"), targets)
    assert gone is not None
    assert registered is not None
    assert demands_of_absent_hosts([gone, registered]) == {Demand("/a/shop", "shop", "1"): (gone.identity,)}


def test_the_architecture_is_that_of_most_packages():
    architectures = {"a": "i686", "b": "x86_64", "c": "x86_64"}
    host = host_software(known("h1", *(package(name, arch=arch) for name, arch in architectures.items())), {})
    assert host is not None
    assert host.arch == "x86_64"
    portable = host_software(known("h1", package("a", "1")), {})
    assert portable is not None
    assert portable.arch == ""


def test_packages_of_all_hosts_of_a_target_need_no_repository():
    targets = {"web": wanting(("shop", "1")), "h9": wanting(("shop", "1")), "h8": wanting(("other", None))}
    demands = new_demands(targets, {})
    hosts = [
        known("h1", package("shop", "1", arch="x86_64"), role="web"),
        known("h2", package("tool", "1", arch="aarch64"), role="web"),
        known("h9", package("shop", "1")),
    ]
    software = [host for one in hosts if (host := host_software(one, targets))]
    assert unmet_demands(demands, software) == {
        "": {Demand("/a/other", "other")},
        "aarch64": {Demand("/a/shop", "shop", "1")},
    }
    assert unmet_demands(demands, [software[0], software[2]]) == {"": {Demand("/a/other", "other")}}


def test_packages_that_a_host_lacks_since_an_earlier_publication_are_not_demanded():
    targets = {"h1": wanting(("old", "9.9"), ("shop", "1"))}
    host = host_software(known("h1", package("tool", "1")), targets)
    assert host is not None
    demands = new_demands(targets, {"h1": wanting(("old", "9.9"))})
    assert unmet_demands(demands, [host]) == {"": {Demand("/a/shop", "shop", "1")}}
