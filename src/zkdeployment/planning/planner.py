"""The planner: compares what a host is to run with its inventory, and returns the steps between the two.

Plans have no memory. A step that a crash interrupted shows in the inventory, and the next plan completes it. The
reasons of steps are worded in ``step_reasons``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.checkout import is_checkout
from zkdeployment.model.names import AGENT_PACKAGE, application_of
from zkdeployment.model.plan import (
    ChangePackages,
    CheckOut,
    Deploy,
    EndDeployments,
    PackageChange,
    Plan,
    RemoveCheckout,
    RemoveSoftware,
    StartDeployments,
    Undeploy,
)
from zkdeployment.planning.controllers import change_controller
from zkdeployment.planning.ownership import removable_packages
from zkdeployment.planning.packages import has_version
from zkdeployment.planning.step_reasons import (
    BUILD_AGAIN,
    RUN_AGAIN,
    package_change,
    why_deployed_again,
    why_undeployed,
)
from zkdeployment.planning.undeploying import find_script

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from zkdeployment.model.deployment import Assignment, Deployment
    from zkdeployment.model.inventory import Inventory, Marker
    from zkdeployment.model.plan import Step


@dataclass(frozen=True, slots=True)
class _Need:
    """The version (``None``: any) and the application of a package that wanted deployments need."""

    version: str | None
    application: str


def plan(
    wanted: Sequence[Assignment],
    inventory: Inventory,
    controller: Assignment | None = None,
    *,
    services: Collection[str] = (),
) -> Plan:
    """Return the steps from a host's inventory to the ``wanted`` assignments, each with its reason.

    ``wanted`` is free of conflicts, which ``targets`` has checked. The order is: undeploy, one package
    transaction, renew all checkouts, run all wanted deployments, remove software that nothing needs any more. The
    plan changes only packages that are wanted, registered as managed, or own the deploy script under their name.
    The agent's own package may be wanted, but is never removed.

    ``controller`` is the role controller: it is brought up to date first, and its scripts bracket all steps but
    the undeployments. ``services`` are the paths of services in the tree, perhaps for other hosts only:
    deployments of these are undeployed under their locks, after those of services that left the tree. Only
    ``unwanted_services`` matter. Raises ``HostFilesError`` if the host has two controllers, if deployments occupy
    the controller's directory, or if the script of an undeployment is lost and cannot be reinstalled.
    """
    planner = _Planner(wanted, inventory, controller, services)
    return Plan(tuple(planner.steps()), planner.handover)


def unwanted_services(wanted: Sequence[Assignment], inventory: Inventory) -> frozenset[str]:
    """Return the paths of services that a host has but should not have; the tree may have them for others."""
    deployed = frozenset(marker.deployment.path for marker in inventory.markers)
    return deployed.difference(assignment.path for assignment in wanted)


def is_repetition(step: Step) -> bool:
    """Whether a step repeats what was done for the previous revision, as each revision does."""
    match step:
        case Deploy(reason=reason):
            return reason == RUN_AGAIN
        case CheckOut(reason=reason):
            return reason == BUILD_AGAIN
    return isinstance(step, StartDeployments | EndDeployments)


class _Planner:
    """Compares one host's inventory with its wanted assignments; the methods are in the order of the steps."""

    def __init__(
        self,
        wanted: Sequence[Assignment],
        inventory: Inventory,
        controller: Assignment | None,
        services: Collection[str],
    ) -> None:
        self.inventory = inventory
        self.controller = controller
        self.controller_packages = frozenset(() if controller is None else (controller.package,))
        self.wanted = sorted((assignment for assignment in wanted if assignment.n), key=_path)
        self.applications = {assignment.application for assignment in self.wanted}
        deployments = {
            (assignment.application, deployment)
            for assignment in self.wanted
            for deployment in assignment.deployments
        }
        self.locked = {assignment.path for assignment in wanted}.union(services)
        self.obsolete = [
            marker for marker in inventory.markers if (marker.application, marker.deployment) not in deployments
        ]
        self.handover = None if controller is not None else max(self._handovers(), default=None)
        software = self.wanted if controller is None else [*self.wanted, controller]
        self.checkouts = {
            assignment.package: assignment.version
            for assignment in software
            if assignment.version and is_checkout(assignment.version)
        }
        self.needs = _needs([assignment for assignment in self.wanted if assignment.package not in self.checkouts])
        self.controller_change = change_controller(controller, {*self.needs, *self.checkouts}, inventory)
        # The controller's step has changed these packages before the other steps begin.
        changed = frozenset() if self.controller_change is None else self.controller_change.change.managed
        self.want = {
            name: need.version
            for name, need in sorted(self.needs.items())
            if name not in changed and not self._has(name)
        }
        # Installed packages whose deploy script is missing have to be reinstalled.
        deployed = {assignment.package for assignment in self.wanted}
        lost = inventory.lost_scripts | (deployed & inventory.packages.keys() - inventory.scripts.keys())
        self.lost = (self.needs.keys() & lost) - self.want.keys() - changed
        self.marked = {
            marker.package: marker.application for marker in inventory.markers if marker.package is not None
        }
        self._compare_removals(changed)
        self.undeploys = [self._undeploy(marker) for marker in sorted(self.obsolete, key=self._undeployment_order)]
        #: Packages to reinstall first, because their missing scripts are needed to undeploy.
        self.reinstalled_first = frozenset(step.package for step in self.undeploys if step.script is None)

    def _compare_removals(self, changed: frozenset[str]) -> None:
        """Find what the host has and does not need; the controller's step changes the packages ``changed``."""
        inventory = self.inventory
        # A directory whose script no package owns may be somebody's copy and is never cleared.
        scripts = (inventory.scripts.keys() | inventory.lost_scripts) - inventory.checkouts.keys()
        self.replaceable = removable_packages(inventory.managed.keys() | scripts | changed, inventory)
        self.removable = self.replaceable - changed - self.controller_packages
        self.unneeded = sorted(self.removable - self.needs.keys() - self.checkouts.keys())
        self.displaced = frozenset(self.removable & self.checkouts.keys() & inventory.packages.keys())
        self.dropped_patches = frozenset(name for name in self.unneeded if self._is_dropped_patch(name))
        # Packages of the system: the versions before their first change, and those to restore.
        self.originals = {
            name: inventory.packages[name][0].evr
            for name in self.want
            if len(inventory.packages.get(name, ())) == 1
            and name not in self.replaceable | inventory.originals.keys() | {AGENT_PACKAGE}
        }
        needed = self.needs.keys() | self.checkouts.keys() | changed
        self.put_back = {
            name: version
            for name, version in sorted(inventory.originals.items())
            if name not in needed | self.controller_packages
        }

    def steps(self) -> Iterator[Step]:
        """Yield the steps in the order of their execution."""
        yield from self._controller()
        if self.reinstalled_first:
            yield self._reinstall_scripts()
        yield from self.undeploys
        if self.controller is not None:
            yield StartDeployments(self.controller, "before the deployments")
        old_checkouts = sorted(self.inventory.checkouts.keys() - self.checkouts.keys() - self.controller_packages)
        yield from (self._remove_checkout(name) for name in old_checkouts if name in self.needs)
        changes = self.want or self.dropped_patches or self.displaced or self.put_back
        if changes or self.lost - self.reinstalled_first:
            yield self._change_packages()
        yield from (self._check_out(name) for name in sorted(self.checkouts.keys() - self.controller_packages))
        markers = {(marker.application, marker.deployment): marker for marker in self.inventory.markers}
        for assignment in sorted(self.wanted, key=lambda wanted: wanted.path != self.handover):
            for deployment in assignment.deployments:
                yield self._deploy(assignment, deployment, markers.get((assignment.application, deployment)))
        unneeded_checkouts = [name for name in old_checkouts if name not in self.needs]
        ended = {step.application for step in self.undeploys}.union(
            unneeded_checkouts, (self._application_of(name) for name in self.unneeded)
        )
        if self.unneeded or ended - self.applications:
            yield self._remove_software(tuple(sorted(ended - self.applications)))
        # A checkout's directory is its only record, so its removal comes last.
        yield from (self._remove_checkout(name) for name in unneeded_checkouts)
        if self.controller is not None:
            yield EndDeployments(self.controller, "after the deployments")

    def _controller(self) -> Iterator[Step]:
        """Yield the steps that bring the controller up to date.

        The checkout of another controller is removed with the other unneeded checkouts.
        """
        for name in self.controller_packages & self.inventory.checkouts.keys() - self.checkouts.keys():
            yield self._remove_checkout(name)
        if self.controller_change is not None:
            yield self.controller_change
        for name in self.controller_packages & self.checkouts.keys():
            yield self._check_out(name)

    def _handovers(self) -> Iterator[str]:
        """Return the paths of services that pass from one application to another on this host."""
        deployed = {(marker.application, marker.deployment.path) for marker in self.inventory.markers}
        ending = {marker.deployment.path for marker in self.obsolete}
        return (
            assignment.path
            for assignment in self.wanted
            if assignment.path in ending and (assignment.application, assignment.path) not in deployed
        )

    def _undeployment_order(self, marker: Marker) -> tuple[bool, bool, Deployment, str]:
        """Return the sort key: deployments without a lock first, the one whose lock is handed over last."""
        path = marker.deployment.path
        return path in self.locked, path == self.handover, marker.deployment, marker.application

    def _undeploy(self, marker: Marker) -> Undeploy:
        script, package = find_script(marker, self.inventory, self._application_of)
        return Undeploy(
            deployment=marker.deployment,
            application=marker.application,
            script=script,
            files=marker.files,
            reason=why_undeployed(marker, self.wanted),
            locked=marker.deployment.path in self.locked,
            package=package,
        )

    def _reinstall_scripts(self) -> ChangePackages:
        names = sorted(self.reinstalled_first)
        return ChangePackages(
            change=PackageChange(reinstall=self.reinstalled_first, managed=self.reinstalled_first),
            applications={name: self._application_of(name) for name in names},
            reason=f"deployments are undone with scripts of {', '.join(names)} that are missing",
        )

    def _change_packages(self) -> ChangePackages:
        unchanged = self.needs.keys() - self.want.keys()
        changeable = (self.removable | self.want.keys()) - unchanged
        remove = self.dropped_patches | self.displaced
        reinstalled = self.lost - self.reinstalled_first
        of_system = self.originals.keys() | self.inventory.originals.keys()
        restored = {name: version for name, version in self.put_back.items() if self._is_changed(name, version)}
        names = (*self.want, *sorted(self.displaced), *sorted(reinstalled))
        return ChangePackages(
            change=PackageChange(
                want=self.want | restored,
                remove=remove,
                managed=frozenset(changeable | reinstalled | restored.keys()),
                reinstall=frozenset(reinstalled),
                preserve=frozenset(self.originals),
            ),
            applications={name: self._application_of(name) for name in names if name not in of_system},
            reason=", ".join(
                [self._change_of(name) for name in self.want]
                + [f"{name} has lost its deploy script" for name in sorted(reinstalled)]
                + [f"{name} is no longer listed" for name in sorted(self.dropped_patches)]
                + [f"{name} is checked out now" for name in sorted(self.displaced)]
                + [f"{name} is the system's own and gets its version back" for name in self.put_back]
            ),
            originals=self.originals,
            put_back=tuple(self.put_back),
        )

    def _check_out(self, name: str) -> CheckOut:
        version, old_version = self.checkouts[name], self.inventory.checkouts.get(name)
        if old_version == version:
            reason = BUILD_AGAIN
        elif old_version is not None:
            reason = f"version changed from {old_version}"
        else:
            reason = "was a package" if name in self.replaceable else "new"
        replaces = old_version is not None or name in self.replaceable
        return CheckOut(package=name, version=version, replaces=replaces, reason=reason)

    def _remove_checkout(self, name: str) -> RemoveCheckout:
        is_package = name in self.needs or name in self.controller_packages
        reason = "it is a package now" if is_package else "no deployment needs it any more"
        return RemoveCheckout(name, self.inventory.checkouts[name], reason)

    def _deploy(self, assignment: Assignment, deployment: Deployment, marker: Marker | None) -> Deploy:
        files = () if marker is None else marker.files
        packages = (assignment.package, *sorted(assignment.patches))
        changes = [self._change_of(name) for name in packages if name in self.want]
        return Deploy(
            assignment=assignment,
            deployment=deployment,
            reason="new" if marker is None else why_deployed_again(assignment, marker, changes),
            stale_files=tuple(file for file in files if file != deployment.marker_name),
        )

    def _remove_software(self, applications: tuple[str, ...]) -> RemoveSoftware:
        managed, installed = self.inventory.managed, self.inventory.packages
        removed = frozenset(name for name in self.unneeded if name in installed) - self.dropped_patches
        names = self.unneeded or applications
        return RemoveSoftware(
            change=PackageChange(remove=removed, managed=removed),
            packages=tuple(self.unneeded),
            applications=applications,
            reason=f"no deployment needs {', '.join(names)} any more",
            unregistered={name: self._application_of(name) for name in self.unneeded if name not in managed},
        )

    def _has(self, name: str) -> bool:
        """Whether a needed package is installed once, in the needed version."""
        installed = self.inventory.packages.get(name, ())
        version = self.needs[name].version
        releases = {(package.epoch, package.version, package.release) for package in installed}
        return len(releases) == 1 and (version is None or has_version(installed[0], version))

    def _is_changed(self, name: str, version: str) -> bool:
        """Whether a package of the system is installed in another version than its original one."""
        return any(not has_version(package, version) for package in self.inventory.packages.get(name, ()))

    def _is_dropped_patch(self, name: str) -> bool:
        """Whether an unneeded package without a deploy script is a patch of an application that stays.

        Software that lost its script is no patch, even after its deployments have moved to another package.
        """
        inventory = self.inventory
        return (
            name in inventory.packages
            and name not in inventory.scripts
            and name not in inventory.lost_scripts
            and name not in self.marked
            and inventory.managed[name] in self.applications
        )

    def _application_of(self, package: str) -> str:
        """Return a package's application: as registered, needed or marked, else by name (``foo-1.4``: ``foo``)."""
        if package in self.inventory.managed:
            return self.inventory.managed[package]
        if package in self.checkouts or package in self.inventory.checkouts:
            return package
        if package in self.needs:
            return self.needs[package].application
        if package in self.marked:
            return self.marked[package]
        return application_of(package)

    def _change_of(self, name: str) -> str:
        return package_change(name, self.needs[name].version, self.inventory.packages.get(name, ()))


def _path(assignment: Assignment) -> str:
    return assignment.path


def _needs(wanted: Sequence[Assignment]) -> dict[str, _Need]:
    """Return the needed packages by name.

    An exact version has precedence over any version, the package of a deployment over a patch.
    """
    needs: dict[str, _Need] = {}
    own = ((assignment.package, _Need(assignment.version, assignment.application)) for assignment in wanted)
    patches = (
        (name, _Need(version, assignment.application))
        for assignment in wanted
        for name, version in assignment.patches.items()
    )
    for name, need in (*own, *patches):
        known = needs.setdefault(name, need)
        if known.version is None:
            needs[name] = _Need(need.version, known.application)
    return needs
