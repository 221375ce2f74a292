"""The basis of check instances: configurations, services and hosts of one publication, and what changed in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.documents.checks.arguments import named_properties
from zkdeployment.documents.checks.on_call import on_call_of
from zkdeployment.errors import LinkError
from zkdeployment.model.inventory import absent_hosts
from zkdeployment.model.tree import PROPERTY_LINK, SYMBOLIC_LINK
from zkdeployment.tree.links import property_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.checks.instance import InstanceKey
    from zkdeployment.documents.checks.on_call import OnCall
    from zkdeployment.documents.checks.values import CheckConfiguration
    from zkdeployment.model.deployment import Assignment, Deployment
    from zkdeployment.model.host import Facts, Host, Identity
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.tree import Properties, Value
    from zkdeployment.tree.links import Lookup


#: The most characters of the id, the name and the address of a host.
LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class CheckedHost:
    """A known host, registered or absent.

    ``address`` is the name of the host if it reports no address. ``deployments`` are those that it reports, and
    ``completed`` is the sequence of the last publication that it deployed completely, 0 if it is not known.
    """

    identity: Identity
    address: str
    facts: Facts
    deployments: frozenset[Deployment] = frozenset()
    completed: int = 0

    def has_reported(self, deployment: Deployment, sequence: int) -> bool:
        """Whether the host has the deployment as the publication with this sequence, or a later one, wants it."""
        return self.completed >= sequence and deployment in self.deployments


@dataclass(frozen=True, slots=True)
class CheckBasis:
    """The basis from which the check instances of a publication follow.

    ``configurations`` are the configurations by name. ``targets`` are the published targets, without withheld
    services. ``properties`` are the properties of each service node, with links resolved. ``hosts`` are all known
    hosts by id. ``duties`` are the on-call duties by the paths of their nodes.
    """

    configurations: Mapping[str, CheckConfiguration] = field(default_factory=dict)
    targets: Targets = field(default_factory=dict)
    properties: Mapping[str, Properties] = field(default_factory=dict)
    hosts: Mapping[str, CheckedHost] = field(default_factory=dict)
    duties: Mapping[str, OnCall] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckScope:
    """The check instances that a change may concern: those of these configurations, services and hosts."""

    configurations: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.configurations or self.paths or self.hosts)

    def concerns(self, key: InstanceKey) -> bool:
        """Whether an instance may be another one after the change, or may not be wanted any more."""
        return key.check in self.configurations or key.path in self.paths or key.host in self.hosts


def changed_scope(before: CheckBasis, after: CheckBasis) -> CheckScope:
    """Return the scope of the change from one basis to another; all instances beyond it stay unchanged."""
    kept = [*before.configurations.values(), *after.configurations.values()]
    named = frozenset(name for configuration in kept for name in named_properties(configuration))
    return CheckScope(
        configurations=_changed(before.configurations, after.configurations),
        paths=_changed(_named(before, named), _named(after, named))
        | _changed_services(before.targets, after.targets)
        | _changed(_duties(before), _duties(after)),
        hosts=_changed(_host_values(before), _host_values(after)),
    )


def checked_hosts(registered: Iterable[Host], known: Iterable[KnownHost]) -> dict[str, CheckedHost]:
    """Return all known hosts by id: the registered ones as they describe themselves, and the absent ones."""
    registered, known = tuple(registered), tuple(known)
    inventories = {host.identity.id: host for host in known}
    found = [
        CheckedHost(host.identity, _address(host), host.facts, _deployments(host), host.completed or 0)
        for host in absent_hosts(known, registered)
    ]
    found += (_registered_host(host, inventories.get(host.identity.id)) for host in registered)
    return {host.identity.id: host for host in sorted(found, key=lambda host: host.identity.id)}


def service_properties(lookup: Lookup, paths: Iterable[str]) -> dict[str, Properties]:
    """Return the properties of service nodes with the values that their links lead to, without broken links."""
    found: dict[str, Properties] = {}
    for path in paths:
        properties = lookup(path)
        if properties is not None:
            found[path] = _resolved(lookup, path, properties)
    return found


def tree_basis(
    lookup: Lookup,
    targets: Targets,
    configurations: Mapping[str, CheckConfiguration],
    hosts: Mapping[str, CheckedHost],
    duties: Iterable[OnCall] = (),
) -> CheckBasis:
    """Return the basis of configurations by name in a tree with these targets."""
    paths = [
        path for path in service_paths(targets) if any(found.concerns(path) for found in configurations.values())
    ]
    properties = service_properties(lookup, paths)
    return CheckBasis(configurations, targets, properties, hosts, {duty.path: duty for duty in duties})


def service_paths(targets: Targets) -> frozenset[str]:
    """Return the paths of all services that any target is to run."""
    return frozenset(
        assignment.path
        for name, assignments in targets.items()
        for assignment in assignments
        if not name.startswith("/")
    )


def _resolved(lookup: Lookup, path: str, properties: Properties) -> Properties:
    if not any(name.endswith((PROPERTY_LINK, SYMBOLIC_LINK)) for name in properties):
        return properties
    resolved: dict[str, Value] = {}
    for key, value in properties.items():
        name = key.removesuffix(PROPERTY_LINK)
        if key.endswith(SYMBOLIC_LINK) or (name != key and name in properties):
            continue
        try:
            resolved[name] = value if name == key else property_value(lookup, path, name)
        except LinkError:
            continue
    return resolved


def _changed(before: Mapping[str, object], after: Mapping[str, object]) -> frozenset[str]:
    names = before.keys() | after.keys()
    return frozenset(name for name in names if before.get(name) != after.get(name))


def _named(basis: CheckBasis, names: frozenset[str]) -> dict[str, Properties]:
    """Return the properties of services that configurations name; others, such as the version, do not count."""
    return {
        path: {name: properties[name] for name in names & properties.keys()}
        for path, properties in basis.properties.items()
    }


def _duties(basis: CheckBasis) -> dict[str, OnCall | None]:
    """Return the duty of each service."""
    return {path: on_call_of(basis.duties, path) for path in basis.properties} if basis.duties else {}


def _changed_services(before: Targets, after: Targets) -> frozenset[str]:
    """Return the paths of the services whose targets, numbers of instances or packages differ."""
    paths: set[str] = set()
    for name in before.keys() | after.keys():
        old, new = before.get(name, ()), after.get(name, ())
        if old is not new and old != new:
            paths |= _changed(_services(old), _services(new))
    return frozenset(paths)


def _services(assignments: Iterable[Assignment]) -> dict[str, tuple[int, str, str]]:
    return {found.path: (found.n, found.package, found.application) for found in assignments}


def _host_values(basis: CheckBasis) -> dict[str, object]:
    return {host_id: (host.identity, host.address, host.facts) for host_id, host in basis.hosts.items()}


def _address(host: Host | KnownHost) -> str:
    """Return the address of a host; its name if it reports none, or one that is too long."""
    return host.address if host.address and len(host.address) <= LONGEST_NAME else host.identity.name


def _registered_host(host: Host, last: KnownHost | None) -> CheckedHost:
    return CheckedHost(
        identity=host.identity,
        address=_address(host),
        facts=host.facts,
        deployments=frozenset() if last is None else _deployments(last),
        completed=max(host.completed or 0, (host.sequence or 0) if host.version is not None else 0),
    )


def _deployments(host: KnownHost) -> frozenset[Deployment]:
    if host.inventory is None:
        return frozenset()
    return frozenset(marker.deployment for marker in host.inventory.markers)
