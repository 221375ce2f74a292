"""Spawning: the check instances that configurations, services and hosts want."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.checks.instance import InstanceKey
from zkdeployment.checks.service_checks import service_checks
from zkdeployment.documents.checks.on_call import on_call_of
from zkdeployment.model.tree import parent_path
from zkdeployment.planning.targets.selection import unchecked_assignments
from zkdeployment.rollout.groups import is_selected_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.checks.basis import CheckBasis, CheckedHost, CheckScope
    from zkdeployment.checks.instance import CheckDetails
    from zkdeployment.checks.service_checks import ServiceCheck
    from zkdeployment.documents.checks.values import CheckConfiguration
    from zkdeployment.model.deployment import Assignment


@dataclass(frozen=True, slots=True)
class WantedInstance:
    """A check instance that is wanted: a check of a service, for one deployment on one host.

    The details are computed at each call, because a large fleet has many instances and few of them change.
    """

    key: InstanceKey
    check: ServiceCheck
    host: CheckedHost

    @property
    def id(self) -> str:
        """The identifier of the instance."""
        return self.key.id

    @property
    def system(self) -> str:
        """The name of the monitoring system."""
        return self.check.configuration.monitoring

    @property
    def faults(self) -> tuple[str, ...]:
        """The reasons for which there are no details: no instance is made, and an existing one stays unchanged."""
        return self.check.faults

    def details(self) -> CheckDetails:
        """Return the details; only for an instance without faults."""
        return self.check.details(self.host, self.key.number)


def wanted_instances(basis: CheckBasis, scope: CheckScope | None = None) -> Iterator[WantedInstance]:
    """Yield the wanted instances, by host, path and number; with a scope only those that it concerns."""
    if basis.configurations:
        yield from _Spawner(basis, scope).instances()


def deciding_instance(wanted: Mapping[str, WantedInstance], key: InstanceKey) -> WantedInstance | None:
    """Return which of the wanted instances, by identifier, decides about an existing one; ``None`` if none does.

    A check with too many combinations of attributes wants one instance without any, which has that fault: the
    instances that exist stay unchanged.
    """
    found = wanted.get(key.id)
    if found is not None or not key.attributes:
        return found
    whole = wanted.get(replace(key, attributes=()).id)
    return whole if whole is not None and whole.check.is_overfull else None


class _Spawner:
    """One computation: the checks of each service are computed once, however many hosts run it."""

    def __init__(self, basis: CheckBasis, scope: CheckScope | None) -> None:
        self._basis = basis
        self._scope = scope
        self._all = _by_object(basis.configurations.values())
        self._changed = self._all
        if scope is not None:
            found = (basis.configurations.get(name) for name in scope.configurations)
            self._changed = _by_object(configuration for configuration in found if configuration is not None)
        self._checks: dict[tuple[str, bool], tuple[ServiceCheck, ...]] = {}

    def instances(self) -> Iterator[WantedInstance]:
        """Yield the instances of all hosts."""
        for host_id, host in self._basis.hosts.items():
            is_concerned = self._scope is None or host_id in self._scope.hosts
            for assignment in unchecked_assignments(host.identity, self._basis.targets):
                for check in self._checks_of(assignment, whole=is_concerned):
                    yield from _instances(check, host, assignment)

    def _checks_of(self, assignment: Assignment, *, whole: bool) -> tuple[ServiceCheck, ...]:
        """Return the checks of a service: all if its host or itself is concerned, else the changed ones."""
        path = assignment.path
        whole = whole or (self._scope is not None and path in self._scope.paths)
        by_object = self._all if whole else self._changed
        if not by_object:
            return ()
        if (path, whole) not in self._checks:
            properties = self._basis.properties.get(path, {})
            duty = on_call_of(self._basis.duties, path)
            self._checks[path, whole] = tuple(
                check
                for configuration in _concerning(path, by_object)
                for check in service_checks(configuration, assignment, properties, duty)
            )
        return self._checks[path, whole]


def _by_object(configurations: Iterable[CheckConfiguration]) -> dict[str, list[CheckConfiguration]]:
    """Return configurations by the paths of their objects."""
    found: dict[str, list[CheckConfiguration]] = {}
    for configuration in sorted(configurations, key=lambda configuration: configuration.name):
        found.setdefault(configuration.path, []).append(configuration)
    return found


def _concerning(path: str, by_object: Mapping[str, list[CheckConfiguration]]) -> Iterator[CheckConfiguration]:
    """Yield the configurations that concern a service: its own, and those that are passed down to it."""
    node = path
    while True:
        for configuration in by_object.get(node, ()):
            if configuration.concerns(path):
                yield configuration
        if not node:
            return
        node = parent_path(node)


def _instances(check: ServiceCheck, host: CheckedHost, assignment: Assignment) -> Iterator[WantedInstance]:
    host_id, configuration = host.identity.id, check.configuration
    for selector in configuration.constraints.selectors:
        if not is_selected_by(selector, host_id, host.facts):
            return
    for number in range(assignment.n):
        key = InstanceKey(configuration.name, check.path, number, host_id, check.attributes)
        yield WantedInstance(key, check, host)
