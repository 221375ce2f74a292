"""Compares the needed and the present software of a host, and decides the steps that change it and their reasons.

The reasons of steps that deploy and undeploy services are also in this module; ``undeploying`` decides these
steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.deployment import Assignment, Rerun
from zkdeployment.base.names import AGENT_PACKAGE, application_of
from zkdeployment.base.packages import is_installed, order_key, removable_packages
from zkdeployment.base.plan import (
    ChangeController,
    ChangePackages,
    CheckOut,
    PackageChange,
    RemoveCheckout,
    RemoveSoftware,
)
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.targets.services import change_controller
from zkdeployment.tree.checkout import is_checkout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import Inventory, Marker, Package


#: The beginning of the names of the subpackages of the agent's package.
_AGENT_SUBPACKAGE = f"{AGENT_PACKAGE}-"

#: The reason of a deployment that runs again without a change.
RUN_AGAIN = "run again for this revision"

#: The reason of a checkout whose version did not change.
BUILD_AGAIN = "update and build again for this revision"

#: The reason of a role controller's scripts after an incomplete deployment.
NOT_ENDED = "ending-deployments has not succeeded since the last starting-deployments"


def why_undeployed(marker: Marker, wanted: Iterable[Assignment]) -> str:
    """Return why a recorded deployment is undeployed."""
    path = marker.deployment.path
    for assignment in wanted:
        if assignment.path == path:
            if assignment.application != marker.application:
                return f"{path} is {assignment.application} now"
            instances = "instance is" if assignment.n == 1 else "instances are"
            return f"only {assignment.n} {instances} wanted"
    return "not wanted on this host any more"


#: The reason of a deployment whose marker has no record of its properties: it was deployed with ``rerun =
#: 'always'``, by an older tool, or incompletely.
RECORD_MISSING = "run again, because its marker does not record its properties"


def why_deployed_again(
    assignment: Assignment, marker: Marker, package_changes: Sequence[str], identity: Identity | None = None
) -> str:
    """Return why a recorded deployment runs again; ``package_changes`` are those of its packages, as sentences.

    ``identity`` is that of the host, ``None`` if it does not matter.
    """
    if marker.package is not None and marker.package != assignment.package:
        return f"package changed from {marker.package} to {assignment.package}"
    if marker.version is not None and assignment.version is not None and marker.version != assignment.version:
        return f"package changed from {assignment.package} {marker.version} to {assignment.version}"
    if package_changes:
        return f"package changed: {', '.join(package_changes)}"
    if marker.package is not None and marker.subtype != assignment.subtype:
        return f"subtype changed from {marker.subtype or 'none'} to {assignment.subtype or 'none'}"
    if assignment.rerun is not Rerun.CHANGED:
        return RUN_AGAIN
    if marker.properties is None or (identity is not None and marker.identity is None):
        return RECORD_MISSING
    if marker.properties != assignment.properties:
        return "properties changed"
    if identity is None or marker.identity is None or identity == marker.identity:
        return RUN_AGAIN
    return _identity_change(marker.identity, identity)


def _identity_change(before: Identity, after: Identity) -> str:
    pairs = (("id", before.id, after.id), ("name", before.name, after.name), ("role", before.role, after.role))
    changes = (f"{what} from {old or 'none'} to {new or 'none'}" for what, old, new in pairs if old != new)
    return f"the host changed its {', '.join(changes)}"


def package_change(
    name: str, version: str | None, installed: Sequence[Package], *, installonly: bool = False
) -> str:
    """Return a sentence on how the ``installed`` packages of a name become the wanted version (``None``: any).

    With ``installonly``, the wanted version does not replace them.
    """
    if not installed or installonly:
        return f"{name} {version} is new" if version else f"{name} is new"
    releases = list(dict.fromkeys(f"{package.version}-{package.release}" for package in sorted(installed)))
    if len(releases) > 1:
        return f"{name} is there twice ({' and '.join(releases)})"
    return f"{name} {installed[0].version} to {version}"


@dataclass(frozen=True)
class PackageNeed:
    """The version (``None``: any) and the application of a package that is needed by wanted deployments."""

    version: str | None
    application: str


@dataclass(frozen=True)
class WantedSoftware:
    """The assignments of a host that have instances, sorted by path, its role controller, and their software.

    ``identity`` is that of the host, ``None`` if it does not matter. ``checkouts`` maps the names of checkouts,
    with that of the controller, to their versions. ``needs`` maps the names of packages, without the controller's,
    to the needs of the assignments.
    """

    assignments: tuple[Assignment, ...]
    controller: Assignment | None
    checkouts: Mapping[str, str]
    needs: Mapping[str, PackageNeed]
    identity: Identity | None = None

    @classmethod
    def of(
        cls, wanted: Iterable[Assignment], controller: Assignment | None, identity: Identity | None = None
    ) -> WantedSoftware:
        """Return the software of these assignments, which are free of conflicts, and of the controller."""
        assignments = sorted(
            (assignment for assignment in wanted if assignment.n), key=lambda assignment: assignment.path
        )
        checkouts = {
            assignment.package: assignment.version
            for assignment in (*assignments, *(() if controller is None else (controller,)))
            if assignment.version and is_checkout(assignment.version)
        }
        packaged = [assignment for assignment in assignments if assignment.package not in checkouts]
        return cls(tuple(assignments), controller, checkouts, _needs(packaged), identity)

    @property
    def applications(self) -> frozenset[str]:
        """The applications of the assignments."""
        return frozenset(assignment.application for assignment in self.assignments)

    @property
    def controller_packages(self) -> frozenset[str]:
        """The name of the controller's package as a set, which is empty without a controller."""
        return frozenset(() if self.controller is None else (self.controller.package,))

    @property
    def names(self) -> frozenset[str]:
        """The names of all packages and checkouts, without the package of the controller."""
        return frozenset({*self.needs, *self.checkouts})

    def kept(self, inventory: Inventory) -> frozenset[str]:
        """Return the names of the packages that no update of the operating system changes.

        They include the subpackages of the agent's package, which require its exact version.
        """
        own = [name for name in inventory.packages if name.startswith(_AGENT_SUBPACKAGE)]
        return frozenset({*inventory.managed, *self.needs, *self.controller_packages, AGENT_PACKAGE, *own})


def _needs(wanted: Iterable[Assignment]) -> dict[str, PackageNeed]:
    """Return the needed packages by name.

    An exact version has precedence over any version, the package of a deployment over a patch.
    """
    wanted = tuple(wanted)
    own = ((assignment.package, PackageNeed(assignment.version, assignment.application)) for assignment in wanted)
    patches = (
        (name, PackageNeed(version, assignment.application))
        for assignment in wanted
        for name, version in assignment.patches.items()
    )
    needs: dict[str, PackageNeed] = {}
    for name, need in (*own, *patches):
        known = needs.setdefault(name, need)
        if known.version is None:
            needs[name] = PackageNeed(need.version, known.application)
    return needs


@dataclass(frozen=True)
class SoftwareDifference:
    """The difference between the wanted and the present software of a host.

    ``controller_change`` is the step that changes the role controller's package, before all other steps. The other
    values omit the packages of that step:

    - ``want``: packages to install or to change, with their versions (``None``: any);
    - ``lost``: installed packages to reinstall, because their deploy scripts are missing;
    - ``replaceable``: packages that the agent may replace by a checkout;
    - ``removable``: replaceable packages that the agent may also remove;
    - ``unneeded``: removable packages that no deployment needs, sorted;
    - ``dropped_patches``: unneeded packages that are patches of applications that stay;
    - ``displaced``: removable packages in the place of a wanted checkout;
    - ``originals``: the versions of the system's own packages before their first change;
    - ``put_back``: the original versions of the system's own packages that deployments no longer need.

    ``in_use`` is the software of stopped groups; ``None`` if no steps are withheld. Otherwise the host keeps all
    software that no deployment needs: ``unneeded``, ``dropped_patches`` and ``put_back`` are empty.
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
    in_use: frozenset[str] | None = None

    def application_of(self, package: str) -> str:
        """Return a package's application by registry, need or marker, else by its name (``foo-1.4``: ``foo``)."""
        if package in self.inventory.managed:
            return self.inventory.managed[package]
        if package in self.wanted.checkouts or package in self.inventory.checkouts:
            return package
        if package in self.wanted.needs:
            return self.wanted.needs[package].application
        return _marked_packages(self.inventory).get(package) or application_of(package)

    def reason_of(self, name: str) -> str:
        """Return a sentence on the difference between the wanted and the installed version of a needed package."""
        installed, is_added = self.inventory.packages.get(name, ()), name in self.inventory.installonly
        return package_change(name, self.wanted.needs[name].version, installed, installonly=is_added)


def compare_software(
    wanted: WantedSoftware, inventory: Inventory, in_use: frozenset[str] | None = None
) -> SoftwareDifference:
    """Return the difference between the wanted and the present software of a host.

    ``in_use`` is the software of stopped groups whose steps are withheld: the host then keeps all software that no
    deployment needs, and changes that of the groups only where another deployment needs it, too. Raises
    ``HostFilesError`` if the host has two controllers, or if deployments occupy the controller's directory.
    """
    controller_change = change_controller(wanted.controller, wanted.names | (in_use or frozenset()), inventory)
    changed = frozenset() if controller_change is None else controller_change.change.managed
    want = {
        name: need.version
        for name, need in sorted(wanted.needs.items())
        if name not in changed and not _has(inventory, name, need.version)
    }
    deployed = {assignment.package for assignment in wanted.assignments}
    lost = inventory.lost_scripts | (deployed & inventory.packages.keys() - inventory.scripts.keys())
    # A directory with a script that no package owns may be a person's copy, so it is never removed.
    scripts = (inventory.scripts.keys() | inventory.lost_scripts) - inventory.checkouts.keys()
    replaceable = removable_packages(inventory.managed.keys() | scripts | changed, inventory)
    kept = wanted.names | changed | wanted.controller_packages
    foreign = frozenset() if in_use is None else in_use - kept
    removable = replaceable - changed - wanted.controller_packages - foreign
    unneeded = sorted(removable - wanted.names) if in_use is None else []
    originals = inventory.originals if in_use is None else {}
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
            name: max(inventory.packages[name], key=order_key).evr
            for name in want
            if name in inventory.packages
            and name not in replaceable | inventory.originals.keys() | {AGENT_PACKAGE}
        },
        put_back={name: version for name, version in sorted(originals.items()) if name not in kept},
        in_use=in_use,
    )


def _has(inventory: Inventory, name: str, version: str | None) -> bool:
    """Return whether a package is installed in this version (``None``: any), and needs no repair."""
    installed = inventory.packages.get(name, ())
    return is_installed(installed, version, installonly=name in inventory.installonly)


def _marked_packages(inventory: Inventory) -> dict[str, str]:
    """Return the applications of the packages of recorded deployments, by package."""
    return {marker.package: marker.application for marker in inventory.markers if marker.package is not None}


def _is_dropped_patch(name: str, wanted: WantedSoftware, inventory: Inventory) -> bool:
    """Return whether an unneeded package without a deploy script is a patch of an application that stays.

    Software that lost its script is not a patch, even after its deployments have moved to another package.
    """
    return (
        name in inventory.packages
        and name not in inventory.scripts
        and name not in inventory.lost_scripts
        and name not in _marked_packages(inventory)
        and inventory.managed[name] in wanted.applications
    )


def software_of(services: Collection[str], wanted: Iterable[Assignment], inventory: Inventory) -> frozenset[str]:
    """Return the names of the packages and patches that some services use on a host, or should use.

    Which patches an instance uses is known from the registry of managed packages and from the marker's record.
    """
    assignments = [assignment for assignment in wanted if assignment.path in services]
    markers = [marker for marker in inventory.markers if marker.deployment.path in services]
    applications = {*(one.application for one in assignments), *(marker.application for marker in markers)}
    recorded = {nevra for marker in markers for nevra in marker.packages}
    present = {**dict.fromkeys(inventory.scripts), **inventory.managed}
    return frozenset(
        {
            *(name for assignment in assignments for name in (assignment.package, *assignment.patches)),
            *(marker.package for marker in markers if marker.package is not None),
            *(name for name, owner in present.items() if (owner or application_of(name)) in applications),
            *(
                package.name
                for each in inventory.packages.values()
                for package in each
                if package.nevra in recorded
            ),
        }
    )


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
        if name in difference.inventory.packages and not _has(difference.inventory, name, version)
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
    kept_beside = difference.inventory.installonly
    return ", ".join(
        [difference.reason_of(name) for name in difference.want]
        + [f"{name} has lost its deploy script" for name in sorted(lost)]
        + [f"{name} is no longer listed" for name in sorted(difference.dropped_patches)]
        + [f"{name} is checked out now" for name in sorted(difference.displaced)]
        + [
            f"{name} is the system's own and {'stays' if name in kept_beside else 'gets its version back'}"
            for name in difference.put_back
        ]
    )


def check_out(difference: SoftwareDifference, name: str) -> CheckOut:
    """Return the step that checks out software, or updates its checkout."""
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
