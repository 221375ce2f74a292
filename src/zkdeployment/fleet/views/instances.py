"""Decides which instances of services are down: their hosts run them, but they are not registered.

An instance registers as an ephemeral child of the node ``providers`` of its service. Which instances a host has to
run at present follows from the state of the host: see ``status``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.records import APART, Key, Record
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.targets.services import targets_of
from zkdeployment.tree.values import is_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.deployment import Assignment, Deployment
    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.json_values import Properties
    from zkdeployment.base.publication import Targets


#: The most instances that a sentence names.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class ExpectedInstance(Record):
    """An instance that a host has to run: the path of its service, its number, and the id and name of the host."""

    path: str
    number: int
    host: str
    name: str

    def __str__(self) -> str:
        return f"{self.path} {self.number} on {self.name}"

    @property
    def registration(self) -> tuple[str, str, str]:
        """The service below which the instance registers, and the host and the deployment that it states there."""
        return self.path, self.host, f"{self.path} {self.number}"


@dataclass(frozen=True, slots=True)
class DownInstances(Record):
    """The instances that are down: how many of all instances of services that register, and the known ones.

    ``count`` of the ``expected`` instances are down, and ``instances`` are those that are known. A registered
    instance that does not state its host and its deployment stands for any of the ``missing`` instances of its
    service, so that any of these may be down.
    """

    count: int = 0
    expected: Annotated[int, Key("of")] = 0
    instances: tuple[ExpectedInstance, ...] = ()
    missing: Annotated[tuple[ExpectedInstance, ...], APART] = ()

    def __str__(self) -> str:
        if not self.count:
            return ""
        total = counted(self.expected, "instance")
        return f"{self.count} of {total} {'is down' if self.count == 1 else 'are down'}"

    @property
    def names(self) -> str:
        """The first instances by name; empty if it is not known which are down."""
        return listing([*map(str, self.instances)], _NAMED)

    @property
    def sentence(self) -> str:
        """The number of the instances that are down, with the first known ones by name; empty if none is down."""
        return ": ".join(filter(None, (str(self), self.names)))


#: The value while no instance is down, or none registers.
NONE_DOWN = DownInstances()


@dataclass(frozen=True, slots=True)
class ServicesSnapshot:
    """The published services and their registered instances at one moment.

    ``providers`` maps the paths of services to their registered instances: name to properties. A service is
    missing there if no instance of it was ever registered: the instances of such a service do not register.
    ``deployed`` are the deployments of the hosts whose inventories were read, by host id.
    """

    targets: Targets = field(default_factory=dict)
    providers: Mapping[str, Mapping[str, Properties]] = field(default_factory=dict)
    deployed: Mapping[str, frozenset[Deployment]] = field(default_factory=dict)

    def with_inventories(self, known: Iterable[KnownHost]) -> ServicesSnapshot:
        """Return the snapshot with the deployments in these inventories."""
        found = {
            host.identity.id: frozenset(marker.deployment for marker in host.inventory.markers)
            for host in known
            if host.inventory is not None
        }
        return replace(self, deployed=found)

    def registered(self) -> set[tuple[str, str, str]]:
        """Return the ``registration`` of each registered instance."""
        return {
            (path, str(properties.get("host")), str(properties.get("deployment")))
            for path, providers in self.providers.items()
            for properties in providers.values()
        }

    def expected(self, identities: Iterable[Identity]) -> Iterator[ExpectedInstance]:
        """Yield the instances that the tree deploys to hosts, of the services whose instances register."""
        registering: dict[str, dict[str, Assignment]] = {
            name: {each.path: each for each in assignments if each.path in self.providers}
            for name, assignments in self.targets.items()
            if not name.startswith("/")
        }
        for identity in identities:
            wanted: dict[str, Assignment] = {}
            for name in targets_of(identity):
                wanted |= registering.get(name, {})
            for path, assignment in wanted.items():
                for number in range(assignment.n):
                    yield ExpectedInstance(path, number, identity.id, identity.name)

    def down_by_service(self, expected: Iterable[ExpectedInstance]) -> dict[str, DownInstances]:
        """Return the instances that are down, of all that are ``expected``, by the path of their service."""
        registered = self.registered()
        services: dict[str, list[ExpectedInstance]] = defaultdict(list)
        for instance in expected:
            services[instance.path].append(instance)
        alone = {each.path for assignments in self.targets.values() for each in assignments if each.registers_one}
        return {
            path: _down_of_service(
                services[path],
                tuple(instance for instance in services[path] if instance.registration not in registered),
                self.providers[path],
                registers_one=path in alone,
            )
            for path in sorted(services)
        }


def paths_of_services(targets: Targets, path: str) -> frozenset[str]:
    """Return the paths of the published services at and below a path; the empty path is the root."""
    return frozenset(
        assignment.path
        for name, assignments in targets.items()
        if not name.startswith("/")
        for assignment in assignments
        if is_below(assignment.path, path)
    )


#: The value of readers that need no services.
NO_SERVICES = ServicesSnapshot()


def _down_of_service(
    expected: Sequence[ExpectedInstance],
    missing: tuple[ExpectedInstance, ...],
    providers: Mapping[str, Properties],
    *,
    registers_one: bool,
) -> DownInstances:
    """Return which of the ``expected`` instances of one service are down; ``missing`` ones are not registered.

    If only the active instance registers (``registers_one``), no instance is down while any is registered.
    """
    unnamed = sum(1 for each in providers.values() if not _states_deployment(each, expected[0].path))
    count = 0 if registers_one and providers else max(0, len(missing) - unnamed)
    if not count:
        return DownInstances(expected=len(expected))
    return DownInstances(count, len(expected), () if unnamed else missing, missing)


def _states_deployment(properties: Properties, path: str) -> bool:
    """Whether a registered instance states its host and its deployment of the service at a path."""
    return bool(properties.get("host")) and str(properties.get("deployment")).rpartition(" ")[0] == path


def total_down(services: Mapping[str, DownInstances]) -> DownInstances:
    """Return the instances of all services that are down, in the order of the services."""
    return DownInstances(
        count=sum(each.count for each in services.values()),
        expected=sum(each.expected for each in services.values()),
        instances=tuple(instance for each in services.values() for instance in each.instances),
        missing=tuple(instance for each in services.values() for instance in each.missing),
    )
