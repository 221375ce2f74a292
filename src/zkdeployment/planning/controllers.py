"""Role controllers: reads ``/roles/ROLE``, and plans the change of the controller's package on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError, TreeError
from zkdeployment.model.checkout import is_checkout
from zkdeployment.model.deployment import Assignment
from zkdeployment.model.plan import ChangeController, PackageChange
from zkdeployment.planning.packages import has_version
from zkdeployment.planning.services import check_path, check_type, check_version, has_property
from zkdeployment.planning.services import read_property as read
from zkdeployment.planning.steps.ownership import removable_packages

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.model.inventory import Inventory
    from zkdeployment.model.tree import Tree


def read_controller(tree: Tree, path: str) -> Assignment:
    """Return the controller of ``/roles/ROLE``, which has a ``type``; raises ``TreeError``.

    The type is the package's name, without a subtype; the version is a package's or a checkout's.
    """
    check_path(path)
    package, subtype = check_type(read(tree, path, "type"))
    if subtype is not None:
        raise TreeError(f"type of a role controller is '{package} {subtype}', expected a package name alone")
    if not has_property(tree, path, "version"):
        raise TreeError(f"no version: expected the version of the role controller {package}")
    version = check_version(read(tree, path, "version"))
    return Assignment(path=path, n=1, package=package, application=package, version=version)


def change_controller(
    controller: Assignment | None, needed: Collection[str], inventory: Inventory
) -> ChangeController | None:
    """Return the step that brings the role controller's package up to date, if one is needed.

    For a controller that is a checkout, the step removes the package in its place. ``needed`` are the packages and
    checkouts of the wanted deployments, which are kept even if they have a controller's scripts. Raises
    ``HostFilesError`` if two packages of controllers are installed, or if deployments use the software in the
    controller's directory.
    """
    wanted = "" if controller is None else controller.package
    package = None if controller is None or is_checkout(controller.version) else controller
    _check_place(controller, inventory)
    # Unneeded checkouts are removed with those of deployments.
    installed = inventory.controllers - inventory.checkouts.keys() - (frozenset(needed) - {wanted})
    # A managed controller beside the wanted one is left from an interrupted switch between the two.
    extra = installed - {wanted} - (inventory.managed.keys() if wanted in installed else frozenset())
    if len(installed) > 1 and extra:
        raise HostFilesError(
            f"two role controllers are installed, {' and '.join(sorted(installed))}, expected one at most:"
            " remove the one that does not belong on this host"
        )
    if package is None and wanted in inventory.packages.keys() & (
        inventory.managed.keys() | inventory.scripts.keys()
    ):
        installed |= {wanted}
    unwanted = installed if package is None else installed - {wanted}
    removed = tuple(sorted(removable_packages(unwanted, inventory)))
    want: dict[str, str | None] = {}
    if package is not None and not _is_there(package, inventory):
        want[package.package] = package.version
    again = frozenset() if package is None or want else _lost(wanted, inventory)
    if not want and not removed and not again:
        return None
    names = frozenset({*want, *removed, *again})
    return ChangeController(
        change=PackageChange(
            want=want,
            remove=frozenset(name for name in removed if name in inventory.packages),
            managed=names,
            reinstall=again,
        ),
        removed=removed,
        registered={name: inventory.managed.get(name, name) for name in sorted(names)},
        reason=f"{wanted} has lost its scripts" if again else _reason(controller, removed, inventory),
    )


def _check_place(controller: Assignment | None, inventory: Inventory) -> None:
    """Raise ``HostFilesError`` if deployments would lose the script that undeploys them.

    The controller changes before the undeployments. A new version of a package or a checkout may undeploy what
    the old version deployed, but a checkout and a package are different software.
    """
    if controller is None:
        return
    name, is_checked_out = controller.package, controller.package in inventory.checkouts
    used = any(name == (marker.package or marker.application) for marker in inventory.markers)
    if used and is_checked_out is not is_checkout(controller.version):
        raise HostFilesError(
            f"/opt/{name} is {'a checkout' if is_checked_out else 'no checkout'} with deployments, expected room"
            f" for the role controller {name} {controller.version}: publish a revision without both first"
        )


def _is_there(controller: Assignment, inventory: Inventory) -> bool:
    installed = inventory.packages.get(controller.package, ())
    version = controller.version
    return len(installed) == 1 and version is not None and has_version(installed[0], version)


def _lost(name: str, inventory: Inventory) -> frozenset[str]:
    """Return the controller's name if its package is installed but its scripts are missing."""
    return frozenset({name} if name in inventory.lost_scripts or name not in inventory.controllers else ())


def _reason(controller: Assignment | None, removed: tuple[str, ...], inventory: Inventory) -> str:
    if controller is None:
        return f"the role controller {', '.join(removed)} is not wanted any more"
    asked = f"{controller.path} asks for {controller.package} {controller.version}"
    installed = removed or tuple(str(package) for package in inventory.packages.get(controller.package, ()))
    return f"{asked}, found {', '.join(installed) or 'none'}"
