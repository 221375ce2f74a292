"""Plans without the steps of stopped groups."""

from __future__ import annotations

from support.builders import make_package
from zkdeployment.agent.rules.planner import plan, without_stopped_groups
from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.inventory import Inventory, Marker
from zkdeployment.base.plan import ChangePackages, Deploy, RemoveSoftware, Undeploy

SHOP = "p1/store/v1/shop"


def assigned(path: str, package: str, version: str, group: str | None = None) -> Assignment:
    return Assignment(path, 1, package, package, version=version, group=group)


def installed(*packages: str, markers: tuple[Marker, ...] = ()) -> Inventory:
    """Return a host that has version 1.0 of managed packages."""
    return Inventory(
        packages={name: (make_package(name, "1.0"),) for name in packages},
        scripts={name: f"/opt/{name}/bin/zookeeper-deploy" for name in packages},
        directories=frozenset(packages),
        managed={name: name for name in packages},
        markers=markers,
    )


def steps(wanted, inventory, *stopped):
    made = plan(wanted, inventory)
    return without_stopped_groups(made, frozenset(stopped), wanted, inventory)


def test_a_plan_without_steps_of_stopped_groups_is_unchanged():
    wanted = (assigned("/a", "foo", "2.0", SHOP),)
    made = plan(wanted, installed("foo"))
    assert without_stopped_groups(made, frozenset({"p1/store/v1/web"}), wanted, installed("foo")) is made


def test_a_stopped_group_keeps_its_packages_and_its_deployments():
    wanted = (assigned("/a", "foo", "2.0", SHOP), assigned("/b", "bar", "2.0"))
    left = steps(wanted, installed("foo", "bar"), SHOP)
    (change, deploy) = left.steps
    assert isinstance(change, ChangePackages)
    assert dict(change.change.want) == {"bar": "2.0"}
    assert "foo" not in change.change.managed
    assert isinstance(deploy, Deploy)
    assert deploy.deployment == Deployment("/b", 0)
    assert left.withheld == {SHOP: frozenset({"/a"})}
    assert left.groups == frozenset()


def test_software_that_another_service_needs_changes_although_a_group_is_stopped():
    wanted = (assigned("/a", "foo", "2.0", SHOP), assigned("/b", "foo", "2.0"))
    (change, deploy) = steps(wanted, installed("foo"), SHOP).steps
    assert isinstance(change, ChangePackages)
    assert dict(change.change.want) == {"foo": "2.0"}
    assert isinstance(deploy, Deploy)
    assert deploy.deployment.path == "/b"


def test_no_software_is_removed_while_a_group_of_the_host_is_stopped():
    wanted = (assigned("/a", "foo", "2.0", SHOP),)
    inventory = installed("foo", "old")
    assert any(isinstance(step, RemoveSoftware) for step in plan(wanted, inventory).steps)
    assert steps(wanted, inventory, SHOP).steps == ()


def test_a_service_that_a_stopped_group_loses_on_the_host_is_not_undeployed():
    marker = Marker(Deployment("/a", 0), "foo", "foo", version="1.0", group=SHOP)
    inventory = installed("foo", markers=(marker,))
    assert any(isinstance(step, Undeploy) for step in plan((), inventory).steps)
    left = steps((), inventory, SHOP)
    assert (left.steps, left.withheld) == ((), {SHOP: frozenset({"/a"})})
