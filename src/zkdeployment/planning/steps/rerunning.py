"""Which recorded deployments are not run again at a new revision: the services with ``rerun = 'changed'``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.model.deployment import Rerun
from zkdeployment.planning.steps.step_reasons import why_deployed_again

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zkdeployment.model.deployment import Assignment, Deployment
    from zkdeployment.model.inventory import Inventory, Marker, Packages
    from zkdeployment.planning.steps.software_difference import SoftwareDifference


def unchanged_deployments(difference: SoftwareDifference, ended: Collection[Deployment]) -> frozenset[Deployment]:
    """Return the wanted deployments that are not run again, because nothing changed since they were deployed.

    ``ended`` are undeployed in the same plan; one that passes to another application may be among them. The
    deployments of one checkout are all run again or not at all, because running one renews the checkout. The
    deployments of the role controller's package are always run again.
    """
    assignments, markers = difference.wanted.assignments, markers_by_deployment(difference.inventory)
    unchanged = frozenset(
        deployment
        for assignment in assignments
        for deployment in assignment.deployments
        if deployment not in ended
        and _is_unchanged(assignment, markers.get((assignment.application, deployment)), difference)
    )
    renewed = {
        assignment.package
        for assignment in assignments
        if assignment.package in difference.wanted.checkouts and not unchanged.issuperset(assignment.deployments)
    }
    renewed |= difference.wanted.controller_packages
    lasting = (assignment for assignment in assignments if assignment.package not in renewed)
    return unchanged.intersection(deployment for assignment in lasting for deployment in assignment.deployments)


def markers_by_deployment(inventory: Inventory) -> Mapping[tuple[str, Deployment], Marker]:
    """Return the markers of a host by application and deployment."""
    return {(marker.application, marker.deployment): marker for marker in inventory.markers}


def reason_to_run(assignment: Assignment, marker: Marker, difference: SoftwareDifference) -> str:
    """Return why a recorded deployment is run again."""
    changes = _software_changes(assignment, marker, difference)
    return why_deployed_again(assignment, marker, changes, difference.wanted.identity)


def _is_unchanged(assignment: Assignment, marker: Marker | None, difference: SoftwareDifference) -> bool:
    """Whether a deployment was run with what is wanted now, and its packages are still the same."""
    if assignment.rerun is not Rerun.CHANGED or marker is None or marker.properties is None:
        return False
    deployed = (marker.package, marker.version, marker.subtype, marker.properties)
    wanted = (assignment.package, assignment.version, assignment.subtype, assignment.properties)
    is_same_host = difference.wanted.identity in {None, marker.identity}
    return deployed == wanted and is_same_host and not _software_changes(assignment, marker, difference)


def without_software_of(unchanged: Collection[Deployment], difference: SoftwareDifference) -> SoftwareDifference:
    """Return a difference without the packages that only these deployments need.

    Without a package manager, all needed packages seem to be missing.
    """
    names = {
        name
        for assignment in difference.wanted.assignments
        if not all(deployment in unchanged for deployment in assignment.deployments)
        for name in (assignment.package, *assignment.patches)
    }
    return replace(difference, want={name: version for name, version in difference.want.items() if name in names})


def _software_changes(assignment: Assignment, marker: Marker, difference: SoftwareDifference) -> Sequence[str]:
    """Return how the software of a recorded deployment changes, or changed since it was run, as sentences."""
    name, inventory = assignment.package, difference.inventory
    names = (name, *sorted(assignment.patches))
    changes = [difference.reason_of(package) for package in names if package in difference.want]
    if assignment.rerun is not Rerun.CHANGED or marker.properties is None:
        return changes
    if not inventory.packages and not marker.packages and name not in difference.wanted.checkouts:
        # No package manager: the script is all that is known of the software.
        return [] if name in inventory.scripts else [f"{name} has no deploy script"]
    changes += [f"{package} has lost its deploy script" for package in names if package in difference.lost]
    if name in difference.wanted.checkouts:
        if inventory.checkouts.get(name) != assignment.version or name not in inventory.scripts:
            changes.append(f"{name} is checked out anew")
    elif not changes and (found := installed_packages(assignment, inventory.packages)) != marker.packages:
        changes.append(f"{_listed(marker.packages)} to {_listed(found)}")
    return changes


def installed_packages(assignment: Assignment, packages: Packages) -> tuple[str, ...]:
    """Return the exact versions of the installed packages that a deployment consists of, sorted.

    Packages that these require are not included.
    """
    names = (assignment.package, *assignment.patches)
    return tuple(sorted(package.nevra for name in names for package in packages.get(name, ())))


def without_record(marker: Marker | None) -> Marker | None:
    """Return a marker without its record of what was deployed; ``None`` if it has no record."""
    if marker is None or marker.properties is None:
        return None
    return replace(marker, properties=None, packages=(), identity=None)


def _listed(packages: Iterable[str]) -> str:
    return ", ".join(packages) or "nothing"
