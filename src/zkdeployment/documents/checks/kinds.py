"""Documents of monitoring systems and of check configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from zkdeployment.documents.checks.arguments import placeholders, unknown_placeholder
from zkdeployment.documents.checks.values import (
    CheckConfiguration,
    CheckConstraints,
    MonitoringSystem,
    Predicate,
    Threshold,
)
from zkdeployment.documents.forms import mapping_form, name_form
from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.documents.strategies.encoding import selector_from_value
from zkdeployment.documents.strategies.schema import SELECTOR
from zkdeployment.errors import without_passwords
from zkdeployment.model.names import NameKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.documents.forms import Fault

SYSTEM_SCHEMA = "zkdeployment/MonitoringSystem/v1"
CHECK_SCHEMA = "zkdeployment/CheckConfiguration/v1"

#: Names that are words of commands and of URLs.
RESERVED_NAMES = frozenset({"instances", "summary"})

_NAME = name_form(NameKind.PLAIN)


#: The form of the name of a monitoring system: its user of the service has the same name.
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
