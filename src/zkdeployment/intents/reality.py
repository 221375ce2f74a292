"""The reports of hosts and services, as the status of intents needs it: one snapshot of the fleet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.model.deployment import Deployment, DeploymentFailure
    from zkdeployment.model.host import Identity
    from zkdeployment.model.tree import Properties


@dataclass(frozen=True, slots=True)
class RecordedDeployment:
    """A marker of a host: the package, its version, and the sequence of the publication it was deployed in."""

    package: str | None = None
    version: str | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class ReportedHost:
    """A host as it reported itself.

    ``deployments`` are the markers of its inventory, ``None`` if it never published one. ``completed`` is the
    sequence of the last publication that it deployed completely. ``was_seen`` is ``False`` for a host name in the
    tree that no known host has. ``lacking`` are the services that it lacks of that publication.
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

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that select the host: its role, or its name and its id if it has none."""
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
    """The hosts by their targets and by their ids; of several reports of one host the last one counts."""

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
