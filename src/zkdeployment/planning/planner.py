"""The planner: what a host is to run, against what it has, gives the steps to take.

Nothing is remembered between two plans. Whatever a crash left half-done is found in the inventory, and the
next plan goes on from there.
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
from zkdeployment.planning.undeploying import find_script

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from zkdeployment.model.deployment import Assignment, Deployment
    from zkdeployment.model.inventory import Inventory, Marker, Package
    from zkdeployment.model.plan import Step

_RUN_AGAIN = "run again for this revision"
_BUILD_AGAIN = "update and build again for this revision"


@dataclass(frozen=True, slots=True)
class _Need:
    """A package that some wanted deployment needs, the version (``None``: any) and whose it is."""

    version: str | None
    application: str


def plan(
    wanted: Sequence[Assignment],
    inventory: Inventory,
    controller: Assignment | None = None,
    *,
    services: Collection[str] = (),
) -> Plan:
    """Return the steps from what a host has to what it is to run, each with its reason.

    ``wanted`` is free of conflicts (``planning.targets`` sees to that). Old deployments go first, then one package
    transaction, then every checkout anew, then every wanted deployment, then software that nothing needs any more.
    Of packages only those are touched that are wanted, registered as managed, or have a deploy script under their
    name that is no checkout's. Our own may be wanted, but is never removed: nothing would bring it back.

    ``controller`` is the role's: it is brought up to date before anything else, and its scripts bracket all but
    the removal of old deployments. Raises ``HostFilesError`` if the host has two controllers, or deployments in
    the place of the wanted one, or if a deployment is to be undone whose script cannot be had.

    ``services`` are paths of services that the tree has, perhaps for other hosts only: what the host has of them
    is undeployed under a lock, after what is gone from the tree. ``unwanted_services`` names those that matter.
    """
    planner = _Planner(wanted, inventory, controller, services)
    return Plan(tuple(planner.steps()), planner.handover)


def unwanted_services(wanted: Sequence[Assignment], inventory: Inventory) -> frozenset[str]:
    """Return the services that a host has and is not to have: only the tree says whether they are gone from it."""
    return frozenset(marker.deployment.path for marker in inventory.markers).difference(one.path for one in wanted)


def is_repetition(step: Step) -> bool:
    """Whether a step only does again what was done for the revision before, as every revision does."""
    match step:
        case Deploy(reason=reason):
            return reason == _RUN_AGAIN
        case CheckOut(reason=reason):
            return reason == _BUILD_AGAIN
    return isinstance(step, StartDeployments | EndDeployments)


class _Planner:
    """One plan in the making; the methods are in the order of the steps."""

    def __init__(
        self,
        wanted: Sequence[Assignment],
        inventory: Inventory,
        controller: Assignment | None,
        services: Collection[str],
    ) -> None:
        self.inventory = inventory
        self.controller = controller
        self.controllers_place = frozenset(() if controller is None else (controller.package,))
        self.wanted = sorted((one for one in wanted if one.n), key=lambda one: one.path)
        self.applications = {one.application for one in self.wanted}
        self.deployments = {(one.application, deployment) for one in self.wanted for deployment in one.deployments}
        self.locked = {one.path for one in wanted}.union(services)
        self.obsolete = [
            one for one in inventory.markers if (one.application, one.deployment) not in self.deployments
        ]
        self.handover = None if controller is not None else max(self._change_hands(), default=None)
        software = self.wanted if controller is None else [*self.wanted, controller]
        self.checkouts = {one.package: one.version for one in software if one.version and is_checkout(one.version)}
        self.needs = _needs([one for one in self.wanted if one.package not in self.checkouts])
        self.controller_change = change_controller(controller, {*self.needs, *self.checkouts}, inventory)
        # What the step for the controller does is done when the others begin.
        changed = frozenset() if self.controller_change is None else self.controller_change.change.managed
        self.want = {
            name: need.version
            for name, need in sorted(self.needs.items())
            if name not in changed and not self._has(name)
        }
        # What has to be installed again: the database says that it is there, but its script is not.
        own = {one.package for one in self.wanted}
        lost = inventory.lost_scripts | (own & inventory.packages.keys() - inventory.scripts.keys())
        self.lost = (self.needs.keys() & lost) - self.want.keys() - changed
        self.marked = {one.package: one.application for one in inventory.markers if one.package is not None}
        # A directory whose script no package owns may be somebody's copy and is never cleared.
        scripts = (inventory.scripts.keys() | inventory.lost_scripts) - inventory.checkouts.keys()
        self.replaceable = removable_packages(inventory.managed.keys() | scripts | changed, inventory)
        self.ours = self.replaceable - changed - self.controllers_place
        self.unneeded = sorted(self.ours - self.needs.keys() - self.checkouts.keys())
        self.displaced = frozenset(self.ours & self.checkouts.keys() & inventory.packages.keys())
        self.dropped_patches = frozenset(name for name in self.unneeded if self._is_dropped_patch(name))
        self.undeploys = [self._undeploy(marker) for marker in sorted(self.obsolete, key=self._undeployment_order)]
        # The system's own packages: those that change first, and those that nothing needs any more.
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
            if name not in needed | self.controllers_place
        }
        #: Packages whose scripts undeploy something, but are missing.
        self.lost_before = frozenset(step.package for step in self.undeploys if step.script is None)

    def steps(self) -> Iterator[Step]:
        """Give the steps in the order in which they are to be taken."""
        yield from self._controller()
        if self.lost_before:
            yield self._reinstall()
        yield from self.undeploys
        if self.controller is not None:
            yield StartDeployments(self.controller, "before the deployments")
        had = sorted(self.inventory.checkouts.keys() - self.checkouts.keys() - self.controllers_place)
        yield from (self._remove_checkout(name) for name in had if name in self.needs)
        changes = self.want or self.dropped_patches or self.displaced or self.put_back
        if changes or self.lost - self.lost_before:
            yield self._change_packages()
        yield from (self._check_out(name) for name in sorted(self.checkouts.keys() - self.controllers_place))
        markers = {(one.application, one.deployment): one for one in self.inventory.markers}
        for one in sorted(self.wanted, key=lambda one: one.path != self.handover):
            for deployment in one.deployments:
                yield self._deploy(one, deployment, markers.get((one.application, deployment)))
        gone = [name for name in had if name not in self.needs]
        left = {step.application for step in self.undeploys}.union(
            gone, (self._application_of(name) for name in self.unneeded)
        )
        if self.unneeded or left - self.applications:
            yield self._remove_software(tuple(sorted(left - self.applications)))
        # What was checked out here is forgotten with its directory, so that goes last.
        yield from (self._remove_checkout(name) for name in gone)
        if self.controller is not None:
            yield EndDeployments(self.controller, "after the deployments")

    def _controller(self) -> Iterator[Step]:
        """Bring the controller up to date. A checkout that was one goes with the other unneeded ones, later."""
        for name in self.controllers_place & self.inventory.checkouts.keys() - self.checkouts.keys():
            yield self._remove_checkout(name)
        if self.controller_change is not None:
            yield self.controller_change
        for name in self.controllers_place & self.checkouts.keys():
            yield self._check_out(name)

    def _change_hands(self) -> Iterator[str]:
        """Yield the services that are deployed here, and are to be: as another application only."""
        had = {(one.application, one.deployment.path) for one in self.inventory.markers}
        old = {one.deployment.path for one in self.obsolete}
        return (one.path for one in self.wanted if one.path in old and (one.application, one.path) not in had)

    def _undeployment_order(self, marker: Marker) -> tuple[bool, bool, Deployment, str]:
        """What needs no lock goes first; what is deployed anew under the same lock goes last."""
        path = marker.deployment.path
        return path in self.locked, path == self.handover, marker.deployment, marker.application

    def _undeploy(self, marker: Marker) -> Undeploy:
        script, package = find_script(marker, self.inventory, self._application_of)
        return Undeploy(
            deployment=marker.deployment,
            application=marker.application,
            script=script,
            files=marker.files,
            reason=self._why_obsolete(marker),
            locked=marker.deployment.path in self.locked,
            package=package,
        )

    def _reinstall(self) -> ChangePackages:
        names = sorted(self.lost_before)
        return ChangePackages(
            change=PackageChange(reinstall=self.lost_before, managed=self.lost_before),
            applications={name: self._application_of(name) for name in names},
            reason=f"deployments are undone with scripts of {', '.join(names)} that are missing",
        )

    def _change_packages(self) -> ChangePackages:
        unchanged = self.needs.keys() - self.want.keys()
        touchable = (self.ours | self.want.keys()) - unchanged
        remove = self.dropped_patches | self.displaced
        again = self.lost - self.lost_before
        theirs = self.originals.keys() | self.inventory.originals.keys()
        back = {name: version for name, version in self.put_back.items() if self._is_changed(name, version)}
        names = (*self.want, *sorted(self.displaced), *sorted(again))
        return ChangePackages(
            change=PackageChange(
                want=self.want | back,
                remove=remove,
                managed=frozenset(touchable | again | back.keys()),
                reinstall=frozenset(again),
                preserve=frozenset(self.originals),
            ),
            applications={name: self._application_of(name) for name in names if name not in theirs},
            reason=", ".join(
                [self._change_of(name) for name in self.want]
                + [f"{name} has lost its deploy script" for name in sorted(again)]
                + [f"{name} is no longer listed" for name in sorted(self.dropped_patches)]
                + [f"{name} is checked out now" for name in sorted(self.displaced)]
                + [f"{name} is the system's own and gets its version back" for name in self.put_back]
            ),
            originals=self.originals,
            put_back=tuple(self.put_back),
        )

    def _check_out(self, name: str) -> CheckOut:
        version, had = self.checkouts[name], self.inventory.checkouts.get(name)
        if had == version:
            reason = _BUILD_AGAIN
        elif had is not None:
            reason = f"version changed from {had}"
        else:
            reason = "was a package" if name in self.replaceable else "new"
        replaces = had is not None or name in self.replaceable
        return CheckOut(package=name, version=version, replaces=replaces, reason=reason)

    def _remove_checkout(self, name: str) -> RemoveCheckout:
        now = name in self.needs or name in self.controllers_place
        reason = "it is a package now" if now else "no deployment needs it any more"
        return RemoveCheckout(name, self.inventory.checkouts[name], reason)

    def _deploy(self, one: Assignment, deployment: Deployment, marker: Marker | None) -> Deploy:
        files = () if marker is None else marker.files
        return Deploy(
            assignment=one,
            deployment=deployment,
            reason="new" if marker is None else self._why_again(one, marker),
            stale_files=tuple(file for file in files if file != deployment.marker_name),
        )

    def _remove_software(self, applications: tuple[str, ...]) -> RemoveSoftware:
        managed, installed = self.inventory.managed, self.inventory.packages
        gone = frozenset(name for name in self.unneeded if name in installed) - self.dropped_patches
        names = self.unneeded or applications
        return RemoveSoftware(
            change=PackageChange(remove=gone, managed=gone),
            packages=tuple(self.unneeded),
            applications=applications,
            reason=f"no deployment needs {', '.join(names)} any more",
            unregistered={name: self._application_of(name) for name in self.unneeded if name not in managed},
        )

    def _has(self, name: str) -> bool:
        """Whether a needed package is there, once, in the version needed."""
        installed = self.inventory.packages.get(name, ())
        version = self.needs[name].version
        releases = {(one.epoch, one.version, one.release) for one in installed}
        return len(releases) == 1 and (version is None or has_version(installed[0], version))

    def _is_changed(self, name: str, version: str) -> bool:
        """Whether a package of the system's own is installed in another version than it was."""
        return any(not has_version(package, version) for package in self.inventory.packages.get(name, ()))

    def _is_dropped_patch(self, name: str) -> bool:
        """Whether an unneeded package without a deploy script is a patch of an application that stays.

        Software that lost its script is no patch, also after its deployments have moved to another package.
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
        """Return whose a package is: as registered, needed or marked, else by its name (``foo-1.4`` is foo's)."""
        if package in self.inventory.managed:
            return self.inventory.managed[package]
        if package in self.checkouts or package in self.inventory.checkouts:
            return package
        if package in self.needs:
            return self.needs[package].application
        if package in self.marked:
            return self.marked[package]
        return application_of(package)

    def _why_obsolete(self, marker: Marker) -> str:
        path = marker.deployment.path
        for one in self.wanted:
            if one.path == path:
                if one.application != marker.application:
                    return f"{path} is {one.application} now"
                return f"only {one.n} {'instance is' if one.n == 1 else 'instances are'} wanted"
        return "not wanted on this host any more"

    def _why_again(self, one: Assignment, marker: Marker) -> str:
        if marker.package is not None and marker.package != one.package:
            return f"package changed from {marker.package} to {one.package}"
        if marker.version is not None and one.version is not None and marker.version != one.version:
            return f"package changed from {one.package} {marker.version} to {one.version}"
        changed = [self._change_of(name) for name in (one.package, *sorted(one.patches)) if name in self.want]
        if changed:
            return f"package changed: {', '.join(changed)}"
        if marker.package is not None and marker.subtype != one.subtype:
            return f"subtype changed from {marker.subtype or 'none'} to {one.subtype or 'none'}"
        return _RUN_AGAIN

    def _change_of(self, name: str) -> str:
        installed = self.inventory.packages.get(name, ())
        version = self.needs[name].version
        if not installed:
            return f"{name} {version} is new" if version else f"{name} is new"
        if len(installed) > 1:
            found = " and ".join(_release(package) for package in sorted(installed))
            return f"{name} is there twice ({found})"
        return f"{name} {installed[0].version} to {version}"


def _needs(wanted: Sequence[Assignment]) -> dict[str, _Need]:
    """Return every package needed; an exact version goes before any version, a deployment's own before a patch."""
    needs: dict[str, _Need] = {}
    own = ((one.package, _Need(one.version, one.application)) for one in wanted)
    patches = ((name, _Need(version, one.application)) for one in wanted for name, version in one.patches.items())
    for name, need in (*own, *patches):
        known = needs.setdefault(name, need)
        if known.version is None:
            needs[name] = _Need(need.version, known.application)
    return needs


def _release(package: Package) -> str:
    return f"{package.version}-{package.release}"
