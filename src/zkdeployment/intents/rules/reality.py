"""The reports of hosts and services for the status of intents, and the statuses of a resource."""

from __future__ import annotations

import functools
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.deployment import Deployment, DeploymentFailure, HostResult
from zkdeployment.base.inventory import KnownHost, absent_hosts
from zkdeployment.base.stop import services_of
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.host import Host, Identity
    from zkdeployment.base.json_values import Properties
    from zkdeployment.intents.documents import IntentSubject


@dataclass(frozen=True, slots=True)
class RecordedDeployment:
    """A marker of a host: the package, its version, and the sequence of the publication that deployed it."""

    package: str | None = None
    version: str | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class ReportedHost:
    """The reports of a host.

    ``deployments`` are the markers of its inventory, ``None`` if it never published an inventory. ``completed`` is
    the sequence of the last publication that it deployed completely. ``was_seen`` is ``False`` for a host name in
    the tree that no known host has. ``lacking`` are the services of that publication that the host lacks. A host
    ``in_maintenance`` deploys nothing until that ends.
    """

    identity: Identity
    is_present: bool = True
    deployments: Mapping[Deployment, RecordedDeployment] | None = None
    completed: int | None = None
    failure: DeploymentFailure | None = None
    step: str | None = None
    error: str | None = None
    address: str | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    was_seen: bool = True
    lacking: frozenset[str] = frozenset()
    in_maintenance: bool = False

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that select the host: its role, or, without a role, its name and its id."""
        role = self.identity.role
        return (role,) if role is not None else self.identity.target_names


@dataclass(frozen=True, slots=True)
class ServiceProvider:
    """A running instance that registered itself below a service: its path, and the host that it names."""

    path: str
    service: str
    host: str | None = None
    deployment: Deployment | None = None
    properties: Properties = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The address of the provider without its port: the name of its node."""
        name = self.path.rpartition("/")[2]
        return name.rpartition(":")[0] or name


class ReportedHosts:
    """The hosts by their targets and by their ids; if a host has several reports, the last one counts."""

    def __init__(self, hosts: Iterable[ReportedHost]) -> None:
        self.by_id = {host.identity.id: host for host in sorted(hosts, key=_by_id)}
        self._by_address: dict[str, ReportedHost] = {}
        self._by_target: dict[str, list[ReportedHost]] = {}
        for host in self.by_id.values():
            for target in host.targets:
                self._by_target.setdefault(target, []).append(host)
            if host.address is not None:
                self._by_address[host.address] = host

    def of(self, target: str) -> Sequence[ReportedHost]:
        """Return the hosts that a target selects, sorted by id."""
        return self._by_target.get(target, ())

    def host_of(self, provider: ServiceProvider) -> ReportedHost | None:
        """Return the host of a provider, by its record or by its address; ``None`` if neither is known."""
        if provider.host is not None:
            return self.by_id.get(provider.host)
        return self._by_address.get(provider.address)


@dataclass(frozen=True, slots=True)
class FleetReports:
    """The known state of the fleet: hosts, providers of services, and the clusters of Cluster documents."""

    hosts: ReportedHosts
    providers: tuple[ServiceProvider, ...] = ()
    clusters: frozenset[IntentSubject] = frozenset()


def _by_id(host: ReportedHost) -> str:
    return host.identity.id


#: The node below a service whose children are the service's providers.
PROVIDERS = "providers"


def fleet_reports(
    hosts: Sequence[Host],
    known: Iterable[KnownHost],
    results: Mapping[str, HostResult],
    providers: Mapping[str, Mapping[str, Properties]],
    maintenance: Collection[str] = (),
) -> FleetReports:
    """Return the reports of the fleet; ``maintenance`` are the ids of hosts in maintenance.

    ``hosts`` are the registered hosts, ``known`` the inventories of all known hosts. ``results`` are those of the
    last publication that concerned hosts, by host id. ``providers`` are the registered instances of each service:
    path of the service, name, properties.
    """
    inventories = {host.identity.id: host for host in known}
    reported = [
        *(_present(host, inventories.get(host.identity.id), results) for host in hosts),
        *(_absent(host, results.get(host.identity.id)) for host in absent_hosts(inventories.values(), hosts)),
    ]
    return FleetReports(
        ReportedHosts(
            replace(host, in_maintenance=True) if host.identity.id in maintenance else host for host in reported
        ),
        tuple(_providers(providers)),
    )


def _present(host: Host, inventory: KnownHost | None, results: Mapping[str, HostResult]) -> ReportedHost:
    result = None if host.deploying is not None else results.get(host.identity.id)
    failure, completed = host.failed, max(host.sequence or 0, host.completed or 0)
    if failure is None:
        failure = next((one.failed for one in host.lacking.values() if one.failed is not None), None)
    if failure is None and result is not None and result.failed is not None:
        # The agent was restarted after the failure, and its new node does not have the failure.
        failure = result.failed if result.failed.sequence > completed else None
    return ReportedHost(
        host.identity,
        deployments=None if inventory is None else _deployments(inventory),
        completed=completed or None,
        failure=failure,
        step=host.step or (None if failure is None else failure.step),
        error=host.error or (None if failure is None or result is None else result.error),
        address=host.address,
        facts=_facts(host),
        lacking=services_of(host.lacking),
    )


def _absent(host: KnownHost, result: HostResult | None) -> ReportedHost:
    failure = None if result is None else result.failed
    if failure is not None and failure.sequence <= (host.completed or 0):
        failure = None
    return ReportedHost(
        host.identity,
        is_present=False,
        deployments=_deployments(host),
        completed=host.completed,
        failure=failure,
        step=None if failure is None else failure.step,
        error=None if failure is None or result is None else result.error,
        address=host.address,
        facts=_facts(host),
    )


def _deployments(host: KnownHost) -> dict[Deployment, RecordedDeployment] | None:
    """Return the markers of an inventory; ``None`` for an inventory that cannot be read."""
    if host.inventory is None:
        return None
    return {
        marker.deployment: RecordedDeployment(marker.package, marker.version, marker.sequence)
        for marker in host.inventory.markers
    }


def _facts(host: Host | KnownHost) -> dict[str, object]:
    facts: dict[str, object] = {
        "id": host.identity.id,
        "name": host.identity.name,
        "role": host.identity.role,
        "address": host.address,
        "rack": host.rack,
        "tags": list(host.tags),
        "labels": dict(host.labels),
    }
    return {name: value for name, value in facts.items() if value}


def _providers(providers: Mapping[str, Mapping[str, Properties]]) -> Iterator[ServiceProvider]:
    for service, instances in sorted(providers.items()):
        for name, properties in sorted(instances.items()):
            host = properties.get("host")
            yield ServiceProvider(
                f"{service}/{PROVIDERS}/{name}",
                service,
                host if isinstance(host, str) and host else None,
                _deployment(properties.get("deployment")),
                properties,
            )


def _deployment(value: object) -> Deployment | None:
    """Return the deployment in a provider's property, written as ``PATH N``; ``None`` for anything else."""
    path, _, number = value.rpartition(" ") if isinstance(value, str) else ("", "", "")
    if not path.startswith("/") or not number.isascii() or not number.isdecimal():
        return None
    return Deployment(path, int(number))


class RsyncStatus(Enum):
    """The last action on a resource."""

    PENDING = "Pending"
    APPLIED = "Applied"
    FAILED = "Failed"
    RETRYING = "Retrying"
    TERMINATED = "Terminated"


class ClusterStatus(Enum):
    """Whether a resource exists on its host."""

    NOT_PRESENT = "NotPresent"
    PRESENT = "Present"
    UNKNOWN = "Unknown"


class ResourceFacts(NamedTuple):
    """The known facts about a resource.

    ``is_recorded`` is whether its host recorded it as wanted at or after the last change of the instance.
    ``has_marker`` is ``None`` if the host never published an inventory. ``was_host_seen`` is whether the fleet
    has, or had, a host for the target at all. ``may_deploy`` is whether the host is registered, and not in
    maintenance.
    """

    is_wanted: bool
    has_failed: bool
    is_recorded: bool
    has_marker: bool | None
    may_deploy: bool
    was_host_seen: bool = True


#: The first rule that holds decides; the text is the manual's.
RSYNC_RULES: tuple[tuple[RsyncStatus, str, Callable[[ResourceFacts], bool]], ...] = (
    (
        RsyncStatus.FAILED,
        "its host failed to deploy it, or to install its packages, in the group's current publication",
        lambda facts: facts.has_failed,
    ),
    (
        RsyncStatus.APPLIED,
        "it is wanted, and its host recorded it as wanted at or after the group's last change",
        lambda facts: facts.is_wanted and facts.is_recorded,
    ),
    (
        RsyncStatus.TERMINATED,
        "it is not wanted any more, and its host's inventory does not have it, or its host was never seen",
        lambda facts: not facts.is_wanted and (facts.has_marker is False or not facts.was_host_seen),
    ),
    (
        RsyncStatus.RETRYING,
        "its host is absent or in maintenance; the deployment continues when the host is back",
        lambda facts: not facts.may_deploy,
    ),
    (RsyncStatus.PENDING, "otherwise", lambda _: True),
)

#: The status, by whether the inventory of the host has the marker.
CLUSTER_RULES: dict[bool | None, tuple[ClusterStatus, str]] = {
    None: (ClusterStatus.UNKNOWN, "its host never published an inventory"),
    False: (ClusterStatus.NOT_PRESENT, "the inventory of its host has no marker of it"),
    True: (ClusterStatus.PRESENT, "the inventory of its host has its marker"),
}


@functools.cache
def rsync_status(facts: ResourceFacts) -> RsyncStatus:
    """Return the status of the last action on a resource."""
    return next(status for status, _, holds in RSYNC_RULES if holds(facts))


def cluster_status(facts: ResourceFacts) -> ClusterStatus:
    """Return whether a resource exists."""
    return CLUSTER_RULES[facts.has_marker][0]
