"""Decides which recorded deployments end, in which order, and which do not run again at a new revision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.software import SoftwareDifference, why_deployed_again, why_undeployed
from zkdeployment.base import names
from zkdeployment.base.deployment import Assignment, Deployment, Rerun
from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.inventory import Inventory, Marker, Packages, version_key
from zkdeployment.base.plan import Undeploy
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence


def unchanged_deployments(difference: SoftwareDifference, ended: Collection[Deployment]) -> frozenset[Deployment]:
    """Return the wanted deployments that are not run again, because nothing changed since they were deployed.

    ``ended`` are undeployed in the same plan; these may include a deployment that passes to another application.
    The deployments of one checkout all run again or none does, because a run renews the checkout. The deployments
    of the role controller's package are always run again.
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
    """Whether a deployment ran with the wanted properties, and its packages are unchanged."""
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
    """Return sentences on the changes of a recorded deployment's software, since its run or in this plan."""
    name, inventory = assignment.package, difference.inventory
    names = (name, *sorted(assignment.patches))
    changes = [difference.reason_of(package) for package in names if package in difference.want]
    if assignment.rerun is not Rerun.CHANGED or marker.properties is None:
        return changes
    if not inventory.packages and not marker.packages and name not in difference.wanted.checkouts:
        # Without a package manager, only the script is known of the software.
        return [] if name in inventory.scripts else [f"{name} has no deploy script"]
    changes += [f"{package} has lost its deploy script" for package in names if package in difference.lost]
    if name in difference.wanted.checkouts:
        if inventory.checkouts.get(name) != assignment.version or name not in inventory.scripts:
            changes.append(f"{name} is checked out anew")
    elif not changes and (found := installed_packages(assignment, inventory.packages)) != marker.packages:
        changes.append(f"{_listed(marker.packages)} to {_listed(found)}")
    return changes


def installed_packages(assignment: Assignment, packages: Packages) -> tuple[str, ...]:
    """Return the exact versions of the installed packages of a deployment, sorted.

    Packages that these require are not included.
    """
    names = (assignment.package, *assignment.patches)
    return tuple(sorted(package.nevra for name in names for package in packages.get(name, ())))


def without_record(marker: Marker | None) -> Marker | None:
    """Return a marker without its record of the deployment; ``None`` if it has no record."""
    if marker is None or marker.properties is None:
        return None
    return replace(marker, properties=None, packages=(), identity=None)


def _listed(packages: Iterable[str]) -> str:
    return ", ".join(packages) or "nothing"


@dataclass(frozen=True)
class EndingDeployments:
    """The undeployments of a host, in order: first ``undeploys``, and ``last`` after the deployments.

    ``handover`` is the path of the service that passes from one application to another on this host, whose lock
    is kept in between; ``None`` if there is no such service.
    """

    undeploys: tuple[Undeploy, ...]
    handover: str | None
    last: tuple[Undeploy, ...] = ()


def end_deployments(
    difference: SoftwareDifference,
    services: Collection[str],
    lasting: Collection[str],
    groups: Mapping[str, str | None],
) -> EndingDeployments:
    """Return the undeployments of recorded deployments that are not wanted.

    ``services`` are the paths of services in the tree, ``lasting`` the paths of services that the host keeps until
    other hosts have them, and ``groups`` the groups of all services by path. Deployments without a lock come
    first, the one whose lock is handed over comes last. A service that becomes another application, or whose
    software is replaced by other software, is not kept. Raises ``HostFilesError`` if a script is lost and cannot
    be reinstalled.
    """
    assignments, inventory = difference.wanted.assignments, difference.inventory
    kept = {
        (assignment.application, deployment) for assignment in assignments for deployment in assignment.deployments
    }
    ending = [marker for marker in inventory.markers if (marker.application, marker.deployment) not in kept]
    handovers = () if difference.wanted.controller is not None else _handovers(assignments, inventory, ending)
    handover = max(handovers, default=None)

    def order(marker: Marker) -> tuple[bool, bool, Deployment, str]:
        path = marker.deployment.path
        return path in services, path == handover, marker.deployment, marker.application

    applications = {assignment.path: assignment.application for assignment in assignments}
    undeploys: list[Undeploy] = []
    last: list[Undeploy] = []
    for marker in sorted(ending, key=order):
        path = marker.deployment.path
        step = replace(undeploy_step(marker, difference), locked=path in services, group=groups[path])
        is_kept = path in lasting and applications.get(path, marker.application) == marker.application
        if is_kept and _keeps_script(step.package, difference):
            last.append(replace(step, last=True, locked=True))
        else:
            undeploys.append(step)
    return EndingDeployments(tuple(undeploys), handover, tuple(last))


def groups_of_services(
    wanted: Iterable[Assignment], inventory: Inventory, published: Mapping[str, str]
) -> Mapping[str, str | None]:
    """Return the deployment intent group of each service that a host has or should have, by path.

    The publication decides: by the assignment of the host, or by ``published``, the groups of services that the
    host should not have. The group that the markers record only counts for a service that the publication does not
    name any more: the marker may be older than the group.
    """
    groups: dict[str, str | None] = {}
    for marker in inventory.markers:
        path = marker.deployment.path
        groups[path] = published.get(path, marker.group or groups.get(path))
    return groups | {assignment.path: assignment.group for assignment in wanted}


def leaving_services(wanted: Iterable[Assignment], inventory: Inventory) -> frozenset[str]:
    """Return the paths of services of which a host has more instances than it should have."""
    numbers = {assignment.path: assignment.n for assignment in wanted}
    return frozenset(
        marker.deployment.path
        for marker in inventory.markers
        if marker.deployment.number >= numbers.get(marker.deployment.path, 0)
    )


def _keeps_script(package: str, difference: SoftwareDifference) -> bool:
    """Whether a package or a checkout stays installed until the end of the plan."""
    if package in difference.inventory.checkouts:
        return package not in difference.wanted.needs
    return package not in {*difference.displaced, *difference.dropped_patches, *difference.put_back}


def _handovers(assignments: Iterable[Assignment], inventory: Inventory, ending: Iterable[Marker]) -> Iterator[str]:
    """Return the paths of services that pass from one application to another on this host.

    The result omits services that are deployed after services of other hosts: a lock would be held during the
    wait.
    """
    deployed = {(marker.application, marker.deployment.path) for marker in inventory.markers}
    ending_paths = {marker.deployment.path for marker in ending}
    return (
        assignment.path
        for assignment in assignments
        if not assignment.after
        and assignment.path in ending_paths
        and (assignment.application, assignment.path) not in deployed
    )


def undeploy_step(marker: Marker, difference: SoftwareDifference) -> Undeploy:
    """Return the undeployment of a recorded deployment, without its lock and its group.

    Raises ``HostFilesError`` if the script is lost and cannot be reinstalled.
    """
    script, package = _find_script(marker, difference.inventory, difference.application_of)
    return Undeploy(
        deployment=marker.deployment,
        application=marker.application,
        script=script,
        files=marker.files,
        reason=why_undeployed(marker, difference.wanted.assignments),
        package=package,
        unrecorded=without_record(marker),
    )


def _find_script(
    marker: Marker, inventory: Inventory, application_of: Callable[[str], str]
) -> tuple[str | None, str]:
    """Return the script that undeploys a deployment (``None``: missing) and the package of that script.

    The script is that of the recorded package, else the recorded script, else that of the application's newest
    package. If the script is missing, the package is installed and can be reinstalled. Raises ``HostFilesError``
    if there is neither a script nor such a package: without a script, the deployment's processes cannot be ended.
    """
    scripts = {name: script for name, script in inventory.scripts.items() if name not in inventory.lost_scripts}
    if marker.package is not None:
        if marker.package in scripts:
            return scripts[marker.package], marker.package
        if _is_installed(marker.package, inventory):
            return None, marker.package
    for name, script in scripts.items():
        if script == marker.script:
            return script, name
    installed = [name for name in inventory.packages if _is_installed(name, inventory)]
    for packages in (scripts, installed):
        candidates = [name for name in packages if application_of(name) == marker.application]
        if candidates:
            # A package named after the application takes precedence over its patches.
            best = max(
                candidates, key=lambda name: (names.application_of(name) == marker.application, version_key(name))
            )
            return scripts.get(best), best
    raise HostFilesError(_missing(marker))


def _is_installed(name: str, inventory: Inventory) -> bool:
    return name in inventory.packages and name not in inventory.checkouts


def _missing(marker: Marker) -> str:
    package = marker.package or marker.application
    script = marker.script or f"/opt/{package}/bin/zookeeper-deploy"
    files = ", ".join(f"/etc/{marker.application}/{name}" for name in marker.files)
    return (
        f"cannot undeploy {marker.deployment} ({marker.application}): expected its deploy script {script}, found"
        f" neither the script nor an installed package that has it; install {package} again, or end what the"
        f" deployment runs by hand and remove {files}"
    )
