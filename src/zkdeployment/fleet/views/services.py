"""The status of services: wanted versions, states of deployments, and withheld services.

The published targets decide which services a host runs; the inventory of the host lists its deployments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

from zkdeployment.base.cluster import Revision
from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.errors import NotFoundError
from zkdeployment.base.packages import has_version, is_installed, order_key
from zkdeployment.base.records import APART, Key, Record, shown
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.instances import NONE_DOWN, DownInstances, ServicesSnapshot
from zkdeployment.fleet.views.status import (
    UNREGISTERED,
    FleetStatus,
    HostState,
    HostStatus,
    running_instances,
)
from zkdeployment.publishing.section import section
from zkdeployment.publishing.targets.services import unchecked_assignments
from zkdeployment.tree.checkout import is_checkout
from zkdeployment.tree.values import is_below

if TYPE_CHECKING:
    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import Inventory, KnownHost, Marker
    from zkdeployment.base.json_values import Properties
    from zkdeployment.base.publication import LeftService, Targets
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.publishing.targets.compiler import ServiceTarget


#: The limit of deployments that the sentence names.
_NAMED_UNCHANGED = 12


def unchanged_deployments(known: KnownHost | None) -> Iterator[str]:
    """Yield a fact if a host skipped unchanged deployments in its last publication."""
    if known is None or known.inventory is None or known.completed is None:
        return
    names = [
        f"{marker.deployment} (last run in publication {marker.sequence})"
        for marker in known.inventory.markers
        if marker.properties is not None and marker.sequence is not None and marker.sequence < known.completed
    ]
    if names:
        yield f"unchanged, not run again in publication {known.completed}: {listing(names, _NAMED_UNCHANGED)}"


#: The most services that a host's explanation names.
_NAMED = 20


def withheld_from_host(
    identity: Identity,
    withheld: Collection[ServiceTarget],
    records: Iterable[Any],
    left: Iterable[LeftService] = (),
) -> tuple[str, ...]:
    """Return a sentence for each service that a host would deploy if its intent were instantiated.

    ``records`` are the records of all intents, ``left`` the services that left the governance of their intents.
    """
    sentences = [*withheld_sentences(withheld_for(identity, withheld), records, left)]
    more = len(sentences) - _NAMED
    return (*sentences[:_NAMED], *([f"and {more} more services are not deployed"] if more > 0 else []))


def withheld_for(identity: Identity, withheld: Collection[ServiceTarget]) -> list[ServiceTarget]:
    """Return the withheld services that a host would deploy, sorted by path and target."""
    names = {identity.role} if identity.role is not None else {*identity.target_names}
    return sorted(pair for pair in withheld if pair[1] in names)


def withheld_below(withheld: Collection[ServiceTarget], path: str) -> list[ServiceTarget]:
    """Return the withheld services at and below a path; the empty path is the root."""
    return [(service, target) for service, target in sorted(withheld) if f"{service}/".startswith(f"{path}/")]


def withheld_sentences(
    withheld: Iterable[ServiceTarget], records: Iterable[Any], left: Iterable[LeftService] = ()
) -> Iterator[str]:
    """Yield a sentence for each withheld service, with its targets and the reason."""
    withheld, left = tuple(withheld), tuple(left)
    governors = section().governors(withheld, records)
    for path, target in withheld:
        governor = governors.get((path, target))
        former = next((one.sentence for one in left if one.covers(path, target)), None)
        governed = former if governor is None else f"{'/'.join(governor.subject)} is {governor.state}"
        yield f"{path} is not deployed to {target}{'' if governed is None else f': {governed}'}"


class InstanceState(Enum):
    """The state of one deployment."""

    DEPLOYED = "deployed"  # in the wanted version, on a host that finished the wanted revision
    PENDING = "pending"  # in the wanted version, but the host has not finished the wanted revision
    OUTDATED = "outdated"  # in another version
    MISSING = "missing"
    LEFTOVER = "leftover"  # no longer wanted on this host
    UNKNOWN = "unknown"  # the host has not reported its inventory
    ABSENT = "absent"  # the host is not registered
    MAINTENANCE = "in maintenance"  # an operator withholds the host from deployments


@dataclass(frozen=True, slots=True)
class InstanceStatus(Record):
    """One deployment: its number, the version that the host has of its package or checkout, and its state."""

    number: int
    version: str | None
    state: InstanceState


@dataclass(frozen=True, slots=True)
class ServiceHost(Record):
    """A host with deployments of a service, and the number of instances that the host is to run."""

    id: str
    name: str
    role: str | None
    state: HostState
    wanted: Annotated[int, Key("n")]
    deployments: tuple[InstanceStatus, ...]


@dataclass(frozen=True, slots=True)
class ServiceStatus(Record):
    """A service of the published tree, its hosts by name, and its registered instances: name to properties.

    ``version`` is the wanted version of ``package``; ``None`` if the package's name contains it. For a service
    that is no longer deployed to any target, both come from the remaining deployments. ``providers`` is ``None``
    if none was ever registered: the instances of the service do not register. ``unmatched`` are the targets that
    no known host matches, ``down`` the instances that hosts have to run and that are not registered.
    """

    path: str
    package: str
    version: str | None
    hosts: tuple[ServiceHost, ...] = ()
    unmatched: tuple[str, ...] = ()
    providers: Mapping[str, Mapping[str, Any]] | None = None
    down: Annotated[DownInstances, APART] = NONE_DOWN

    @property
    @shown("as_wanted")
    def as_wanted(self) -> bool:
        """Whether every deployment has the wanted state."""
        states = (deployment.state for host in self.hosts for deployment in host.deployments)
        return not self.unmatched and all(state is InstanceState.DEPLOYED for state in states)

    @shown("down")
    def _down(self) -> int:
        return self.down.count

    @property
    def wanted(self) -> int:
        """The number of instances that all hosts are to run."""
        return sum(host.wanted for host in self.hosts)

    def count(self, state: InstanceState) -> int:
        """Return the number of deployments in a state."""
        return sum(1 for host in self.hosts for deployment in host.deployments if deployment.state is state)


@dataclass(frozen=True, slots=True)
class ServicesStatus(Record):
    """The services at and below a path; ``wanted`` is the revision that hosts must have."""

    wanted: Revision | None
    services: tuple[ServiceStatus, ...]

    @property
    @shown("as_wanted")
    def as_wanted(self) -> bool:
        """Whether every deployment of every service has the wanted state."""
        return all(service.as_wanted for service in self.services)


@dataclass(slots=True)
class _Collected:
    """The findings about one service."""

    assignments: list[Assignment] = field(default_factory=list)
    hosts: list[ServiceHost] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)


def hosts_of_services(snapshot: FleetSnapshot) -> list[Identity]:
    """Return the identities of all registered and absent hosts: their inventories are needed."""
    return [*(host.identity for host in snapshot.hosts), *(host.identity for host in snapshot.absent)]


def services_status(
    status: FleetStatus,
    snapshot: FleetSnapshot,
    targets: Targets,
    known: Sequence[KnownHost],
    providers: Mapping[str, Mapping[str, Properties]],
    *,
    path: str = "",
) -> ServicesStatus:
    """Return the status of the services at and below ``path``; ``known`` are the inventories of all hosts."""
    services = ServicesSnapshot(targets, providers).with_inventories(known)
    down = services.down_by_service(running_instances(snapshot, status.hosts, services))
    statuses = {host.id: host for host in status.hosts}
    inventories = {host.identity.id: host.inventory for host in known}
    identities = hosts_of_services(snapshot)
    collected: dict[str, _Collected] = defaultdict(_Collected)
    for identity in identities:
        _collect(collected, identity, statuses[identity.id], inventories.get(identity.id), targets, path)
    unmatched = _unmatched(targets, identities, path)
    for service_path, missing in unmatched.items():
        collected[service_path].assignments += missing.values()
    return ServicesStatus(
        wanted=status.wanted,
        services=tuple(
            replace(
                _service(service_path, found, unmatched.get(service_path, {}), providers.get(service_path)),
                down=down.get(service_path, NONE_DOWN),
            )
            for service_path, found in sorted(collected.items())
        ),
    )


def require_services(found: ServicesStatus, path: str, withheld: Collection[ServiceTarget]) -> None:
    """Raise ``NotFoundError`` if a path is given and no service there is deployed or withheld."""
    if path and not found.services and not withheld_below(withheld, path):
        raise NotFoundError(f"there is no service at or below {path}: nothing there is deployed anywhere")


def _collect(
    collected: dict[str, _Collected],
    identity: Identity,
    host: HostStatus,
    inventory: Inventory | None,
    targets: Targets,
    path: str,
) -> None:
    """Add the deployments of one host to the services that they belong to."""
    markers = {} if inventory is None else {marker.deployment: marker for marker in inventory.markers}
    wanted = {
        assignment.path: assignment
        for assignment in unchecked_assignments(identity, targets)
        if is_below(assignment.path, path)
    }
    left: dict[str, list[Marker]] = defaultdict(list)
    for deployment, marker in markers.items():
        assignment = wanted.get(deployment.path)
        if is_below(deployment.path, path) and (assignment is None or deployment.number >= assignment.n):
            left[deployment.path].append(marker)
    for service_path in sorted(wanted.keys() | left.keys()):
        assignment = wanted.get(service_path)
        deployments = list(_deployments(assignment, host, inventory, markers)) if assignment else []
        deployments += [
            InstanceStatus(marker.deployment.number, marker.version, _left_state(host))
            for marker in left[service_path]
        ]
        found = collected[service_path]
        found.assignments += [] if assignment is None else [assignment]
        found.markers += left[service_path]
        number = 0 if assignment is None else assignment.n
        found.hosts.append(ServiceHost(host.id, host.name, host.role, host.state, number, tuple(deployments)))


def _deployments(
    assignment: Assignment, host: HostStatus, inventory: Inventory | None, markers: Mapping[Deployment, Marker]
) -> Iterator[InstanceStatus]:
    """Yield the wanted deployments of one service on one host."""
    version, is_right = (None, False) if inventory is None else _present(assignment, inventory)
    for number in range(assignment.n):
        if host.state is HostState.MAINTENANCE:
            state = InstanceState.MAINTENANCE
        elif host.state in UNREGISTERED:
            state = InstanceState.ABSENT
        elif inventory is None:
            state = InstanceState.UNKNOWN
        elif Deployment(assignment.path, number) not in markers:
            state = InstanceState.MISSING
        elif not is_right:
            state = InstanceState.OUTDATED
        else:
            state = InstanceState.DEPLOYED if host.state is HostState.CONVERGED else InstanceState.PENDING
        yield InstanceStatus(number, None if state is InstanceState.MISSING else version, state)


def _present(assignment: Assignment, inventory: Inventory) -> tuple[str | None, bool]:
    """Return the version that a host has of a package or checkout, and whether it is the wanted one."""
    checkout = inventory.checkouts.get(assignment.package)
    if checkout is not None or is_checkout(assignment.version):
        return checkout, checkout is not None and checkout == assignment.version
    packages = inventory.packages.get(assignment.package, ())
    if not packages:
        return None, False
    wanted, installonly = assignment.version, assignment.package in inventory.installonly
    fitting = [package for package in packages if wanted is None or has_version(package, wanted)]
    package = max(fitting or packages, key=order_key)
    return f"{package.version}-{package.release}", is_installed(packages, wanted, installonly=installonly)


def _left_state(host: HostStatus) -> InstanceState:
    return InstanceState.ABSENT if host.state in UNREGISTERED else InstanceState.LEFTOVER


def _unmatched(targets: Targets, identities: Iterable[Identity], path: str) -> dict[str, dict[str, Assignment]]:
    """Return the assignments of targets that no known host matches: path of the service, then target."""
    names = {name for identity in identities for name in identity.target_names}
    unmatched: dict[str, dict[str, Assignment]] = defaultdict(dict)
    for name, assignments in targets.items():
        if name in names or name.startswith("/"):
            continue
        for assignment in assignments:
            if assignment.n and is_below(assignment.path, path):
                unmatched[assignment.path][name] = assignment
    return unmatched


def _service(
    path: str,
    found: _Collected,
    unmatched: Mapping[str, Assignment],
    providers: Mapping[str, Properties] | None,
) -> ServiceStatus:
    hosts = tuple(sorted(found.hosts, key=lambda host: (host.name, host.id)))
    missing = tuple(sorted(unmatched))
    if found.assignments:
        first = found.assignments[0]
        return ServiceStatus(path, first.package, first.version, hosts, missing, providers)
    marker = found.markers[0]
    return ServiceStatus(path, marker.package or marker.application, marker.version, hosts, missing, providers)
