"""The steps that change packages and checkouts, made from the difference between wanted and present software."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.plan import ChangePackages, CheckOut, PackageChange, RemoveCheckout, RemoveSoftware
from zkdeployment.planning.packages import has_version
from zkdeployment.planning.steps.step_reasons import BUILD_AGAIN

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.planning.steps.software_difference import SoftwareDifference


def reinstall_scripts(difference: SoftwareDifference, packages: frozenset[str]) -> ChangePackages:
    """Return the step that reinstalls packages whose missing scripts are needed to undeploy."""
    names = sorted(packages)
    return ChangePackages(
        change=PackageChange(reinstall=packages, managed=packages),
        applications={name: difference.application_of(name) for name in names},
        reason=f"deployments are undone with scripts of {', '.join(names)} that are missing",
    )


def change_packages(difference: SoftwareDifference, reinstalled: Collection[str]) -> ChangePackages | None:
    """Return the package transaction before the deployments, ``None`` if no package changes.

    ``reinstalled`` are the packages that an earlier step reinstalls.
    """
    lost = difference.lost.difference(reinstalled)
    remove = difference.dropped_patches | difference.displaced
    if not (difference.want or remove or difference.put_back or lost):
        return None
    unchanged = difference.wanted.needs.keys() - difference.want.keys()
    changeable = (difference.removable | difference.want.keys()) - unchanged
    of_system = difference.originals.keys() | difference.inventory.originals.keys()
    restored = {
        name: version
        for name, version in difference.put_back.items()
        if any(not has_version(package, version) for package in difference.inventory.packages.get(name, ()))
    }
    names = (*difference.want, *sorted(difference.displaced), *sorted(lost))
    return ChangePackages(
        change=PackageChange(
            want={**difference.want, **restored},
            remove=remove,
            managed=frozenset(changeable | lost | restored.keys()),
            reinstall=lost,
            preserve=frozenset(difference.originals),
        ),
        applications={name: difference.application_of(name) for name in names if name not in of_system},
        reason=_change_reason(difference, lost),
        originals=difference.originals,
        put_back=tuple(difference.put_back),
    )


def _change_reason(difference: SoftwareDifference, lost: Collection[str]) -> str:
    return ", ".join(
        [difference.reason_of(name) for name in difference.want]
        + [f"{name} has lost its deploy script" for name in sorted(lost)]
        + [f"{name} is no longer listed" for name in sorted(difference.dropped_patches)]
        + [f"{name} is checked out now" for name in sorted(difference.displaced)]
        + [f"{name} is the system's own and gets its version back" for name in difference.put_back]
    )


def check_out(difference: SoftwareDifference, name: str) -> CheckOut:
    """Return the step that checks out software, or brings its checkout up to date."""
    version, old_version = difference.wanted.checkouts[name], difference.inventory.checkouts.get(name)
    if old_version == version:
        reason = BUILD_AGAIN
    elif old_version is not None:
        reason = f"version changed from {old_version}"
    else:
        reason = "was a package" if name in difference.replaceable else "new"
    replaces = old_version is not None or name in difference.replaceable
    return CheckOut(package=name, version=version, replaces=replaces, reason=reason)


def remove_checkout(difference: SoftwareDifference, name: str) -> RemoveCheckout:
    """Return the step that removes a checkout."""
    is_package = name in difference.wanted.needs or name in difference.wanted.controller_packages
    reason = "it is a package now" if is_package else "no deployment needs it any more"
    return RemoveCheckout(name, difference.inventory.checkouts[name], reason)


def remove_software(difference: SoftwareDifference, applications: tuple[str, ...]) -> RemoveSoftware:
    """Return the step that removes unneeded packages and the directories of ended ``applications``."""
    managed, installed = difference.inventory.managed, difference.inventory.packages
    removed = frozenset(name for name in difference.unneeded if name in installed) - difference.dropped_patches
    return RemoveSoftware(
        change=PackageChange(remove=removed, managed=removed),
        packages=difference.unneeded,
        applications=applications,
        reason=f"no deployment needs {', '.join(difference.unneeded or applications)} any more",
        unregistered={
            name: difference.application_of(name) for name in difference.unneeded if name not in managed
        },
    )
