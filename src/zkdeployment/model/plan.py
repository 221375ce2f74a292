"""A plan is data: the steps a host takes to get from what it has to what it is to run, with reasons.

The agent executes it, ``--dry-run`` prints it; both from the same value. Steps stand in the order in which they
are taken, with one freedom: neighbouring steps that need the locks of services may be taken in another order when
a lock is held elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.model.deployment import Assignment, Deployment  # noqa: TC001  public field types

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class PackageChange:
    """What one package transaction is to reach.

    ``want`` maps names to the version to have (``None``: any, if only it is installed). ``remove`` are names
    to have no more. ``reinstall`` are installed packages to install again as they are, because files of theirs are
    missing. ``managed`` are all names that may be changed or removed; nothing else ever is. ``preserve`` are names
    whose files are kept when they are replaced, to be put back one day.
    """

    want: Mapping[str, str | None] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()
    managed: frozenset[str] = frozenset()
    reinstall: frozenset[str] = frozenset()
    preserve: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.want or self.remove or self.reinstall)


@dataclass(frozen=True, slots=True)
class Undeploy:
    """Call the script with ``-u`` and take the markers away.

    ``script`` is ``None`` when it comes with ``package``, which is installed again first. ``locked``: the service
    stays in the tree, so other hosts may have instances of it, and its lock (or that of the role, where the role
    has a controller) is held meanwhile. A service that is gone from the tree is undeployed on all hosts at once.
    """

    deployment: Deployment
    application: str
    script: str | None
    files: tuple[str, ...]
    reason: str
    locked: bool = False
    package: str = ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the script is called with."""
        return "-u", self.deployment.path, str(self.deployment.number)


@dataclass(frozen=True, slots=True)
class ChangeController:
    """Bring the role controller's package up to date in a transaction of its own; clear what is left of old ones.

    ``removed`` are old controllers. ``registered`` are all packages concerned with their applications: they are
    in the registry of managed packages before anything changes, so that a crash on the way leaves nothing behind.
    """

    change: PackageChange
    removed: tuple[str, ...]
    registered: Mapping[str, str]
    reason: str


@dataclass(frozen=True, slots=True)
class StartDeployments:
    """Call the controller's ``starting-deployments`` under the role's lock, which all later steps hold, too."""

    controller: Assignment
    reason: str


@dataclass(frozen=True, slots=True)
class EndDeployments:
    """Call the controller's ``ending-deployments``; then the role's lock is given back."""

    controller: Assignment
    reason: str


@dataclass(frozen=True, slots=True)
class ChangePackages:
    """One transaction that brings in or changes what the wanted deployments need.

    One that only installs packages again comes before the deployments that are undone with their scripts. It is
    prepared (resolved, downloaded, tested) before the first step of the plan is taken.
    ``applications`` maps each package of ``change.want``, and those that make room for a checkout, to its
    application, for the registry of managed packages. ``originals`` are packages of the system's own that change,
    with their versions: those are recorded instead. ``put_back`` are those that have their old version again.
    """

    change: PackageChange
    applications: Mapping[str, str]
    reason: str
    originals: Mapping[str, str] = field(default_factory=dict)
    put_back: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckOut:
    """Put a checkout of ``version`` into ``/opt/PACKAGE``, build it there, and take the package from the registry.

    It is fetched to one side before the first step of the plan is taken. ``replaces``: what is there now is a
    checkout's or a managed package's, and may go.
    """

    package: str
    version: str
    replaces: bool
    reason: str


@dataclass(frozen=True, slots=True)
class RemoveCheckout:
    """Remove a checkout's ``/opt/PACKAGE``; the package manager knows nothing of it."""

    package: str
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Deploy:
    """Call the script for one instance under its service node's lock, then write its marker.

    Without that lock where the role has a controller: the role's lock is held then.

    ``stale_files`` are markers of older tools to be replaced.
    """

    assignment: Assignment
    deployment: Deployment
    reason: str
    stale_files: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the script is called with."""
        subtype = self.assignment.subtype
        options = () if subtype is None else ("-r", subtype)
        return *options, self.deployment.path, str(self.deployment.number)


@dataclass(frozen=True, slots=True)
class RemoveSoftware:
    """Remove packages no deployment needs, clear ``/opt/PACKAGE``, tidy ``/etc/APPLICATION``, forget them.

    ``change`` may be empty when the packages are gone but their directories are not. ``unregistered`` are those
    of ``packages`` that the registry of managed packages does not know, with their applications: they are added to
    it before anything is removed, so that a crash on the way leaves nothing behind.
    """

    change: PackageChange
    packages: tuple[str, ...]
    applications: tuple[str, ...]
    reason: str
    unregistered: Mapping[str, str] = field(default_factory=dict)


Step: TypeAlias = (
    ChangeController
    | StartDeployments
    | EndDeployments
    | Undeploy
    | RemoveCheckout
    | ChangePackages
    | CheckOut
    | Deploy
    | RemoveSoftware
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Ordered steps; a host that has what it wants at the revision it wants has none.

    ``handover`` is the path of a service that changes hands on this host: another application is deployed for it
    than before. Its lock is kept from its undeployment to the end of its deployment, whatever steps are between,
    so that not all hosts are without the service at once. There is one at most, for a host never has two locks.
    """

    steps: tuple[Step, ...] = ()
    handover: str | None = None

    @property
    def controller(self) -> Assignment | None:
        """The role controller that brackets the deployments, if there is one."""
        return next((step.controller for step in self.steps if isinstance(step, StartDeployments)), None)
