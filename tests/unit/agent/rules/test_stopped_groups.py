"""Plans without the steps of stopped groups: their instances keep the software with which they run."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import make_package
from support.hosts.simulated import CONTROLLERS, REPOSITORY, SimulatedHost
from zkdeployment.agent.rules.planner import plan
from zkdeployment.base.deployment import Assignment, Deployment, Rerun
from zkdeployment.base.inventory import Inventory, Marker
from zkdeployment.base.plan import (
    ChangeController,
    ChangePackages,
    Deploy,
    PackageChange,
    Plan,
    RemoveSoftware,
    Undeploy,
    packages_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

SHOP, WEB = "p1/store/v1/shop", "p1/store/v1/web"
CHECKOUT = "git:/srv/x#1"
NO_GROUPS: Mapping[str, str] = MappingProxyType({})


def assigned(path: str, package: str, version: str | None, group: str | None = None, **more: object) -> Assignment:
    application = package if version is not None else package.rpartition("-")[0]
    return Assignment(path, 1, package, application, **{"version": version, "group": group, **more})


def marked(path: str, package: str, group: str | None = None, **more: object) -> Marker:
    return Marker(Deployment(path, 0), package, **{"package": package, "version": "1.0", "group": group, **more})


def installed(*packages: str, markers: tuple[Marker, ...] = (), **more: object) -> Inventory:
    """Return a host that has version 1.0 of managed packages."""
    return Inventory(
        packages={name: (make_package(name, "1.0"),) for name in packages},
        scripts={name: f"/opt/{name}/bin/zookeeper-deploy" for name in packages if name != "fix"},
        directories=frozenset(packages),
        markers=markers,
        **{"managed": {name: name for name in packages}, **more},
    )


def planned(wanted: Sequence[Assignment], inventory: Inventory, **facts: object) -> Plan:
    """Return the plan while the shop is stopped."""
    return plan(wanted, inventory, **{"stopped": frozenset({SHOP}), **facts})


def titles(made: Plan) -> list[str]:
    return [step.title for step in made.steps]


def test_a_plan_without_steps_of_stopped_groups_is_unchanged():
    wanted = (assigned("/a", "foo", "2.0", WEB),)
    assert planned(wanted, installed("foo", "old")) == plan(wanted, installed("foo", "old"))
    assert planned(wanted, installed("foo")).withheld == {}


def test_a_stopped_group_keeps_its_packages_and_its_deployments():
    wanted = (assigned("/a", "foo", "2.0", SHOP), assigned("/b", "bar", "2.0"))
    left = planned(wanted, installed("foo", "bar"))
    (change, deploy) = left.steps
    assert isinstance(change, ChangePackages)
    assert change.change == PackageChange(want={"bar": "2.0"}, managed=frozenset({"bar"}))
    assert isinstance(deploy, Deploy)
    assert deploy.deployment == Deployment("/b", 0)
    assert left.withheld == {SHOP: frozenset({"/a"})}
    assert left.groups == frozenset()


def test_the_withheld_services_are_those_of_each_stopped_group_and_no_others():
    wanted = (
        assigned("/a", "foo", "2.0", SHOP),
        assigned("/b", "foo", "2.0", SHOP),
        assigned("/c", "bar", "2.0", WEB),
        assigned("/d", "baz", "2.0"),
    )
    left = planned(wanted, installed("foo", "bar"), stopped={SHOP, WEB})
    assert left.withheld == {SHOP: frozenset({"/a", "/b"}), WEB: frozenset({"/c"})}
    assert planned(wanted, installed("foo", "bar")).withheld == {SHOP: frozenset({"/a", "/b"})}


def test_software_that_another_service_needs_changes_although_a_group_is_stopped():
    wanted = (assigned("/a", "foo", "2.0", SHOP), assigned("/b", "foo", "2.0"))
    (change, deploy) = planned(wanted, installed("foo")).steps
    assert isinstance(change, ChangePackages)
    assert dict(change.change.want) == {"foo": "2.0"}
    assert isinstance(deploy, Deploy)
    assert deploy.deployment.path == "/b"


def test_a_version_that_only_the_stopped_group_needs_is_not_installed():
    wanted = (assigned("/a", "foo", "1.0", SHOP, patches={"fix-1": "2.0"}), assigned("/b", "fix-1", None))
    assert titles(planned(wanted, installed("foo", "fix-1"))) == ["deploy /b 0"]


OWN = installed("foo", "bar", "old", markers=(marked("/a", "foo", SHOP),))
PATCHED = installed("foo", "bar", "fix", markers=(marked("/a", "foo", SHOP), marked("/b", "bar")))
OF_SYSTEM = replace(PATCHED, managed={"foo": "foo", "bar": "bar"}, originals={"fix": "0:1-7"})
BAR = (assigned("/b", "bar", "2.0"),)
WITH_A = (*BAR, assigned("/a", "foo", "2.0", SHOP))


@pytest.mark.parametrize("wanted", [BAR, WITH_A], ids=["leaves the host", "stays"])
@pytest.mark.parametrize(
    "inventory",
    [
        OWN,
        replace(PATCHED, managed={"foo": "foo", "bar": "bar", "fix": "foo"}),
        replace(PATCHED, managed={"foo": "foo", "bar": "bar", "fix": "bar"}),
        OF_SYSTEM,
        replace(OWN, lost_scripts=frozenset({"foo"})),
        replace(OWN, checkouts={"foo": CHECKOUT}, packages={"bar": OWN.packages["bar"]}, managed={"bar": "bar"}),
    ],
    ids=["unneeded package", "patch", "shared patch", "package of the system", "lost script", "checkout"],
)
def test_software_is_neither_removed_nor_put_back_nor_reinstalled_while_the_group_of_a_service_is_stopped(
    wanted, inventory
):
    left = planned(wanted, inventory)
    assert titles(left) == ["change packages", "deploy /b 0"]
    assert left.steps[0] == ChangePackages(
        PackageChange(want={"bar": "2.0"}, managed=left.steps[0].change.managed), {"bar": "bar"}, "bar 1.0 to 2.0"
    )
    assert left.steps[0].change.managed.isdisjoint({"foo"})
    assert left.withheld == {SHOP: frozenset({"/a"})}
    with_all = plan(wanted, inventory)
    assert titles(with_all) != titles(left)


def test_an_undeployment_of_another_service_leaves_the_software_of_the_stopped_group():
    assert titles(planned((), OF_SYSTEM)) == ["undeploy /b 0"]


@pytest.mark.parametrize("changed", ["managed", "packages", "package", "name", "wanted"])
def test_a_transaction_of_others_may_not_change_what_the_stopped_group_uses(changed):
    managed = {"foo": "foo", "fix": "foo", "bar": "bar", "old": "old"}
    marker = marked("/a", "foo", SHOP, packages=("foo-1.0-1.noarch", "fix-1.0-1.noarch"))
    inventory = installed("foo", "fix", "bar", "old", markers=(marker,), managed=managed)
    if changed == "packages":  # the patch was registered for another application first
        inventory = replace(inventory, managed={**managed, "fix": "bar"})
    elif changed == "package":  # a marker of an older tool
        older = replace(marker, package=None, packages=())
        inventory = replace(inventory, managed={"fix": "foo", "bar": "bar", "old": "old"}, markers=(older,))
    elif changed == "name":
        named = replace(marker, application="a", packages=())
        inventory = replace(inventory, managed={"bar": "bar", "old": "old"}, markers=(named,))
    wanted = BAR
    if changed == "wanted":  # its first deployment failed, so it has no marker
        inventory = replace(inventory, managed={**managed, "fix": "bar"}, markers=())
        wanted = (*BAR, assigned("/a", "foo", "1.0", SHOP, patches={"fix": "1.0"}))
    (change, _deploy) = planned(wanted, inventory).steps
    assert change.change.managed == {"bar", "old"}


def test_scripts_that_undeploy_other_services_are_reinstalled_also_for_the_package_of_a_stopped_group():
    markers = (marked("/a", "foo", SHOP), marked("/b", "foo"))
    inventory = replace(installed("foo", markers=markers), scripts={}, lost_scripts=frozenset({"foo"}))
    left = planned((), inventory)
    assert titles(left) == ["change packages", "undeploy /b 0"]
    assert left.steps[0].change == PackageChange(reinstall=frozenset({"foo"}), managed=frozenset({"foo"}))


def test_the_systems_own_packages_of_other_services_are_recorded_before_their_change():
    inventory = replace(installed("foo", "bar", "fix"), managed={"foo": "foo", "bar": "bar"})
    wanted = (assigned("/a", "foo", "2.0", SHOP), assigned("/b", "bar", "1.0", patches={"fix": "2.0"}))
    (change, _deploy) = planned(wanted, inventory).steps
    assert (change.originals, change.change.preserve) == ({"fix": "0:1.0-1"}, {"fix"})
    of_stopped = (assigned("/a", "foo", "1.0", SHOP, patches={"fix": "2.0"}), *BAR)
    (change, _deploy) = planned(of_stopped, inventory).steps
    assert (change.originals, change.change.preserve) == ({}, frozenset())


def test_a_checkout_of_another_service_replaces_a_package_that_a_stopped_group_uses():
    (change, *others) = planned((assigned("/b", "foo", CHECKOUT),), OWN).steps
    assert change.change.remove == {"foo"}
    assert [step.title for step in others] == ["check out /opt/foo", "deploy /b 0"]


def test_checkouts_of_other_services_are_renewed_and_make_room_for_packages():
    inventory = replace(
        installed("foo", "bar", "web", markers=(marked("/a", "foo", SHOP),), managed={}),
        packages={},
        checkouts={"foo": CHECKOUT, "bar": CHECKOUT, "web": CHECKOUT, "old": CHECKOUT},
    )
    wanted = (
        assigned("/a", "foo", "2.0", SHOP),
        assigned("/b", "bar", "2.0"),
        assigned("/w", "web", "git:/srv/x#2"),
    )
    left = planned(wanted, inventory)
    assert titles(left) == [
        "remove checkout /opt/bar",
        "change packages",
        "check out /opt/web",
        "deploy /b 0",
        "deploy /w 0",
    ]
    renewed = (assigned("/a", "foo", "git:/srv/x#2", SHOP), wanted[2])
    assert titles(planned(renewed, inventory)) == ["check out /opt/web", "deploy /w 0"]


def test_a_controller_changes_although_a_group_is_stopped_but_the_software_of_the_group_stays():
    inventory = replace(
        installed("foo", "ctl", markers=(marked("/a", "foo", SHOP),)),
        controllers=frozenset({"foo", "ctl"}),
    )
    controller = Assignment("/roles/web", 1, "ctl", "ctl", version="2.0")
    change = next(
        step for step in planned((), inventory, controller=controller).steps if isinstance(step, ChangeController)
    )
    assert (change.change.want, change.removed) == ({"ctl": "2.0"}, ())


def test_another_service_is_handed_over_although_a_group_is_stopped():
    markers = (marked("/a", "foo", SHOP), marked("/b", "bar"))
    inventory = installed("foo", "bar", markers=markers)
    moving = (assigned("/b", "foo2", "1.0"), assigned("/c", "baz", "1.0", SHOP))
    left = planned(moving, inventory)
    assert (left.handover, left.withheld) == ("/b", {SHOP: frozenset({"/a", "/c"})})
    both = (assigned("/a", "foo2", "1.0"), assigned("/b", "foo3", "1.0", SHOP))
    assert plan(both, inventory).handover == "/b"
    assert planned(both, inventory).handover == "/a"


class TestTheGroupOfAnUndeployment:
    """Which group a service belongs to that a host should not have any more."""

    @pytest.mark.parametrize(
        ("recorded", "published", "found"),
        [
            (None, {}, None),
            (SHOP, {}, SHOP),
            (None, {"/a": SHOP}, SHOP),  # its marker is older than the group
            (WEB, {"/a": SHOP}, SHOP),  # the service has passed from one group to the other
        ],
    )
    def test_is_that_of_the_publication_else_that_of_its_marker(self, recorded, published, found):
        inventory = installed("foo", markers=(marked("/a", "foo", recorded),))
        (step,) = (step for step in plan((), inventory, groups=published).steps if isinstance(step, Undeploy))
        assert step.group == found
        left = planned((), inventory, groups=published)
        assert left.withheld == ({SHOP: frozenset({"/a"})} if found == SHOP else {})
        assert any(isinstance(step, Undeploy) for step in left.steps) is (found != SHOP)

    def test_is_that_of_its_service_which_the_host_keeps_with_fewer_instances_or_other_software(self):
        inventory = installed(
            "foo", markers=(marked("/a", "foo"), replace(marked("/a", "foo"), deployment=Deployment("/a", 1)))
        )
        assert titles(planned((assigned("/a", "foo", "1.0", SHOP),), inventory)) == []
        assert titles(planned((assigned("/a", "bar", "1.0", SHOP),), inventory)) == []
        left = planned(
            (assigned("/a", "bar", "1.0", WEB),), installed("foo", markers=(marked("/a", "foo", SHOP),))
        )
        assert titles(left) == ["undeploy /a 0", "change packages", "deploy /a 0", "remove software"]


PATHS = ("/a", "/b", "/c/d")
GROUPS = (None, SHOP, WEB)


@st.composite
def wanted_sets(draw: st.DrawFn) -> list[Assignment]:
    """Generate the assignments of a host, with no package in two versions."""
    versions = {name: draw(st.sampled_from(["1", "2", CHECKOUT])) for name in ("foo", "bar")}
    fix = draw(st.sampled_from("12"))
    wanted = []
    for path in draw(st.sets(st.sampled_from(PATHS))):
        name = draw(st.sampled_from(["foo", "bar", "foo-1", "foo-2"]))
        version = versions.get(name)
        patches = {"fix": fix} if draw(st.booleans()) and version != CHECKOUT else {}
        rerun = {"rerun": draw(st.sampled_from(Rerun)), "properties": draw(st.sampled_from("pq"))}
        one = assigned(path, name, version, draw(st.sampled_from(GROUPS)), patches=patches, **rerun)
        wanted.append(replace(one, n=draw(st.integers(1, 2))))
    return wanted


@st.composite
def deployed_hosts(draw: st.DrawFn) -> tuple[list[Assignment], SimulatedHost]:
    """Generate the assignments of a host, and the host that has them, which had other packages before."""
    host = SimulatedHost()
    offered = [package for package in REPOSITORY if package.name not in CONTROLLERS]
    for package in draw(st.lists(st.sampled_from(offered), max_size=3, unique_by=lambda package: package.name)):
        host.install(package)
    wanted = draw(wanted_sets())
    finish(host, plan(wanted, host.inventory()))
    return wanted, host


def finish(host: SimulatedHost, made: Plan) -> SimulatedHost:
    for _ in host.take(made):
        pass
    return host


def software(host: SimulatedHost, names: Collection[str]) -> dict[str, object]:
    """Return everything that a host has under some names."""
    return {
        name: (host.packages.get(name), host.checkouts.get(name), name in host.scripts, host.originals.get(name))
        for name in names
    }


@given(deployed_hosts(), wanted_sets(), st.sets(st.sampled_from([SHOP, WEB]), min_size=1), st.booleans())
def test_no_step_changes_what_an_instance_of_a_stopped_group_uses(had, wanted, stopped, is_published):
    before, host = had
    whole = finish(host.copy(), plan(wanted, host.inventory()))
    recorded = {one.path: one.group for one in before if one.group is not None}
    published = dict.fromkeys(recorded, WEB) if is_published else NO_GROUPS
    group_of = recorded | published | {one.path: one.group for one in wanted}
    needed = {name for one in wanted if one.group not in stopped for name in (one.package, *one.patches)}
    theirs = [one for one in before if group_of.get(one.path) in stopped]
    used = {name for one in theirs for name in (one.package, *one.patches)} - needed
    present = software(host, used)
    running = {key for key in host.running if key[1].path in {one.path for one in theirs}}
    made = plan(wanted, host.inventory(), groups=published, stopped=stopped)
    for step in made.steps:
        assert used.isdisjoint(packages_of(step)), step
        assert not isinstance(step, ChangePackages) or used.isdisjoint({*step.originals, *step.put_back}), step
        assert not (made.withheld and isinstance(step, RemoveSoftware)), step
    finish(host, made)
    assert software(host, used) == present
    assert running <= host.running
    finish(host, plan(wanted, host.inventory()))  # the groups are resumed
    assert (host.packages, host.checkouts, host.originals) == (whole.packages, whole.checkouts, whole.originals)
    assert host.running == whole.running
