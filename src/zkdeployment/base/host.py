"""Hosts: the identity of a host, and the content of its node under ``/hosts``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.cluster import is_revision
from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.stop import lacking_from_json, services_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.stop import LackingGroup
    from zkdeployment.tree.values import Properties, Value


#: The beginning of the step of a host that waits for its turn in a rollout strategy.
WAITING_PREFIX = "waits to "

#: The beginning of the step of a host that waits for other hosts to deploy a service.
ORDER_PREFIX = "waits for "

#: Seconds for which an agent that deregistered is assumed to be restarting.
RESTART = 60.0

#: The beginning of the configured role of a host that can be leased.
_LEASABLE = "lease:"


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a host that selectors match besides its id; ``name`` is a name that differs from the id.

    A host that can be leased (``is_leasable``) is in no group, whatever the selectors are.
    """

    rack: str | None = None
    tags: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    is_leasable: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a host: its unique id, its fully qualified name and its role, if it has one."""

    id: str
    name: str
    role: str | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

    def completed(self, remembered: Identity | None) -> Identity | None:
        """Return this identity, whose name is the machine's own, with the fully qualified name.

        While DNS does not answer, a machine reports its name without the domain, or as localhost. Then the domain
        is taken from the ``remembered`` identity. Returns ``None`` if that identity belongs to another machine.
        """
        if remembered is None or _is_full(self.name) or not _is_full(remembered.name):
            return self
        same = remembered.id == self.id and remembered.name.partition(".")[0] == self.name
        return replace(self, name=remembered.name) if same else None

    @property
    def target_names(self) -> tuple[str, ...]:
        """The names under a service's ``deploy`` node that select this host: its role, name and id."""
        names = (self.role, self.name, self.id)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def controller_path(self) -> str | None:
        """The path of the node that names the role's controller, if there is one: ``/roles/ROLE``."""
        return None if self.role is None else f"/roles/{self.role}"

    @property
    def published_names(self) -> tuple[str, ...]:
        """The names under which assignments for this host may be published: targets and the role's controller."""
        return self.target_names if self.controller_path is None else (*self.target_names, self.controller_path)


@dataclass(frozen=True, slots=True)
class Leased:
    """The last lease that a host reached: it runs the role and admits the lease's keys, and no others."""

    role: str
    number: int

    def __str__(self) -> str:
        return f"role {self.role} (number {self.number})"

    def properties(self) -> dict[str, Value]:
        """Return the value in the host's node."""
        return {"role": self.role, "number": self.number}

    @classmethod
    def from_properties(cls, value: object) -> Leased | None:
        """Return what ``properties`` encoded; ``None`` for anything else."""
        match value:
            case {"role": str(role), "number": int(number)}:
                return cls(role, number)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Host:
    """A host as its node under ``/hosts`` describes it.

    ``version`` is the revision that is completely deployed. The value is ``None`` before the first deployment, and
    from the first change of a deployment until that deployment is complete; ``former`` is then the version before
    it. ``sequence`` is that of the publication with which the host reached ``version``, 0 without one; ``None``
    means that the agent does not report it, as the agents of zc.zkdeployment. ``completed`` is the sequence of the
    last publication that the host deployed completely; unlike ``sequence`` it stays during the next deployment.
    ``failed`` is the failure that ``error`` is about. ``since`` is the time of the node's last change, in seconds
    since the epoch; it is not one of its properties.

    ``idle_role`` is the role of a host that can be leased, while it is not leased; ``None`` for other hosts.
    ``leased`` is the lease that such a host has reached; it is ``None`` while the host changes its role.
    ``lease_failed`` is the number of the lease that the host last failed to follow.

    ``lacking`` is what the host skipped of ``version``, or failed at, by the group that is stopped.
    """

    identity: Identity
    version: Revision | None = None
    former: Revision | None = None
    error: str | None = None
    deploying: str | None = None
    step: str | None = None
    steps: tuple[int, int] | None = None
    pid: int | None = None
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    since: float | None = None
    sequence: int | None = None
    completed: int | None = None
    failed: DeploymentFailure | None = None
    address: str | None = None
    idle_role: str | None = None
    leased: Leased | None = None
    lease_failed: int | None = None
    lacking: Mapping[str, LackingGroup] = field(default_factory=dict)

    @property
    def is_leasable(self) -> bool:
        """Whether leases decide the role of the host: its failures concern no other host."""
        return self.idle_role is not None

    @property
    def lease_text(self) -> str:
        """The host's lease for people; empty for a host that cannot be leased."""
        return lease_text(self.identity.role, self.idle_role, self.leased)

    @property
    def facts(self) -> Facts:
        """The facts that a strategy's selectors match."""
        return Facts(
            self.rack, frozenset(self.tags), self.labels, self.identity.name, is_leasable=self.is_leasable
        )

    @property
    def shown_version(self) -> str:
        """The version for display, in full; a host without a version shows the version that it had before."""
        if self.version is not None:
            return str(self.version)
        return "no version" if self.former is None else f"no version (before its last deployment {self.former})"

    @property
    def is_waiting(self) -> bool:
        """Whether the deployment waits for its turn in the rollout strategy."""
        return self.step is not None and self.step.startswith(WAITING_PREFIX)

    def has(self, revision: Revision | None) -> bool:
        """Whether the revision is completely deployed; never true of a host in the middle of a deployment."""
        return self.version is not None and revision is not None and str(self.version) == str(revision)

    def lacks(self, service: str) -> bool:
        """Whether the host skipped steps of a service, or failed at them, because its group is stopped."""
        return service in services_of(self.lacking)

    def has_reached(self, sequence: int) -> bool:
        """Whether the host completed the publication with this sequence, or a later one."""
        return self.version is not None and self.sequence is not None and self.sequence >= sequence > 0

    @property
    def reports_sequence(self) -> bool:
        """Whether it is known which publication the host reached, if it has a version.

        The sequence of a host that changes its role for a lease is 0; no agent without leases is that old.
        """
        return self.is_leasable or bool(self.sequence) or (self.sequence == 0 and self.version is None)

    def properties(self) -> dict[str, Value]:
        """Return the properties of the host's node, without values that are not set, except the version."""
        properties: dict[str, Any] = {
            "name": self.identity.name,
            "version": self.version,
            "sequence": self.sequence,
            "completed": self.completed,
            "former": self.former,
            "role": self.identity.role,
            "error": self.error,
            "failed": None if self.failed is None else self.failed.properties(),
            "deploying": self.deploying,
            "step": self.step,
            "steps": None if self.steps is None else list(self.steps),
            "pid": self.pid,
            "tags": list(self.tags) or None,
            "labels": dict(self.labels) or None,
            "rack": self.rack,
            "address": self.address,
            "lease": self.idle_role,
            "leased": None if self.leased is None else self.leased.properties(),
            "lease_failed": self.lease_failed,
            "lacking": {group: lacking.to_json() for group, lacking in self.lacking.items()} or None,
        }
        return {name: value for name, value in properties.items() if value is not None or name == "version"}

    @classmethod
    def from_properties(cls, host_id: str, properties: Properties, *, since: float | None = None) -> Host:
        """Return the host that a node describes.

        Malformed values read as not set, so that one bad node does not hide the fleet.
        """

        def text(name: str) -> str | None:
            value = properties.get(name)
            return value if isinstance(value, str) else None

        def revision(name: str) -> Revision | None:
            value = properties.get(name)
            return value if is_revision(value) else None

        def number(name: str) -> int | None:
            value = properties.get(name)
            return value if isinstance(value, int) and not isinstance(value, bool) else None

        steps = properties.get("steps")
        pid = properties.get("pid")
        tags = properties.get("tags")
        labels = properties.get("labels")
        return cls(
            identity=Identity(id=host_id, name=text("name") or host_id, role=text("role")),
            version=revision("version"),
            sequence=number("sequence"),
            completed=number("completed"),
            former=revision("former"),
            error=text("error"),
            failed=DeploymentFailure.from_properties(properties.get("failed")),
            deploying=text("deploying"),
            step=text("step"),
            steps=_pair(steps),
            pid=pid if isinstance(pid, int) else None,
            tags=tuple(str(tag) for tag in tags) if isinstance(tags, list) else (),
            labels={key: str(value) for key, value in labels.items()} if isinstance(labels, dict) else {},
            rack=text("rack"),
            address=text("address"),
            idle_role=text("lease"),
            leased=Leased.from_properties(properties.get("leased")),
            lease_failed=number("lease_failed"),
            lacking=lacking_from_json(properties.get("lacking")),
            since=since,
        )


def _is_full(name: str) -> bool:
    return "." in name and not name.startswith("localhost.")


def lease_text(role: str | None, idle_role: str | None, leased: Leased | None) -> str:
    """Return the lease of a host for people; empty for a host that cannot be leased."""
    if idle_role is None:
        return ""
    if leased is None:
        return f"changes to role {role} for its lease"
    return f"leased to {leased}" if leased.role != idle_role else f"can be leased; has its idle role {idle_role}"


def idle_role(role: str) -> str | None:
    """Return ``IDLE`` of the configured role ``lease:IDLE`` of a host that can be leased, else ``None``."""
    return role.removeprefix(_LEASABLE) if role.startswith(_LEASABLE) else None


def is_host_name(target: str) -> bool:
    """Whether a target that matches no known host is a host name: these contain a dot, and roles do not."""
    return "." in target and not target.startswith("/")


def _pair(value: object) -> tuple[int, int] | None:
    match value:
        case [int(done), int(total)]:
            return done, total
        case _:
            return None
