"""Hosts: the identity of a host, and the content of its node under ``/hosts``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from zkdeployment.base.cluster import UNPUBLISHED, ClusterState, Revision, retry_obstacle
from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.records import APART, OMITTED, Key, Record
from zkdeployment.base.stop import LackingGroup, Stop, operators_stop, services_of
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from zkdeployment.base.act import Maintenance
    from zkdeployment.base.json_values import Properties


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

    A host that can be leased (``is_leasable``) is in no group of any selectors.
    """

    rack: str | None = None
    tags: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    is_leasable: bool = False


@dataclass(frozen=True, slots=True)
class Identity(Record):
    """The identity of a host: its unique id, its fully qualified name and its role, if it has one."""

    is_lenient: ClassVar[bool] = True
    omits_unset: ClassVar[bool] = True
    id: str
    name: str
    role: str | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

    def completed(self, remembered: Identity | None) -> Identity | None:
        """Return this identity, which has the name that the machine reports, with the fully qualified name.

        While DNS does not answer, a machine reports its name without the domain, or as localhost. In that case the
        domain is taken from the ``remembered`` identity. Returns ``None`` if that identity belongs to another
        machine, or if this name has no domain and no identity is remembered.
        """
        if _is_full(self.name):
            return self
        if remembered is None:
            return None
        if not _is_full(remembered.name):
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
class Leased(Record):
    """The last lease that a host reached: it runs the role and admits the lease's keys, and no others."""

    role: str
    number: int

    def __str__(self) -> str:
        return f"role {self.role} (number {self.number})"


@dataclass(frozen=True, slots=True)
class Host(Record):
    """A host as its node under ``/hosts`` describes it.

    ``version`` is the revision that is completely deployed. The value is ``None`` before the first deployment, and
    from the first change of a deployment until that deployment is complete; ``former`` is then the version before
    it. ``sequence`` is that of the publication with which the host reached ``version``, 0 without one; ``None``
    means that the agent does not report it, like the agents of zc.zkdeployment. ``completed`` is the sequence of
    the last publication that the host deployed completely; unlike ``sequence`` it stays during the next
    deployment. ``failed`` is the failure that ``error`` describes, and ``output`` are the last lines of the script
    that failed. ``since`` and ``registered`` are the times of the
    node's last change and of its creation, in seconds since the epoch; they are not among its properties.

    ``idle_role`` is the role of a host that can be leased, while it is not leased; ``None`` for other hosts.
    ``leased`` is the lease that such a host has reached; it is ``None`` while the host changes its role.
    ``lease_failed`` is the number of the lease that the host last failed to follow.

    ``lacking`` maps each stopped group to the services of ``version`` that the host skipped or failed to deploy.
    """

    is_lenient: ClassVar[bool] = True
    omits_unset: ClassVar[bool] = True
    identity: Annotated[Identity, Key(flat=True)]
    version: Annotated[Revision | None, Key(omit=False)] = None
    former: Revision | None = None
    error: str | None = None
    deploying: str | None = None
    step: str | None = None
    steps: tuple[int, int] | None = None
    pid: int | None = None
    tags: Annotated[tuple[str, ...], OMITTED] = ()
    labels: Annotated[Mapping[str, str], OMITTED] = field(default_factory=dict)
    rack: str | None = None
    since: Annotated[float | None, APART] = None
    registered: Annotated[float | None, APART] = None
    sequence: int | None = None
    completed: int | None = None
    failed: DeploymentFailure | None = None
    output: str | None = None
    address: str | None = None
    idle_role: Annotated[str | None, Key("lease")] = None
    leased: Leased | None = None
    lease_failed: int | None = None
    lacking: Annotated[Mapping[str, LackingGroup], OMITTED] = field(default_factory=dict)

    @property
    def is_leasable(self) -> bool:
        """Whether leases decide the role of the host; the failures of such a host affect no other host."""
        return self.idle_role is not None

    def behind_for(self, changed: float | None, now: float) -> float:
        """Return the seconds for which a host could have followed the cluster version of the time ``changed``.

        They begin when the host registers, because an absent host cannot follow.
        """
        begun = max(changed or now, self.registered or 0.0)
        return max(0.0, now - begun)

    @property
    def lease_text(self) -> str:
        """The host's lease as text for people; empty for a host that cannot be leased."""
        return lease_text(self.identity.role, self.idle_role, self.leased)

    @property
    def facts(self) -> Facts:
        """The facts that a strategy's selectors match."""
        return Facts(
            self.rack, frozenset(self.tags), self.labels, self.identity.name, is_leasable=self.is_leasable
        )

    @property
    def shown_version(self) -> str:
        """The version for display, not shortened; a host without a version shows its former version."""
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
        """Whether the host skipped or failed steps of a service because its group is stopped."""
        return service in services_of(self.lacking)

    def has_reached(self, sequence: int) -> bool:
        """Whether the host completed the publication with this sequence, or a later one."""
        return self.version is not None and self.sequence is not None and self.sequence >= sequence > 0

    @property
    def reports_sequence(self) -> bool:
        """Whether the node names the publication that the host reached, if the host has a version.

        A host that changes its role for a lease reports the sequence 0, and counts as reporting.
        """
        return self.is_leasable or bool(self.sequence) or (self.sequence == 0 and self.version is None)

    def properties(self) -> dict[str, Any]:
        """Return the properties of the host's node, without values that are not set, except the version."""
        value = self.to_json()
        del value["id"]
        return value

    @classmethod
    def from_properties(
        cls,
        host_id: str,
        properties: Properties,
        *,
        since: float | None = None,
        registered: float | None = None,
    ) -> Host:
        """Return the host that a node describes.

        Malformed values count as missing, so that one bad node does not hide the fleet.
        """
        name = properties.get("name")
        named = {"id": host_id, "name": name if isinstance(name, str) else host_id}
        return cls.from_json({**properties, **named}, since=since, registered=registered)


def _is_full(name: str) -> bool:
    return "." in name and not name.startswith("localhost.")


def lease_text(role: str | None, idle_role: str | None, leased: Leased | None) -> str:
    """Return the lease of a host as text for people; empty for a host that cannot be leased."""
    if idle_role is None:
        return ""
    if leased is None:
        return f"changes to role {role} for its lease"
    return f"leased to {leased}" if leased.role != idle_role else f"can be leased; has its idle role {idle_role}"


def idle_role(role: str) -> str | None:
    """Return ``IDLE`` for the configured role ``lease:IDLE`` of a host that can be leased, else ``None``."""
    return role.removeprefix(_LEASABLE) if role.startswith(_LEASABLE) else None


def is_host_name(target: str) -> bool:
    """Whether a target that matches no known host is a host name: host names contain a dot, roles do not."""
    return "." in target and not target.startswith("/")


def retry_objection(
    host: Host | None,
    state: ClusterState,
    stops: Collection[Stop],
    published: Revision | None,
    maintenance: Mapping[str, Maintenance],
) -> str:
    """Return why a host cannot try the ``published`` revision again on an operator's order; empty if it can.

    ``state`` is that of the fleet. In maintenance, a host tries again in no state. An agent that was restarted
    since its failure shows no error; its stop is still recorded.
    """
    host_id = None if host is None else host.identity.id
    if host_id is not None and host_id in maintenance:
        return f"it is {maintenance[host_id]}; end that first: 'zkdeployment uncordon {host_id}'"
    if obstacle := retry_obstacle(state):
        return obstacle
    stop = operators_stop(stops)
    if stop is not None:
        return f"{stop}; an operator's stop is for all hosts: resume the fleet"
    if published is None:
        return UNPUBLISHED
    if host is None:
        return "its agent is not registered; start the agent first"
    if host.is_leasable:
        return "leases decide what it runs, and it tries again with its next lease"
    if host.error is None and all(stop.host_id != host_id for stop in stops):
        return "it has not failed; 'zkdeployment resume' lets all hosts continue"
    if host.error is None and host.has(published):
        return "it has the published revision; 'zkdeployment resume' lets the other hosts continue"
    return ""
