"""Assignments (the services of a target), deployments (their numbered instances), and the results of hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from typing import Annotated, Any, ClassVar

from zkdeployment.base.records import OMITTED, Key, Record, no_keys
from zkdeployment.base.system import NEEDS_UPGRADE, WantedSystem
from zkdeployment.base.values import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Deployment:
    """One instance of a service node on a host: the node's path and a number from 0."""

    path: str
    number: int

    def __str__(self) -> str:
        return f"{self.path} {self.number}"

    @property
    def marker_name(self) -> str:
        """The name of the file that records the deployment: ``/who/myfoo`` 0 → ``who:myfoo.0.deployed``."""
        return f"{self.path[1:].replace('/', ':')}.{self.number}.deployed"

    @property
    def lock_name(self) -> str:
        """The name of the service node's lock: ``/who/myfoo`` → ``who,myfoo``."""
        return self.path[1:].replace("/", ",")


#: The value of a service node's property ``undeploy`` that keeps the service until other hosts have it.
LAST = "last"

#: The default value of the property ``undeploy``.
FIRST = "first"


#: The values of a service node's property ``registers``: every instance registers, or only the active one.
ALL, ONE = "all", "one"


#: The value of a service node's property ``reboot``: its deploy script may ask for a reboot.
ALLOWED = "allowed"

#: The exit status with which a deploy script asks for a reboot, as zypper has it.
REBOOT_STATUS = 102


class Rerun(Enum):
    """When the script of a deployment runs again at a new revision: the property ``rerun`` of its service node."""

    ALWAYS = "always"
    CHANGED = "changed"  # only if its assignment, its packages or its properties changed


def _patches(patches: Mapping[str, str]) -> list[str]:
    return [f"{name} {version}" for name, version in sorted(patches.items())]


def _registers(is_one: bool) -> str:  # noqa: FBT001  the converter of a field
    return ONE if is_one else ALL


def _reboot(is_allowed: bool) -> str | None:  # noqa: FBT001  the converter of a field
    return ALLOWED if is_allowed else None


def _undeploy(is_last: bool) -> str:  # noqa: FBT001  the converter of a field
    return LAST if is_last else FIRST


@dataclass(frozen=True, slots=True)
class Assignment(Record):
    """A service node that a target (a host id, a host name or a role) is to run, with all links resolved.

    ``n`` is the number of instances. ``version`` is ``None`` when the package's name contains it (``foo-1.4``):
    any version of that package satisfies the assignment. ``application`` is the package's name without such a
    version. ``patches`` maps the names of further packages to their exact versions.
    ``properties`` is the ``properties_digest`` of the node's resolved properties. Services with
    ``rerun = 'changed'`` always have it, others only in a signed publication.

    ``after`` are the paths of the services that all hosts deploy before any host deploys this one.
    ``undeploys_last``: a host that loses the service keeps it until the hosts that gain it have deployed it.
    ``registers_one``: only the active instance of the service registers, the others are ready to replace it.
    ``reboot_allowed``: the deploy script may ask for a reboot with the exit status ``REBOOT_STATUS``. ``system``
    is the operating system that a system node wants; such an entry is no service, and has neither instances nor a
    package.
    ``group`` is the deployment intent group that a failure of the deploy script stops, ``p1/store/v1/shop``;
    ``None``: it stops the fleet.
    """

    path: str
    n: int
    package: str
    application: str
    subtype: str | None = None
    version: str | None = None
    patches: Annotated[Mapping[str, str], Key(write=_patches)] = field(default_factory=dict)
    rerun: Annotated[Rerun, OMITTED] = Rerun.ALWAYS
    properties: Annotated[str | None, OMITTED] = None
    after: Annotated[tuple[str, ...], OMITTED] = ()
    undeploys_last: Annotated[bool, Key("undeploy", omit=True, write=_undeploy)] = False
    group: Annotated[str | None, OMITTED] = None
    registers_one: Annotated[bool, Key("registers", omit=True, write=_registers)] = False
    reboot_allowed: Annotated[bool, Key("reboot", omit=True, write=_reboot)] = False
    system: Annotated[WantedSystem | None, OMITTED] = None

    @classmethod
    def of_system(cls, system: WantedSystem, properties: str | None = None) -> Assignment:
        """Return the entry of a system node among the assignments of a target."""
        return cls(system.path, 0, NEEDS_UPGRADE, NEEDS_UPGRADE, properties=properties, system=system)

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """The instances, numbered 0 to n-1."""
        return tuple(Deployment(self.path, number) for number in range(self.n))

    @property
    def role(self) -> str:
        """The role that a controller's assignment belongs to: ``/roles/web`` → ``web``."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The assignments of a host, sorted by path, the controller of its role, and its operating system.

    A controller is an assignment of the node ``/roles/ROLE``. The value has no deployments: the scripts of its
    package run before and after the deployments of the other assignments.
    """

    assignments: tuple[Assignment, ...] = ()
    controller: Assignment | None = None
    system: WantedSystem | None = None


class DeploymentResult(Enum):
    """The result of a deployment."""

    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"  # the cluster version changed during the deployment


@dataclass(frozen=True, slots=True)
class DeploymentFailure(Record):
    """The failure of a host, for programs: the publication, the step, and the deployment or packages that failed.

    ``sequence`` is that of the publication, 0 for a version that was set by hand. ``path`` is that of the service
    or of the role's controller; ``number`` is ``None`` if no instance is concerned.
    """

    sequence: int
    step: str
    path: str | None = None
    number: Annotated[int | None, Key("n")] = None
    packages: frozenset[str] = frozenset()

    def concerns(self, deployment: Deployment, assignment: Assignment) -> bool:
        """Whether the host failed to run a deployment, or to change its packages."""
        if self.path is None:
            return bool(self.packages & {assignment.package, *assignment.patches})
        return self.path == deployment.path and self.number in {None, deployment.number}


#: The longest error that is kept, in characters.
MAX_ERROR_LENGTH = 300


def _tenths(seconds: float) -> float:
    return round(seconds, 1)


def _shortened(error: str | None) -> str | None:
    return None if error is None else error[:MAX_ERROR_LENGTH]


def _error(value: object) -> str | None:
    """Return an error that was stored: a malformed one must not read as success."""
    return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class FormerFailure(Record):
    """The first failure of a host in a publication that it tried again; ``time`` is in seconds since the epoch."""

    is_lenient: ClassVar[bool] = True
    error: Annotated[str, Key(write=_shortened)]
    time: Annotated[float, Key(write=_tenths)]


@dataclass(frozen=True, slots=True)
class HostResult(Record):
    """The result of a publication on a host.

    ``time`` is when the host finished or failed, in seconds since the epoch; ``seconds`` is the duration of its
    deployment, also across restarts of the agent, without waits for the rollout. ``error`` is one line; ``None``
    means success. ``failed`` is the failure that ``error`` describes. ``former`` is the first failure, if an
    earlier attempt failed. ``unknown`` are the keys that this version does not know.
    """

    is_lenient: ClassVar[bool] = True
    host_id: Annotated[str, Key("id")]
    host_name: Annotated[str, Key("name")]
    time: Annotated[float, Key(write=_tenths)]
    seconds: Annotated[float, Key(write=_tenths)]
    error: Annotated[str | None, Key(read=_error, write=_shortened)] = None
    failed: DeploymentFailure | None = None
    former: Annotated[FormerFailure | None, OMITTED] = None
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    @property
    def first_failure(self) -> FormerFailure | None:
        """The first failure of the host; ``None`` if each attempt succeeded."""
        return self.former or (None if self.error is None else FormerFailure(self.error, self.time))

    @property
    def is_repaired(self) -> bool:
        """Whether the host succeeded after a failure."""
        return self.error is None and self.former is not None

    @property
    def account(self) -> str:
        """The result in words: done, done after a first failure, or failed, with the error."""
        if self.error is not None:
            return f"failed: {self.error}"
        return "done" if self.former is None else f"done after a repair; it failed at first: {self.former.error}"

    def after(self, earlier: HostResult) -> HostResult:
        """Return this result with the first failure of an earlier attempt of the same host."""
        former = earlier.former if earlier.time == self.time else earlier.first_failure
        return self if former is None else replace(self, former=former)
