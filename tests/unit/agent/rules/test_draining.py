"""The drain of a host: what it undeploys because another host has it, and what it keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.builders import make_package
from zkdeployment.agent.rules.draining import OtherHost, has_running, plan_drain, witness
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, Marker
from zkdeployment.base.stop import LackingGroup

GROUP = "p1/store/v1/shop"
H1 = Host(Identity("h1", "app1"), "r2")
HAS_DB = OtherHost(H1, 7, frozenset({"/shop/db"}))


def marked(path: str, number: int = 0, package: str = "foo") -> Marker:
    return Marker(Deployment(path, number), package, package=package, version="1.0", files=(f"{number}.deployed",))


def have(*markers: Marker, lost: frozenset[str] = frozenset()) -> Inventory:
    return Inventory(
        packages={"foo": (make_package("foo", "1.0"),)},
        scripts={"foo": "/opt/foo/bin/zookeeper-deploy"},
        directories=frozenset({"foo"}),
        markers=markers,
        managed={"foo": "foo"},
        lost_scripts=lost,
    )


def drained(inventory: Inventory, *others: OtherHost, groups=(), stopped=frozenset()):
    return plan_drain(inventory, others, "r2", dict(groups), stopped)


def test_all_instances_of_a_service_that_another_host_has_are_undeployed_under_its_lock():
    drain = drained(have(marked("/shop/web"), marked("/shop/db", 1), marked("/shop/db")), HAS_DB)
    assert [(step.title, step.locked, step.script) for step in drain.plan.steps] == [
        ("undeploy /shop/db 0", True, "/opt/foo/bin/zookeeper-deploy"),
        ("undeploy /shop/db 1", True, "/opt/foo/bin/zookeeper-deploy"),
    ]
    assert {step.reason for step in drain.plan.steps} == {"the host is drained, and app1 has the service"}
    assert drain.kept == {"/shop/web": "no other host runs it"}
    assert drain.holders == {"/shop/db": ("h1",)}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (replace(HAS_DB, in_maintenance=True), "is in maintenance"),
        (replace(HAS_DB, host=replace(H1, error="exit status 1")), "has failed"),
        (replace(HAS_DB, host=replace(H1, version="r1")), "is not at r2"),
        (replace(HAS_DB, host=replace(H1, version=None, former="r2")), "is not at r2"),
        (replace(HAS_DB, host=replace(H1, deploying="r2")), "is not at r2"),
        (replace(HAS_DB, host=replace(H1, idle_role="spare")), "is not at r2"),
        (
            replace(HAS_DB, host=replace(H1, lacking={GROUP: LackingGroup(frozenset({"/shop/db"}))})),
            "lacks steps of the service, whose group is stopped",
        ),
    ],
)
def test_a_service_is_kept_if_its_other_host_may_lose_it(other: OtherHost, why: str):
    drain = drained(have(marked("/shop/db")), other)
    assert drain.plan.steps == ()
    assert drain.kept == {"/shop/db": f"app1, which has it, {why}"}
    assert witness("/shop/db", [other], "r2") is None
    assert witness("/shop/db", [other, HAS_DB], "r2") == HAS_DB


def test_a_service_of_a_stopped_group_is_kept():
    groups = {"/shop/db": GROUP}
    assert [step.group for step in drained(have(marked("/shop/db")), HAS_DB, groups=groups).plan.steps] == [GROUP]
    drain = drained(have(marked("/shop/db")), HAS_DB, groups=groups, stopped={GROUP})
    assert drain.plan.steps == ()
    assert drain.kept == {"/shop/db": f"its group {GROUP} is stopped"}


def test_a_service_whose_script_is_missing_is_kept():
    drain = drained(have(marked("/shop/db"), lost=frozenset({"foo"})), HAS_DB)
    assert drain.kept == {"/shop/db": "its deploy script is missing"}
    drain = drained(replace(have(marked("/shop/db")), packages={}, scripts={}, managed={}), HAS_DB)
    assert "cannot undeploy /shop/db 0" in drain.kept["/shop/db"]
    assert drain.plan.steps == ()


def test_two_hosts_in_maintenance_never_both_undeploy_the_service_that_only_they_have():
    mine = have(marked("/shop/db"))
    for name in ("h1", "h2"):
        other = OtherHost(Host(Identity(name, name), "r2"), 1, frozenset({"/shop/db"}), in_maintenance=True)
        assert drained(mine, other).plan.steps == ()


def test_each_crash_leaves_a_drain_that_completes_it():
    markers = (marked("/shop/db"), marked("/shop/db", 1), marked("/shop/web"))
    both = replace(HAS_DB, services=frozenset({"/shop/db", "/shop/web"}))
    whole = drained(have(*markers), both).plan.steps
    for done in range(len(whole) + 1):
        left = [
            marker for marker in markers if marker.deployment not in {step.deployment for step in whole[:done]}
        ]
        assert drained(have(*left), both).plan.steps == whole[done:]


@pytest.mark.parametrize(
    ("registered", "registers_one", "expected"),
    [
        ([], False, False),
        ([], True, False),
        (["h2"], False, False),
        (["h2"], True, True),
        (["h1"], False, True),
        ([None], False, False),
        ([None, None], False, True),
        (["h2", None], False, False),
    ],
)
def test_a_host_runs_a_service_only_as_far_as_registered_instances_show(registered, registers_one, expected):
    instances = [{} if host is None else {"host": host} for host in registered]
    assert has_running("h1", 1, instances, registers_one=registers_one) is expected
