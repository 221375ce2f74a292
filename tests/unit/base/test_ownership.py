"""The packages that belong to the agent."""

from support.builders import make_package
from zkdeployment.base.inventory import Inventory
from zkdeployment.base.packages import packages_to_register, removable_packages


def test_registered_and_installed_packages_are_removable_but_no_mere_directories():
    have = Inventory(packages={"foo": (make_package("foo", "1"),)}, managed={"half-removed": "foo"})
    assert removable_packages(["foo", "half-removed", "copied-by-hand"], have) == {"foo", "half-removed"}


def test_the_agents_own_package_is_never_removable():
    assert removable_packages(["zkdeployment"], Inventory(managed={"zkdeployment": "zkdeployment"})) == frozenset()


def test_only_packages_that_a_transaction_installs_or_removes_are_registered():
    applications = {"new": "foo", "old": "foo", "installed-by-others": "foo"}
    assert packages_to_register(applications, {"new"}, {"old"}) == {"new": "foo", "old": "foo"}
