"""Plans: the steps, with reasons, that bring a host from its inventory to its desired state.

A plan is data: the agent executes the same value that ``--dry-run`` prints. Steps are executed in their order,
with one exception: neighbouring steps that need service locks may be executed in another order while a lock is
held elsewhere. The making of a plan belongs to ``agent.rules``, its execution to ``agent.steps``.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from zkdeployment.base.deployment import Assignment, Deployment  # noqa: TC001  public field types
from zkdeployment.base.inventory import Marker  # noqa: TC001  the same
from zkdeployment.base.machine.reboots import deployment_of
from zkdeployment.base.system import RebootRule, SystemChange, WantedSystem
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class PackageChange:
    """The goal of one package transaction.

    ``want`` maps the names of packages to install to their versions (``None``: any version). ``remove`` are the
    names of packages to remove. ``reinstall`` are installed packages to reinstall at their present version,
    because some of their files are missing. ``managed`` are all names that may be changed or removed; other
    packages never are. ``preserve`` are packages whose RPM files are kept when they are replaced, so that they can
    be restored later.
    """

    want: Mapping[str, str | None] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()
    managed: frozenset[str] = frozenset()
    reinstall: frozenset[str] = frozenset()
    preserve: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The names of all packages that the transaction installs, changes or removes."""
        return self.remove | self.reinstall | self.want.keys()

    def __bool__(self) -> bool:
        return bool(self.want or self.remove or self.reinstall)


@dataclass(frozen=True)
class Undeploy:
    """Call the deploy script with ``-u`` and remove the markers.

    ``script`` is ``None`` when it comes with ``package``, which an earlier step reinstalls. ``locked`` means that
    the service is still in the tree. Other hosts may have instances of it, so the step needs the service's lock
    (or that of the role, if the role has a controller). A service that was removed from the tree is undeployed on
    all hosts at once. ``last`` means that the host keeps the service until the hosts that gain it have it; such a
    step follows all deployments and the role controller's scripts, and needs the service's lock in any case.
    ``unrecorded`` is as in ``Deploy``, ``group`` as in ``Assignment``.
    """

    kind: ClassVar[str] = "undeploy"

    deployment: Deployment
    application: str
    script: str | None
    files: tuple[str, ...]
    reason: str
    locked: bool = False
    package: str = ""
    unrecorded: Marker | None = None
    last: bool = False
    group: str | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the script."""
        return "-u", self.deployment.path, str(self.deployment.number)

    @property
    def title(self) -> str:
        """The step in a few words, such as ``undeploy /who/myfoo 0``."""
        return f"{self.kind} {self.deployment}"


@dataclass(frozen=True)
class ChangeController:
    """Update the role controller's package in a transaction of its own, and remove the remains of old controllers.

    ``removed`` are old controllers. ``registered`` maps all packages concerned to their applications. They enter
    the registry of managed packages before the first change, so that a crash leaves no unmanaged package behind.
    """

    kind: ClassVar[str] = "change role controller"

    change: PackageChange
    removed: tuple[str, ...]
    registered: Mapping[str, str]
    reason: str

    @property
    def title(self) -> str:
        """The step in a few words."""
        return self.kind


@dataclass(frozen=True)
class _CallController:
    """Call the script of the role controller that is called as the step's kind."""

    kind: ClassVar[str]

    controller: Assignment
    reason: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the script."""
        return (self.controller.path,)

    @property
    def title(self) -> str:
        """The step in a few words, such as ``starting-deployments /roles/web``."""
        return f"{self.kind} {self.controller.path}"


class StartDeployments(_CallController):
    """Call the controller's ``starting-deployments`` under the role's lock, which is kept for all later steps."""

    kind: ClassVar[str] = "starting-deployments"


class EndDeployments(_CallController):
    """Call the controller's ``ending-deployments``, then release the role's lock."""

    kind: ClassVar[str] = "ending-deployments"


@dataclass(frozen=True)
class UpdateSystem:
    """Update the packages of the operating system in one transaction, and record the update.

    The transaction is prepared before the first step of the plan is executed. The step runs under the lock of the
    system node, or of the role if that has a controller. ``outdated`` are the system's own packages whose recorded
    versions, from before deployments changed them, do not count after the update.
    """

    kind: ClassVar[str] = "update system"

    system: WantedSystem
    change: SystemChange
    reason: str
    outdated: tuple[str, ...] = ()

    @property
    def deployment(self) -> Deployment:
        """The system node, whose lock the step needs."""
        return deployment_of(self.system)

    @property
    def title(self) -> str:
        """The step in a few words, such as ``update system /os/web to 2026-11-20``."""
        return f"{self.kind} {self.system.path} to {self.system.release}"


@dataclass(frozen=True)
class Reboot:
    """Reboot the host if its system node wants that, and verify afterwards that the host has booted.

    The step is planned again after the boot. The step that finds nothing left to do completes the system node.
    """

    kind: ClassVar[str] = "reboot"

    system: WantedSystem
    reason: str

    @property
    def deployment(self) -> Deployment:
        """The system node, whose lock is kept for the host until it is back."""
        return deployment_of(self.system)

    @property
    def title(self) -> str:
        """The step in a few words, such as ``reboot for /os/web``."""
        return f"{self.kind} for {self.system.path}"

    @property
    def is_conditional(self) -> bool:
        """Whether the host reboots only if packages ask for it."""
        return self.system.reboot is RebootRule.IF_NEEDED


@dataclass(frozen=True)
class ChangePackages:
    """Install or change the packages of the desired deployments in one transaction.

    The transaction is prepared (resolved, downloaded, tested) before the first step of the plan is executed. A
    transaction that only reinstalls packages precedes the undeployments that need their scripts. ``applications``
    maps each package of ``change.want``, and each package that a checkout replaces, to its application, for the
    registry of managed packages. ``originals`` maps packages that belong to the system, and that this transaction
    changes, to their present versions, which are recorded instead. ``put_back`` are the packages that get their
    original versions back.
    """

    kind: ClassVar[str] = "change packages"

    change: PackageChange
    applications: Mapping[str, str]
    reason: str
    originals: Mapping[str, str] = field(default_factory=dict)
    put_back: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The step in a few words."""
        return self.kind


@dataclass(frozen=True)
class CheckOut:
    """Install a checkout of ``version`` in ``/opt/PACKAGE``, build it, and take the package out of the registry.

    The checkout is fetched to a separate directory before the first step of the plan is executed. ``replaces``
    means that the present content belongs to a checkout or to a managed package, and may be replaced.
    """

    kind: ClassVar[str] = "check out"

    package: str
    version: str
    replaces: bool
    reason: str

    @property
    def title(self) -> str:
        """The step in a few words, such as ``check out /opt/foo``."""
        return f"{self.kind} /opt/{self.package}"


@dataclass(frozen=True)
class RemoveCheckout:
    """Remove the directory ``/opt/PACKAGE`` of a checkout, which the package manager does not know."""

    kind: ClassVar[str] = "remove checkout"

    package: str
    version: str
    reason: str

    @property
    def title(self) -> str:
        """The step in a few words, such as ``remove checkout /opt/foo``."""
        return f"{self.kind} /opt/{self.package}"


@dataclass(frozen=True)
class Deploy:
    """Call the deploy script for one instance under its service node's lock, then write the marker.

    If the role has a controller, the role's lock replaces the service's.

    ``stale_files`` are markers of older tools that the new marker replaces. ``unrecorded`` is the present marker
    without its record of inputs. The former marker is replaced by it before a script runs for the deployment or
    its software changes; ``None`` if the marker has no record.
    """

    kind: ClassVar[str] = "deploy"

    assignment: Assignment
    deployment: Deployment
    reason: str
    stale_files: tuple[str, ...] = ()
    unrecorded: Marker | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the script."""
        subtype = self.assignment.subtype
        options = () if subtype is None else ("-r", subtype)
        return *options, self.deployment.path, str(self.deployment.number)

    @property
    def title(self) -> str:
        """The step in a few words, such as ``deploy /who/myfoo 0``."""
        return f"{self.kind} {self.deployment}"


@dataclass(frozen=True)
class RemoveSoftware:
    """Remove packages that no deployment needs, with their directories and their entries in the registry.

    ``/opt/PACKAGE`` and the agent's files in ``/etc/APPLICATION`` are removed. ``change`` is empty when only
    directories remain. ``unregistered`` maps those of ``packages`` that are not in the registry of managed
    packages to their applications: they are added before the first removal, so that a crash leaves no unmanaged
    package behind.
    """

    kind: ClassVar[str] = "remove software"

    change: PackageChange
    packages: tuple[str, ...]
    applications: tuple[str, ...]
    reason: str
    unregistered: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The step in a few words."""
        return self.kind


Step: TypeAlias = (
    ChangeController
    | StartDeployments
    | EndDeployments
    | Undeploy
    | UpdateSystem
    | Reboot
    | RemoveCheckout
    | ChangePackages
    | CheckOut
    | Deploy
    | RemoveSoftware
)


def group_of(step: Step) -> str | None:
    """Return the deployment intent group that a failure of a step's script stops; ``None``: it stops the fleet."""
    match step:
        case Deploy():
            return step.assignment.group
        case Undeploy():
            return step.group
        case _:
            return None


def packages_of(step: Step) -> frozenset[str]:
    """Return the names of the packages and checkouts that a step changes."""
    match step:
        case ChangePackages() | ChangeController():
            return step.change.names
        case RemoveSoftware():
            return step.change.names.union(step.packages)
        case CheckOut() | RemoveCheckout():
            return frozenset({step.package})
        case _:
            return frozenset()


@dataclass(frozen=True)
class Plan:
    """The steps of a host, in order; a converged host has none.

    ``handover`` is the path of a service whose application changes on this host. Its lock is held from its
    undeployment until the end of its deployment, across all steps between, so that the service is never missing on
    all hosts at once. There is at most one such service, because a host never holds two service locks.
    ``unchanged`` are the wanted deployments that are not run again, because of ``rerun = 'changed'``. ``withheld``
    are the services whose steps the plan omits, by the stopped deployment intent group.
    """

    steps: tuple[Step, ...] = ()
    handover: str | None = None
    unchanged: tuple[Deployment, ...] = ()
    withheld: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def groups(self) -> frozenset[str]:
        """The deployment intent groups that failures of the plan's steps stop."""
        return frozenset(group for group in map(group_of, self.steps) if group is not None)

    @property
    def unrecorded(self) -> tuple[Marker, ...]:
        """The markers of the deployments that the plan runs again or ends, without their records."""
        steps = (step for step in self.steps if isinstance(step, Deploy | Undeploy))
        return tuple(step.unrecorded for step in steps if step.unrecorded is not None)

    @property
    def controller(self) -> Assignment | None:
        """The role controller whose scripts run before and after the deployments, if there is one."""
        return next((step.controller for step in self.steps if isinstance(step, StartDeployments)), None)
