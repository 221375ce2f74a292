"""The estimate of an update of the operating system, from an inventory and the packages of the release."""

import pytest

from support.builders import make_inventory, make_package
from zkdeployment.agent.rules.availability import Offers
from zkdeployment.agent.rules.estimated_update import estimated_update
from zkdeployment.base.inventory import Inventory
from zkdeployment.base.system import RebootRule, WantedSystem

BASH, TOOL, KERNEL, OWN = (make_package(name, "1.0") for name in ("bash", "tool", "kernel-core", "own"))
HOST = make_inventory(BASH, TOOL, KERNEL, OWN, installonly=frozenset({"kernel-core"}))
OFFERS = Offers(
    {
        "bash": (BASH, make_package("bash", "1.1")),
        "tool": (make_package("tool", "0.9"), make_package("tool", "1.2")),
        "kernel-core": (make_package("kernel-core", "1.1"),),
        "part": (make_package("part"),),
    },
    {},
    security={"tool": (make_package("tool", "1.1"),)},
)


def changes(inventory=HOST, offers=OFFERS, kept=(), **node):
    found = estimated_update(WantedSystem("/os", "2", **node), inventory, kept, offers, "x86_64")
    return [str(item).replace("-1.noarch", "") for item in found.changes]


ALL = ["change bash-1.0 to bash-1.1", "install kernel-core-1.1", "change tool-1.0 to tool-1.2"]


@pytest.mark.parametrize(
    ("node", "kept", "expected"),
    [
        ({}, (), ALL),
        ({"update": "none"}, (), []),
        ({"update": "security"}, (), ALL[2:]),
        ({"update": ("bas*", "part", "own")}, (), ALL[:1]),
        ({"exclude": ("kernel*",)}, ("bash", "zkdeployment"), ALL[2:]),
    ],
)
def test_installed_packages_get_the_versions_of_the_release_as_far_as_the_node_says(node, kept, expected):
    assert changes(kept=kept, **node) == expected


def test_a_former_release_takes_packages_back_but_no_kernel():
    newer = (make_package("bash", "2"), make_package("kernel-core", "2"))
    inventory = make_inventory(*newer, installonly=frozenset({"kernel-core"}))
    assert changes(inventory) == ["change bash-2 to bash-1.1"]
    security = Offers({"bash": (BASH,)}, {}, security={"bash": (BASH,)})
    assert changes(inventory, security, update="security") == []


def test_packages_for_two_architectures_change_together():
    have, offered = (
        tuple(make_package("lib", version, arch=arch) for arch in ("i686", "x86_64")) for version in ("1", "2")
    )
    assert changes(Inventory({"lib": have}), Offers({"lib": offered}, {})) == [
        "change lib-1-1.i686 to lib-2-1.i686",
        "change lib-1-1.x86_64 to lib-2-1.x86_64",
    ]


@pytest.mark.parametrize(
    ("rule", "exclude", "due", "reasons", "reboots"),
    [
        (RebootRule.IF_NEEDED, (), (), ("kernel-core",), True),
        (RebootRule.IF_NEEDED, ("kernel-core",), (), (), False),
        (RebootRule.IF_NEEDED, ("kernel-core",), ("systemd",), ("systemd",), True),
        (RebootRule.NEVER, (), (), ("kernel-core",), False),
        (RebootRule.ALWAYS, ("kernel-core",), (), (), True),
    ],
)
def test_the_reboot_follows_from_the_packages_and_the_rule_of_the_node(rule, exclude, due, reasons, reboots):
    system = WantedSystem("/os", "2", exclude=exclude, reboot=rule)
    found = estimated_update(system, HOST, (), OFFERS, "x86_64", due)
    assert (found.reasons, found.reboots, found.security) == (reasons, reboots, {"tool"})
