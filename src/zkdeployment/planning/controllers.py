"""Role controllers: the package that ``/roles/ROLE`` names, and what brings it up to date on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError, TreeError
from zkdeployment.model.checkout import is_checkout
from zkdeployment.model.deployment import Assignment
from zkdeployment.model.plan import ChangeController, PackageChange
from zkdeployment.planning.packages import has_version
from zkdeployment.planning.services import check_path, check_type, check_version, has_property, shown
from zkdeployment.planning.services import read_property as read

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.model.inventory import Inventory
    from zkdeployment.model.tree import Tree


def read_controller(tree: Tree, path: str) -> Assignment:
    """Read ``/roles/ROLE``, which has a ``type``; raises ``TreeError``.

    The type is the package's name, without a subtype; the version is a package's version.
    """
    check_path(path)
    package, subtype = check_type(read(tree, path, "type"))
    if subtype is not None:
        raise TreeError(f"type of a role controller is '{package} {subtype}', expected a package name alone")
    if not has_property(tree, path, "version"):
        raise TreeError(f"no version: expected the version of the role controller {package}")
    version = check_version(read(tree, path, "version"))
    check_controller_version(version)
    return Assignment(path=path, n=1, package=package, application=package, version=version)


def check_controller_version(version: str | None) -> None:
    """Raise ``TreeError`` unless a version is a package's."""
    if is_checkout(version):
        raise TreeError(
            f"version is {shown(version)}: a role controller cannot be a checkout in this version,"
            " expected a package's version like 1.4"
        )


def change_controller(
    controller: Assignment | None, needed: Collection[str], inventory: Inventory
) -> ChangeController | None:
    """Return the step that brings the role controller up to date, if one is needed.

    ``needed`` are the packages and checkouts of the wanted deployments, which stay whatever scripts they have.
    Only what is a package, or was installed by us, is ever removed. Raises ``HostFilesError`` if two controllers
    are installed, or a checkout, which never is a controller, has the place of the wanted one.
    """
    wanted = "" if controller is None else controller.package
    if wanted in inventory.checkouts:
        raise HostFilesError(
            f"/opt/{wanted} is a checkout, expected room for the role controller {wanted}:"
            " publish a revision without both first"
        )
    installed = inventory.controllers - inventory.checkouts.keys() - (frozenset(needed) - {wanted})
    # Ours beside the wanted one: a switch between the two was interrupted.
    extra = installed - {wanted} - (inventory.managed.keys() if wanted in installed else frozenset())
    if len(installed) > 1 and extra:
        raise HostFilesError(
            f"two role controllers are installed, {' and '.join(sorted(installed))}, expected one at most:"
            " remove what does not belong there"
        )
    removed = tuple(sorted(name for name in installed - {wanted} if _is_removable(name, inventory)))
    want: dict[str, str | None] = {}
    if controller is not None and not _is_there(controller, inventory):
        want[controller.package] = controller.version
    if not want and not removed:
        return None
    names = frozenset({*want, *removed})
    return ChangeController(
        change=PackageChange(
            want=want, remove=frozenset(name for name in removed if name in inventory.packages), managed=names
        ),
        removed=removed,
        registered={name: inventory.managed.get(name, name) for name in sorted(names)},
        reason=_reason(controller, removed, inventory),
    )


def _is_removable(name: str, inventory: Inventory) -> bool:
    return name in inventory.packages or name in inventory.managed


def _is_there(controller: Assignment, inventory: Inventory) -> bool:
    installed = inventory.packages.get(controller.package, ())
    version = controller.version
    return len(installed) == 1 and version is not None and has_version(installed[0], version)


def _reason(controller: Assignment | None, removed: tuple[str, ...], inventory: Inventory) -> str:
    if controller is None:
        return f"the role controller {', '.join(removed)} is not wanted any more"
    asked = f"{controller.path} asks for {controller.package} {controller.version}"
    found = removed or tuple(str(one) for one in inventory.packages.get(controller.package, ()))
    return f"{asked}, found {', '.join(found) or 'none'}"
