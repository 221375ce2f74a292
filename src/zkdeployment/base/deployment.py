"""Assignments (the services that a target is to run), deployments (their numbered instances), their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.tree.values import Value


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


class Rerun(Enum):
    """When a deployment runs again at a new revision: the property ``rerun`` of its service node."""

    ALWAYS = "always"
    CHANGED = "changed"  # only if its assignment, its packages or its properties changed


@dataclass(frozen=True, slots=True)
class Assignment:
    """A service node that a target (a host id, a host name or a role) is to run, with all links resolved.

    ``n`` is the number of instances. ``version`` is ``None`` when the package's name contains it (``foo-1.4``):
    any version of that package satisfies the assignment. ``application`` is the package's name without such a
    version. ``patches`` maps the names of further packages to their exact versions.
    ``properties`` is the ``properties_digest`` of the node's resolved properties. Services with
    ``rerun = 'changed'`` always have it, others only in a signed publication.

    ``after`` are the paths of the services that all hosts deploy before any host deploys this one.
    ``undeploys_last``: a host that is to lose the service keeps it until the hosts that gain it have it.
    ``group`` is the deployment intent group that a failure of the deploy script stops, ``p1/store/v1/shop``;
    ``None``: it stops the fleet.
    """

    path: str
    n: int
    package: str
    application: str
    subtype: str | None = None
    version: str | None = None
    patches: Mapping[str, str] = field(default_factory=dict)
    rerun: Rerun = Rerun.ALWAYS
    properties: str | None = None
    after: tuple[str, ...] = ()
    undeploys_last: bool = False
    group: str | None = None

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """The instances, numbered 0 to n-1."""
        return tuple(Deployment(self.path, number) for number in range(self.n))

    @property
    def role(self) -> str:
        """The role that a controller's assignment belongs to: ``/roles/web`` → ``web``."""
        return self.path.rpartition("/")[2]

    def to_json(self) -> dict[str, Value]:
        """Return the assignment in the form that is published under ``/zkdeployment/targets``.

        Keys from ``rerun`` to ``group`` are included only when they are set.
        """
        set_keys: dict[str, Value] = {}
        if self.rerun is not Rerun.ALWAYS:
            set_keys["rerun"] = self.rerun.value
        if self.properties is not None:
            set_keys["properties"] = self.properties
        if self.after:
            set_keys["after"] = [*self.after]
        if self.undeploys_last:
            set_keys["undeploy"] = LAST
        if self.group is not None:
            set_keys["group"] = self.group
        return set_keys | {
            "path": self.path,
            "n": self.n,
            "package": self.package,
            "application": self.application,
            "subtype": self.subtype,
            "version": self.version,
            "patches": [f"{name} {version}" for name, version in sorted(self.patches.items())],
        }


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The assignments of a host, sorted by path, and the controller of its role.

    A controller is an assignment of the node ``/roles/ROLE``. The value has no deployments: the scripts of its
    package run before and after the deployments of the other assignments.
    """

    assignments: tuple[Assignment, ...] = ()
    controller: Assignment | None = None


class DeploymentResult(Enum):
    """The result of a deployment."""

    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"  # the cluster version changed during the deployment


@dataclass(frozen=True, slots=True)
class DeploymentFailure:
    """The failure of a host, for programs: the publication, the step, and the deployment or packages that failed.

    ``sequence`` is that of the publication, 0 for a version that was set by hand. ``path`` is that of the service
    or of the role's controller; ``number`` is ``None`` if no instance is concerned.
    """

    sequence: int
    step: str
    path: str | None = None
    number: int | None = None
    packages: frozenset[str] = frozenset()

    def concerns(self, deployment: Deployment, assignment: Assignment) -> bool:
        """Whether the host failed at a deployment, or at its packages."""
        if self.path is None:
            return bool(self.packages & {assignment.package, *assignment.patches})
        return self.path == deployment.path and self.number in {None, deployment.number}

    def properties(self) -> dict[str, Value]:
        """Return the form of the failure that is stored in ZooKeeper and on the host."""
        return {
            "sequence": self.sequence,
            "step": self.step,
            "path": self.path,
            "n": self.number,
            "packages": [*sorted(self.packages)],
        }

    @classmethod
    def from_properties(cls, value: object) -> DeploymentFailure | None:
        """Return the failure that ``properties`` encoded; ``None`` for anything else."""
        match value:
            case {
                "sequence": int(sequence),
                "step": str(step),
                "path": str() | None as path,
                "n": int() | None as number,
                "packages": list(packages),
            }:
                return cls(sequence, step, path, number, frozenset(map(str, packages)))
            case _:
                return None
