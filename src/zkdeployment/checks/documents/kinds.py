"""Documents of monitoring systems and of check configurations: values, arguments and forms.

``{{`` and ``}}`` stand for braces. A brace without a partner stands for itself. Values of placeholders are never
searched for placeholders again. The derivation of check instances from documents belongs to ``checks.rules``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from zkdeployment.base.errors import without_passwords
from zkdeployment.base.names import NameKind
from zkdeployment.documents.forms import mapping_form, name_form, one_of
from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.strategies.documents import SELECTOR, selector_from_value
from zkdeployment.tree.values import is_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.documents.forms import Fault
    from zkdeployment.strategies.strategy import Selector


_PARTS = re.compile(r"(\{\{|\}\}|\{[^{}]*\})")

#: The placeholders for values of a host and of the number of a deployment on it.
HOST_PLACEHOLDERS = ("host.address", "host.id", "host.name", "number")

#: All placeholders whose names stand alone.
_PLAIN = (*HOST_PLACEHOLDERS, "path")


@dataclass(frozen=True, slots=True)
class ArgumentPart:
    """A part of an argument: literal text, or the name of a placeholder."""

    text: str
    is_placeholder: bool = False


def argument_parts(template: str) -> tuple[ArgumentPart, ...]:
    """Return the parts of a template, without empty ones."""
    return tuple(_part(part) for part in _PARTS.split(template) if part)


def placeholders(template: str) -> Iterator[str]:
    """Yield the names of the placeholders of a template: ``host.address`` for ``{host.address}``."""
    return (part.text for part in argument_parts(template) if part.is_placeholder)


def named_properties(configuration: CheckConfiguration) -> frozenset[str]:
    """Return the names of the properties that the constraints and the arguments of a configuration name."""
    names = {name for name, _ in configuration.constraints.properties}
    names |= {*configuration.constraints.attributes}
    for template in configuration.arguments:
        for placeholder in placeholders(template):
            kind, _, name = placeholder.partition(".")
            if kind == "property":
                names.add(name)
    return frozenset(names)


def with_values(parts: Iterable[ArgumentPart], values: Mapping[str, str]) -> tuple[ArgumentPart, ...]:
    """Return the parts with the values of these placeholders as text; adjacent text is joined."""
    joined: list[ArgumentPart] = []
    for part in parts:
        if part.is_placeholder and part.text not in values:
            joined.append(part)
            continue
        text = values[part.text] if part.is_placeholder else part.text
        if joined and not joined[-1].is_placeholder:
            text = joined.pop().text + text
        joined.append(ArgumentPart(text))
    return tuple(joined)


def argument_text(parts: Iterable[ArgumentPart], values: Mapping[str, str]) -> str:
    """Return the text of an argument, with the values of all of its placeholders."""
    return "".join([values[part.text] if part.is_placeholder else part.text for part in parts])


def unknown_placeholder(configuration: CheckConfiguration, name: str) -> str | None:
    """Return why a placeholder cannot have a value in a configuration; ``None`` if it can."""
    kind, _, key = name.partition(".")
    levels = [threshold.level for threshold in configuration.thresholds]
    match kind:
        case _ if name in _PLAIN or (kind == "property" and key):
            return None
        case "threshold" if key in levels:
            return None
        case "threshold" if levels:
            return f"unknown placeholder {{{name}}}; the configuration has the thresholds {', '.join(levels)}"
        case "attribute" if key in configuration.constraints.attributes:
            return None
        case "attribute" if key:
            return f"unknown placeholder {{{name}}}; add the constraint attribute: {key}"
        case _:
            known = [f"{{{plain}}}" for plain in _PLAIN]
            others = [f"{{{kind}.NAME}}" for kind in ("property", "attribute", "threshold")]
            return f"unknown placeholder {{{name}}}; expected {one_of([*known, *others])}, or {{{{ for a brace"


def _part(part: str) -> ArgumentPart:
    if part in {"{{", "}}"}:
        return ArgumentPart(part[0])
    is_placeholder = len(part) > 1 and part.startswith("{") and part.endswith("}")
    return ArgumentPart(part[1:-1], is_placeholder=True) if is_placeholder else ArgumentPart(part)


@dataclass(frozen=True, slots=True)
class MonitoringSystem:
    """A monitoring system; one without a ``callback`` is not notified and polls."""

    name: str
    callback: str | None = None


class Predicate(Enum):
    """The comparison of a measured value with a threshold that raises an alarm."""

    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LESS = "<"
    LESS_OR_EQUAL = "<="

    @property
    def is_lower_limit(self) -> bool:
        """Whether values below the threshold raise the alarm."""
        return self in {Predicate.LESS, Predicate.LESS_OR_EQUAL}


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold of a level, such as ``warning``."""

    level: str
    predicate: Predicate
    value: float

    @property
    def range(self) -> str:
        """The range of values without an alarm, as plugins read it: ``2`` is an upper limit, ``2:`` a lower."""
        number = format(Decimal(repr(self.value)), "f")
        return f"{number}:" if self.predicate.is_lower_limit else number


@dataclass(frozen=True, slots=True)
class CheckConstraints:
    """The constraints of a configuration; all of them must hold.

    ``packages`` are names of packages or applications. ``selectors`` select hosts. ``properties`` are names and
    values of properties, as text. ``attributes`` are names of properties that must exist; a list has one instance
    for each of its values.
    """

    packages: tuple[str, ...] = ()
    selectors: tuple[Selector, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckConfiguration:
    """A check and the services that it concerns.

    ``path`` is the path of the configuration's object, empty for the root of the tree. ``interval`` is in
    seconds. ``arguments`` are templates.
    """

    name: str
    path: str
    monitoring: str
    command: str
    arguments: tuple[str, ...] = ()
    interval: int = 60
    inheritance: bool = True
    children_only: bool = False
    thresholds: tuple[Threshold, ...] = ()
    constraints: CheckConstraints = field(default_factory=CheckConstraints)

    def concerns(self, service: str) -> bool:
        """Whether the check applies to a service node: to the object, or to a node to which it is passed down."""
        if service == self.path:
            return not self.children_only
        return self.inheritance and is_below(service, self.path)

    @property
    def ranges(self) -> Mapping[str, str]:
        """The ranges of the thresholds, as plugins read them, by level."""
        return {threshold.level: threshold.range for threshold in self.thresholds}


SYSTEM_SCHEMA = "zkdeployment/MonitoringSystem/v1"
CHECK_SCHEMA = "zkdeployment/CheckConfiguration/v1"

#: The names become words of commands and parts of URLs.
RESERVED_NAMES = frozenset({"instances", "summary"})

_NAME = name_form(NameKind.PLAIN)


#: The form of the name of a monitoring system, which is also the name of its user of the service.
_SYSTEM_NAME = name_form(NameKind.USER)

_PROPERTY = {"type": "string", "pattern": r"^\S+$", "description": "the name of a property"}

_CONSTRAINTS: Mapping[str, dict[str, Any]] = {
    "package": {"type": "string", "pattern": r"^\S+$", "description": "the name of a package"},
    "selector": SELECTOR,
    "property": {
        "type": "object",
        "minProperties": 1,
        "propertyNames": _PROPERTY,
        "additionalProperties": {"type": "string", "description": "a value of a property, as text"},
        "properties": {},
        "description": "a mapping of properties to values, as in {tier: web}",
    },
    "attribute": _PROPERTY,
}


_SYSTEM_FORM = mapping_form(
    {"metadata": mapping_form({"name": _SYSTEM_NAME}, {})},
    {
        "schema": {},
        "data": mapping_form(
            {},
            {
                "callback": {
                    "type": "string",
                    "pattern": r"^https?://[^\s/]+(/\S*)?$",
                    "description": "the URL of a monitoring system, as in http://nagios1.example.com:8421/poke",
                }
            },
        ),
    },
)

_THRESHOLD = mapping_form(
    {
        "level": {
            "type": "string",
            "pattern": r"^[A-Za-z0-9_-]+$",
            "description": "a level, such as warning or critical",
        },
        "predicate": {
            "enum": [predicate.value for predicate in Predicate],
            "description": f"one of: {', '.join(predicate.value for predicate in Predicate)}",
        },
        "value": {"type": "number", "description": "a number"},
    },
    {},
)

_CHECK = mapping_form(
    {
        "command": {
            "type": "string",
            "pattern": r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$",
            "description": "the name of a plugin without its directory, as in check_http",
        }
    },
    {
        "arguments": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^[^\x00]*$", "description": "an argument, as text"},
            "description": "a list of arguments",
        }
    },
)

_CONFIGURATION_FORM = mapping_form(
    {
        "metadata": mapping_form({"name": _NAME}, {}),
        "data": mapping_form(
            {
                "object": {
                    "type": "string",
                    "pattern": r"^(/|(/[^/\s]+)+)$",
                    "description": "the path of a node, as in /p1/shop",
                },
                "monitoring": _SYSTEM_NAME,
                "check": _CHECK,
            },
            {
                "inheritance": {"type": "boolean", "description": "true or false"},
                "children_only": {"type": "boolean", "description": "true or false"},
                "interval": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 99_999 * 86_400,
                    "description": "a whole number of seconds, at least 1",
                },
                "thresholds": {"type": "array", "items": _THRESHOLD, "description": "a list of thresholds"},
                "constraints": {
                    "type": "array",
                    "items": {
                        **mapping_form({}, _CONSTRAINTS),
                        "minProperties": 1,
                        "maxProperties": 1,
                        "description": f"one of: {', '.join(_CONSTRAINTS)}",
                    },
                    "description": "a list of constraints",
                },
            },
        ),
    },
    {"schema": {}},
)


def _parse_system(value: Any) -> MonitoringSystem:
    return MonitoringSystem(value["metadata"]["name"], value.get("data", {}).get("callback"))


def _parse_configuration(value: Any) -> CheckConfiguration:
    data = value["data"]
    return CheckConfiguration(
        name=value["metadata"]["name"],
        path=data["object"].removesuffix("/"),
        monitoring=data["monitoring"],
        command=data["check"]["command"],
        arguments=tuple(data["check"].get("arguments", ())),
        interval=int(data.get("interval", 60)),
        inheritance=data.get("inheritance", True),
        children_only=data.get("children_only", False),
        thresholds=tuple(
            Threshold(threshold["level"], Predicate(threshold["predicate"]), threshold["value"])
            for threshold in data.get("thresholds", ())
        ),
        constraints=_constraints(data.get("constraints", ())),
    )


def _constraints(values: Any) -> CheckConstraints:
    return CheckConstraints(
        packages=tuple(value["package"] for value in values if "package" in value),
        selectors=tuple(selector_from_value(value["selector"]) for value in values if "selector" in value),
        properties=tuple(entry for value in values for entry in value.get("property", {}).items()),
        attributes=tuple(dict.fromkeys(value["attribute"] for value in values if "attribute" in value)),
    )


def _system_faults(value: Any) -> Iterator[Fault]:
    """Return faults of the callback's URL: a password that every reader could see, or an invalid port."""
    callback = value.get("data", {}).get("callback")
    if callback is None:
        return
    if without_passwords(callback) != callback:
        yield ("data", "callback"), "the URL contains a password; write it without one"
    try:
        valid = bool(urlsplit(callback).hostname) and urlsplit(callback).port != 0
    except ValueError:
        valid = False
    if not valid:
        yield ("data", "callback"), f"expected a URL with a host and a valid port, found {callback!r}"


def _configuration_faults(value: Any) -> Iterator[Fault]:
    name, data = value["metadata"]["name"], value["data"]
    if name in RESERVED_NAMES:
        yield ("metadata", "name"), f"{name} is a word of 'zkdeployment checks'; choose another name"
    if data.get("children_only", False) and not data.get("inheritance", True):
        message = (
            "children_only without inheritance leaves no service; remove children_only or set inheritance: true"
        )
        yield ("data", "children_only"), message
    seen: set[str] = set()
    for number, threshold in enumerate(data.get("thresholds", ())):
        if threshold["level"] in seen:
            message = f"there is another threshold {threshold['level']}; expected one for each level"
            yield ("data", "thresholds", number, "level"), message
        seen.add(threshold["level"])


def argument_faults(value: Any) -> Iterator[Fault]:
    """Yield a fault for each unknown placeholder in the arguments of a configuration.

    Such a configuration is published, but has no instances.
    """
    configuration = _parse_configuration(value)
    for number, template in enumerate(configuration.arguments):
        for name in placeholders(template):
            message = unknown_placeholder(configuration, name)
            if message is not None:
                yield ("data", "check", "arguments", number), f"{message}; until then there are no instances"


SYSTEM: DocumentKind[MonitoringSystem] = DocumentKind(
    name="monitoring",
    schema=SYSTEM_SCHEMA,
    form=_SYSTEM_FORM,
    parse=_parse_system,
    subject=lambda value: (value["metadata"]["name"],),
    faults=_system_faults,
)

CHECK: DocumentKind[CheckConfiguration] = DocumentKind(
    name="check",
    schema=CHECK_SCHEMA,
    form=_CONFIGURATION_FORM,
    parse=_parse_configuration,
    subject=lambda value: (value["metadata"]["name"],),
    faults=_configuration_faults,
)
