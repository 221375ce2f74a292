"""Compares the software of a host with the software that it needs. The steps are in ``package_steps``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.names import AGENT_PACKAGE, application_of
from zkdeployment.planning.controllers import change_controller
from zkdeployment.planning.packages import has_version
from zkdeployment.planning.steps.ownership import removable_packages
from zkdeployment.planning.steps.step_reasons import package_change

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.inventory import Inventory
    from zkdeployment.model.plan import ChangeController
    from zkdeployment.planning.steps.wanted_software import WantedSoftware


@dataclass(frozen=True)
class SoftwareDifference:
    """The difference between the wanted and the present software of a host.

    ``controller_change`` is the step that changes the role controller's package, before all other steps. The other
    values leave out the packages of that step:

    - ``want``: packages to install or to change, with their versions (``None``: any);
    - ``lost``: installed packages to reinstall, because their deploy scripts are missing;
    - ``replaceable``: packages that the agent may replace by a checkout;
    - ``removable``: replaceable packages that the agent may also remove;
    - ``unneeded``: removable packages that no deployment needs, sorted;
    - ``dropped_patches``: unneeded packages that are patches of applications that stay;
    - ``displaced``: removable packages in the place of a wanted checkout;
    - ``originals``: the versions of the system's own packages before their first change;
    - ``put_back``: the original versions of the system's own packages that no deployment needs any more.
    """

    wanted: WantedSoftware
    inventory: Inventory
    controller_change: ChangeController | None
    want: Mapping[str, str | None]
    lost: frozenset[str]
    replaceable: frozenset[str]
    removable: frozenset[str]
    unneeded: tuple[str, ...]
    dropped_patches: frozenset[str]
    displaced: frozenset[str]
    originals: Mapping[str, str]
    put_back: Mapping[str, str]

    def application_of(self, package: str) -> str:
        """Return a package's application: as registered, needed or marked, else by name (``foo-1.4``: ``foo``)."""
        if package in self.inventory.managed:
            return self.inventory.managed[package]
        if package in self.wanted.checkouts or package in self.inventory.checkouts:
            return package
        if package in self.wanted.needs:
            return self.wanted.needs[package].application
        return _marked_packages(self.inventory).get(package) or application_of(package)

    def reason_of(self, name: str) -> str:
        """Return how the wanted version of a needed package differs from the installed one, as a sentence."""
        return package_change(name, self.wanted.needs[name].version, self.inventory.packages.get(name, ()))


def compare_software(wanted: WantedSoftware, inventory: Inventory) -> SoftwareDifference:
    """Return the difference between the wanted and the present software of a host.

    Raises ``HostFilesError`` if the host has two controllers, or if deployments occupy the controller's directory.
    """
    controller_change = change_controller(wanted.controller, wanted.names, inventory)
    changed = frozenset() if controller_change is None else controller_change.change.managed
    want = {
        name: need.version
        for name, need in sorted(wanted.needs.items())
        if name not in changed and not _has(inventory, name, need.version)
    }
    deployed = {assignment.package for assignment in wanted.assignments}
    lost = inventory.lost_scripts | (deployed & inventory.packages.keys() - inventory.scripts.keys())
    # A directory whose script no package owns may be a person's copy and is never cleared.
    scripts = (inventory.scripts.keys() | inventory.lost_scripts) - inventory.checkouts.keys()
    replaceable = removable_packages(inventory.managed.keys() | scripts | changed, inventory)
    removable = replaceable - changed - wanted.controller_packages
    unneeded = sorted(removable - wanted.names)
    kept = wanted.names | changed | wanted.controller_packages
    return SoftwareDifference(
        wanted=wanted,
        inventory=inventory,
        controller_change=controller_change,
        want=want,
        lost=frozenset(wanted.needs.keys() & lost) - want.keys() - changed,
        replaceable=replaceable,
        removable=removable,
        unneeded=tuple(unneeded),
        dropped_patches=frozenset(name for name in unneeded if _is_dropped_patch(name, wanted, inventory)),
        displaced=frozenset(removable & wanted.checkouts.keys() & inventory.packages.keys()),
        originals={
            name: inventory.packages[name][0].evr
            for name in want
            if len(inventory.packages.get(name, ())) == 1
            and name not in replaceable | inventory.originals.keys() | {AGENT_PACKAGE}
        },
        put_back={name: version for name, version in sorted(inventory.originals.items()) if name not in kept},
    )


def _has(inventory: Inventory, name: str, version: str | None) -> bool:
    """Return whether a package is installed once, in this version (``None``: any)."""
    installed = inventory.packages.get(name, ())
    releases = {(package.epoch, package.version, package.release) for package in installed}
    return len(releases) == 1 and (version is None or has_version(installed[0], version))


def _marked_packages(inventory: Inventory) -> dict[str, str]:
    """Return the applications of the packages of recorded deployments, by package."""
    return {marker.package: marker.application for marker in inventory.markers if marker.package is not None}


def _is_dropped_patch(name: str, wanted: WantedSoftware, inventory: Inventory) -> bool:
    """Return whether an unneeded package without a deploy script is a patch of an application that stays.

    Software that lost its script is no patch, even after its deployments have moved to another package.
    """
    return (
        name in inventory.packages
        and name not in inventory.scripts
        and name not in inventory.lost_scripts
        and name not in _marked_packages(inventory)
        and inventory.managed[name] in wanted.applications
    )
