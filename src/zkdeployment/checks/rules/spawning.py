"""Spawning: derives the wanted check instances from configurations, services and hosts."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import field, replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import LinkError
from zkdeployment.base.host import Facts, Host, Identity
from zkdeployment.base.inventory import KnownHost, absent_hosts
from zkdeployment.base.values import dataclass
from zkdeployment.checks.documents import (
    HOST_PLACEHOLDERS,
    ArgumentPart,
    CheckConfiguration,
    OnCall,
    argument_parts,
    argument_text,
    named_properties,
    on_call_of,
    placeholders,
    unknown_placeholder,
    with_values,
)
from zkdeployment.checks.rules.instance import AttributeValue, CheckDetails, InstanceKey
from zkdeployment.publishing.targets.services import unchecked_assignments
from zkdeployment.strategies.strategy import is_selected_by
from zkdeployment.tree.links import property_value
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK, parent_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.deployment import Assignment, Deployment
    from zkdeployment.base.json_values import Lookup, Properties, Value
    from zkdeployment.base.publication import Targets


#: The most characters of the id, the name and the address of a host.
LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class CheckedHost:
    """A known host, registered or absent.

    ``address`` is the name of the host if it reports no address. ``deployments`` are the reported ones.
    ``completed`` is the sequence of the last publication that the host deployed completely, or 0 if it is not
    known.
    """

    identity: Identity
    address: str
    facts: Facts
    deployments: frozenset[Deployment] = frozenset()
    completed: int = 0

    def has_reported(self, deployment: Deployment, sequence: int) -> bool:
        """Whether the host has deployed it in the publication with this sequence, or in a later one."""
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
    """The check instances that a change may affect: those of these configurations, services and hosts."""

    configurations: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.configurations or self.paths or self.hosts)

    def concerns(self, key: InstanceKey) -> bool:
        """Whether the change may alter an instance, or end the want for it."""
        return key.check in self.configurations or key.path in self.paths or key.host in self.hosts


def changed_scope(before: CheckBasis, after: CheckBasis) -> CheckScope:
    """Return the scope of the change from one basis to another; all instances outside of it stay unchanged."""
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
    """Return all known hosts by id: registered hosts from their nodes, absent hosts from their inventories."""
    registered, known = tuple(registered), tuple(known)
    inventories = {host.identity.id: host for host in known}
    found = [
        CheckedHost(host.identity, _address(host), host.facts, _deployments(host), host.completed or 0)
        for host in absent_hosts(known, registered)
    ]
    found += (_registered_host(host, inventories.get(host.identity.id)) for host in registered)
    return {host.identity.id: host for host in sorted(found, key=lambda host: host.identity.id)}


def service_properties(lookup: Lookup, paths: Iterable[str]) -> dict[str, Properties]:
    """Return the properties of service nodes, with the values of their links, without broken links."""
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
    """Return the paths of all services that any target must run."""
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
    """Return the properties of services that configurations name; other properties do not count."""
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


@dataclass(frozen=True, slots=True)
class CheckSnapshot:
    """The basis of the instances, its publication, and the callbacks of the monitoring systems.

    ``publication`` is the sequence that hosts reach with the basis; 0 before the first publication. ``callbacks``
    has ``None`` for a monitoring system that polls.
    """

    basis: CheckBasis = field(default_factory=CheckBasis)
    publication: int = 0
    callbacks: Mapping[str, str | None] = field(default_factory=dict)

    def with_hosts(self, hosts: Mapping[str, CheckedHost]) -> CheckSnapshot:
        """Return the snapshot with these hosts."""
        return replace(self, basis=replace(self.basis, hosts=hosts))


#: The most instances of a check for one deployment: one for each combination of the values of its attributes.
MOST_COMBINATIONS = 1000

#: The most bytes of the details of an instance.
LARGEST_DETAILS = 16 << 10

#: A host with the longest values that placeholders can have.
_LONGEST_HOST = CheckedHost(Identity("i" * LONGEST_NAME, "n" * LONGEST_NAME), "a" * LONGEST_NAME, Facts())


@dataclass(frozen=True, slots=True)
class ServiceCheck:
    """A configuration for one service and one combination of the values of its attributes.

    ``properties`` are those that constraints or arguments name, with one value for each attribute. ``attributes``
    are the values that were chosen from lists. ``faults`` are the reasons why the check has no details. A check
    with ``is_overfull`` represents all combinations, because there are too many. ``duty`` is the on-call duty for
    the service.
    """

    configuration: CheckConfiguration
    path: str
    properties: Mapping[str, Value] = field(default_factory=dict)
    attributes: tuple[tuple[str, AttributeValue], ...] = ()
    arguments: tuple[tuple[ArgumentPart, ...], ...] = ()
    thresholds: tuple[Mapping[str, Value], ...] = ()
    faults: tuple[str, ...] = ()
    is_overfull: bool = False
    duty: OnCall | None = None

    def arguments_for(self, host: CheckedHost, number: int) -> list[str]:
        """Return the arguments of the command for a deployment on a host; only for a check without faults."""
        values = {
            "host.address": host.address,
            "host.id": host.identity.id,
            "host.name": host.identity.name,
            "number": str(number),
        }
        return [argument_text(parts, values) for parts in self.arguments]

    def details(self, host: CheckedHost, number: int) -> dict[str, Value]:
        """Return the details for a deployment on a host; only for a check without faults."""
        configuration, identity = self.configuration, host.identity
        on_call: dict[str, Value] = {} if self.duty is None else {"on_call": self.duty.to_json()}
        return {
            "configuration": configuration.name,
            "monitoring": configuration.monitoring,
            "host": {"id": identity.id, "name": identity.name, "address": host.address},
            "path": self.path,
            "number": number,
            "command": configuration.command,
            "arguments": [*self.arguments_for(host, number)],
            "thresholds": [dict(threshold) for threshold in self.thresholds],
            "interval": configuration.interval,
            "properties": dict(self.properties),
            **on_call,
        }


def service_checks(
    configuration: CheckConfiguration, assignment: Assignment, properties: Properties, duty: OnCall | None = None
) -> Iterator[ServiceCheck]:
    """Yield the checks of a service: one for each combination of its attributes, none if a constraint fails.

    The constraints on hosts are not considered here.
    """
    constraints = configuration.constraints
    names = {assignment.package, assignment.application}
    if not all(package in names for package in constraints.packages):
        return
    if not all(_matches(properties.get(name), text) for name, text in constraints.properties):
        return
    choices = [_choices(name, properties.get(name)) for name in constraints.attributes]
    combinations = math.prod(map(len, choices))
    if combinations > MOST_COMBINATIONS:
        fault = (
            f"the values of {', '.join(constraints.attributes)} have {combinations:,} combinations;"
            f" expected at most {MOST_COMBINATIONS:,}: shorten the lists, or name fewer attributes"
        )
        yield ServiceCheck(configuration, assignment.path, faults=(fault,), is_overfull=True)
        return
    for combination in itertools.product(*choices):
        check = _service_check(configuration, assignment.path, properties, combination)
        yield _within_size(replace(check, duty=duty))


def _within_size(check: ServiceCheck) -> ServiceCheck:
    """Return a check, with a fault if its details would be too large for any host."""
    if check.faults:
        return check
    size = len(json.dumps(check.details(_LONGEST_HOST, 0)))
    if size <= LARGEST_DETAILS:
        return check
    fault = (
        f"the details have up to {size:,} bytes; expected at most {LARGEST_DETAILS:,}: name smaller properties in"
        " arguments and constraints"
    )
    return replace(check, faults=(fault,))


@dataclass(frozen=True, slots=True)
class _Choice:
    """A value of an attribute, and whether it was chosen from a list."""

    name: str
    value: Value
    listed: bool = False


def _service_check(
    configuration: CheckConfiguration, path: str, properties: Properties, combination: Sequence[_Choice]
) -> ServiceCheck:
    chosen: dict[str, Value] = {choice.name: choice.value for choice in combination}
    named = sorted(named_properties(configuration))
    kept = {name: chosen.get(name, properties.get(name)) for name in named}
    values = _values(configuration, path, kept)
    templates = [argument_parts(template) for template in configuration.arguments]
    return ServiceCheck(
        configuration,
        path,
        {name: value for name, value in kept.items() if value is not None},
        tuple(sorted((choice.name, _scalar(choice.value)) for choice in combination if choice.listed)),
        tuple(with_values(parts, values) for parts in templates),
        tuple(
            {"level": found.level, "predicate": found.predicate.value, "value": found.value}
            for found in configuration.thresholds
        ),
        tuple(dict.fromkeys(_faults(configuration, values))),
    )


def _values(configuration: CheckConfiguration, path: str, properties: Mapping[str, Value]) -> dict[str, str]:
    """Return the values of all placeholders that do not depend on the host."""
    given = {name: _text(value) for name, value in properties.items() if value is not None}
    return {
        "path": path,
        **{f"property.{name}": text for name, text in given.items()},
        **{f"attribute.{name}": given[name] for name in configuration.constraints.attributes if name in given},
        **{f"threshold.{level}": text for level, text in configuration.ranges.items()},
    }


def _faults(configuration: CheckConfiguration, values: Mapping[str, str]) -> Iterator[str]:
    for template in configuration.arguments:
        for name in placeholders(template):
            if name in values or name in HOST_PLACEHOLDERS:
                continue
            message = unknown_placeholder(configuration, name)
            yield message or f"{{{name}}} has no value: the service has no property {name.partition('.')[2]}"


def _choices(name: str, value: Value) -> list[_Choice]:
    """Return the values of an attribute; empty if the property does not exist."""
    if isinstance(value, list):
        distinct = {json.dumps(item): item for item in value if item is not None}
        return [_Choice(name, _scalar(item), listed=True) for item in distinct.values()]
    return [] if value is None else [_Choice(name, value)]


def _matches(value: Value, text: str) -> bool:
    """Whether a property has the value that a constraint gives as text."""
    return value is not None and not isinstance(value, list | dict) and _text(value) == text


def _scalar(value: Value) -> AttributeValue:
    return value if isinstance(value, bool | int | float | str) else json.dumps(value)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
        """The reasons why the instance has no details: it is not made, and an existing one stays unchanged."""
        return self.check.faults

    def details(self) -> CheckDetails:
        """Return the details; only for an instance without faults."""
        return self.check.details(self.host, self.key.number)


def wanted_instances(basis: CheckBasis, scope: CheckScope | None = None) -> Iterator[WantedInstance]:
    """Yield the wanted instances, by host, path and number; with a scope, only the instances in the scope."""
    if basis.configurations:
        yield from _Spawner(basis, scope).instances()


def deciding_instance(wanted: Mapping[str, WantedInstance], key: InstanceKey) -> WantedInstance | None:
    """Return the wanted instance that decides about an existing one; ``None`` if no wanted instance does.

    ``wanted`` is keyed by identifier. A check with too many combinations of attributes wants one instance without
    attributes, which has this fault, so that the existing instances stay unchanged.
    """
    found = wanted.get(key.id)
    if found is not None or not key.attributes:
        return found
    whole = wanted.get(replace(key, attributes=()).id)
    return whole if whole is not None and whole.check.is_overfull else None


class _Spawner:
    """One computation: the checks of each service are computed once for all its hosts."""

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
        """Return the checks of a service: all if the host or the service changed, else only the changed ones."""
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
