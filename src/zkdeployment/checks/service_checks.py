"""Checks: configurations as they apply to one service node, with the values that do not depend on the host."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zkdeployment.checks.basis import LONGEST_NAME, CheckedHost
from zkdeployment.documents.checks.arguments import (
    HOST_PLACEHOLDERS,
    argument_parts,
    argument_text,
    named_properties,
    placeholders,
    unknown_placeholder,
    with_values,
)
from zkdeployment.model.host import Facts, Identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zkdeployment.checks.instance import AttributeValue
    from zkdeployment.documents.checks.arguments import ArgumentPart
    from zkdeployment.documents.checks.on_call import OnCall
    from zkdeployment.documents.checks.values import CheckConfiguration
    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.tree import Properties, Value


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
    are the values that were chosen from lists. ``faults`` are the reasons for which the check cannot have details.
    With ``is_overfull`` the check stands for all combinations, which are too many. ``duty`` is who is on call for
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
    """Return a check, with a fault if its details are too large for any host."""
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
    """Return the values of an attribute; none if the property does not exist."""
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
