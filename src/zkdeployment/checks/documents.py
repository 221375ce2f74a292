"""Documents of monitoring systems, check configurations, check groups and on-call duties, and their references.

``{{`` and ``}}`` stand for braces. A brace without a partner stands for itself. Values of placeholders are never
searched for placeholders again. The derivation of check instances from documents belongs to ``checks.rules``.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import urlsplit

from zkdeployment.base.errors import without_passwords
from zkdeployment.base.names import NameKind
from zkdeployment.base.records import APART, Key, Record
from zkdeployment.base.source_files import Problem, Severity
from zkdeployment.base.values import dataclass
from zkdeployment.documents.forms import (
    OBJECT_PATH,
    TRUTH,
    Fault,
    choice_form,
    document_form,
    list_form,
    mapping_form,
    name_form,
    one_of,
    text_form,
)
from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.strategies.documents import SELECTOR, selector_from_value
from zkdeployment.tree.values import is_below, parent_path

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping

    from zkdeployment.documents.collection import DocumentEntry, Documents
    from zkdeployment.publishing.places import ReviewRule
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
class MonitoringSystem(Record):
    """A published monitoring system; one without a callback polls."""

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
class CheckConfiguration(Record):
    """A published check configuration.

    ``path`` is the path of the configuration's object, empty for the root of the tree. ``interval`` is in
    seconds. ``arguments`` are templates.
    """

    name: str
    path: Annotated[str, Key("object", write=lambda path: path or "/")]
    monitoring: str
    command: str
    arguments: Annotated[tuple[str, ...], APART] = ()
    interval: int = 60
    inheritance: bool = True
    children_only: bool = False
    thresholds: Annotated[tuple[Threshold, ...], APART] = ()
    constraints: Annotated[CheckConstraints, APART] = field(default_factory=CheckConstraints)

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

_PROPERTY = text_form(r"^\S+$", "the name of a property")

_CONSTRAINTS: Mapping[str, dict[str, Any]] = {
    "package": text_form(r"^\S+$", "the name of a package"),
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

_CONSTRAINT = {
    **mapping_form({}, _CONSTRAINTS),
    "minProperties": 1,
    "maxProperties": 1,
    "description": f"one of: {', '.join(_CONSTRAINTS)}",
}

_CALLBACK = text_form(
    r"^https?://[^\s/]+(/\S*)?$", "the URL of a monitoring system, as in http://nagios1.example.com:8421/poke"
)

_SYSTEM_FORM = mapping_form(
    {"metadata": mapping_form({"name": _SYSTEM_NAME}, {})},
    {"schema": {}, "data": mapping_form({}, {"callback": _CALLBACK})},
)

_THRESHOLD = mapping_form(
    {
        "level": text_form(r"^[A-Za-z0-9_-]+$", "a level, such as warning or critical"),
        "predicate": choice_form(*Predicate),
        "value": {"type": "number", "description": "a number"},
    },
    {},
)

_CHECK = mapping_form(
    {
        "command": text_form(
            r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$", "the name of a plugin without its directory, as in check_http"
        )
    },
    {"arguments": list_form(text_form(r"^[^\x00]*$", "an argument, as text"), "a list of arguments")},
)

_CONFIGURATION_FORM = document_form(
    {"name": _NAME},
    {"object": OBJECT_PATH, "monitoring": _SYSTEM_NAME, "check": _CHECK},
    {
        "inheritance": TRUTH,
        "children_only": TRUTH,
        "interval": {
            "type": "integer",
            "minimum": 1,
            "maximum": 99_999 * 86_400,
            "description": "a whole number of seconds, at least 1",
        },
        "thresholds": list_form(_THRESHOLD, "a list of thresholds"),
        "constraints": list_form(_CONSTRAINT, "a list of constraints"),
    },
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
    levels = [threshold["level"] for threshold in data.get("thresholds", ())]
    for number, level in enumerate(levels):
        if level in levels[:number]:
            message = f"there is another threshold {level}; expected one for each level"
            yield ("data", "thresholds", number, "level"), message


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


class GroupLevel(Enum):
    """The severity of the alarm of a check group."""

    WARNING = "warning"
    CRITICAL = "critical"


_GROUP_FORM = document_form(
    {"name": _NAME},
    {
        "object": OBJECT_PATH,
        "at_least": {
            "type": "integer",
            "minimum": 1,
            "maximum": 1_000_000,
            "description": "a whole number of deployments, at least 1",
        },
    },
    {
        "checks": list_form(_NAME, "a list of names of check configurations", minItems=1),
        "level": choice_form(*GroupLevel),
    },
)


@dataclass(frozen=True, slots=True)
class CheckGroup:
    """A group: at least ``at_least`` deployments of services at and below ``path`` have to be OK.

    ``path`` is empty for the root of the tree. ``checks`` are the configurations that count; if empty, all count.
    """

    name: str
    path: str
    at_least: int
    checks: tuple[str, ...] = ()
    level: GroupLevel = GroupLevel.CRITICAL


def _parse_group(value: Any) -> CheckGroup:
    data = value["data"]
    return CheckGroup(
        value["metadata"]["name"],
        data["object"].removesuffix("/"),
        int(data["at_least"]),
        tuple(data.get("checks", ())),
        GroupLevel(data.get("level", GroupLevel.CRITICAL.value)),
    )


def _group_faults(value: Any) -> Iterator[Fault]:
    names = value["data"].get("checks", ())
    for number, name in enumerate(names):
        if name in names[:number]:
            yield ("data", "checks", number), f"{name} is listed twice; keep one of them"


CHECK_GROUP: DocumentKind[CheckGroup] = DocumentKind(
    name="check-group",
    schema="zkdeployment/CheckGroup/v1",
    form=_GROUP_FORM,
    parse=_parse_group,
    subject=lambda value: (value["metadata"]["name"],),
    faults=_group_faults,
)


#: Values that no shell and no monitoring system interprets, because they become part of commands.
EMAIL_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9][A-Za-z0-9.-]{0,189}"
PHONE_PATTERN = r"\+?[0-9][0-9 -]{2,38}"

_MOST_CONTACTS = 20

_CONTACT = mapping_form(
    {"name": _NAME},
    {
        "email": text_form(f"^{EMAIL_PATTERN}$", "an address such as ann@example.com"),
        "phone": text_form(f"^{PHONE_PATTERN}$", "a number such as +49 30 123456"),
    },
)

_CONTACTS = list_form(_CONTACT, f"a list of 1 to {_MOST_CONTACTS} contacts", minItems=1, maxItems=_MOST_CONTACTS)

_DUTY_FORM = document_form({"name": _NAME}, {"object": OBJECT_PATH, "contacts": _CONTACTS})


@dataclass(frozen=True, slots=True)
class OnCallContact(Record):
    """A person or a device that is notified by mail, by telephone, or by both."""

    omits_unset: ClassVar[bool] = True
    name: str
    email: str | None = None
    phone: str | None = None


@dataclass(frozen=True, slots=True)
class OnCall(Record):
    """An on-call duty for the node ``path``, empty for the root of the tree, and all nodes below it."""

    name: str
    path: Annotated[str, APART]
    contacts: tuple[OnCallContact, ...]


def on_call_of(duties: Mapping[str, OnCall], path: str) -> OnCall | None:
    """Return the duty for a node: that of the nearest node at or above it; ``duties`` are keyed by their nodes."""
    while True:
        if path in duties or not path:
            return duties.get(path)
        path = parent_path(path)


def _parse_duty(value: Any) -> OnCall:
    data = value["data"]
    contacts = tuple(map(OnCallContact.from_json, data["contacts"]))
    return OnCall(value["metadata"]["name"], data["object"].removesuffix("/"), contacts)


def _duty_faults(value: Any) -> Iterator[Fault]:
    names = [contact["name"] for contact in value["data"]["contacts"]]
    for number, contact in enumerate(value["data"]["contacts"]):
        name = contact["name"]
        if name in names[:number]:
            yield ("data", "contacts", number, "name"), f"there is another contact {name}; keep one of them"
        if "email" not in contact and "phone" not in contact:
            message = f"the contact {name} has neither email nor phone; expected one of them"
            yield ("data", "contacts", number), message


ON_CALL: DocumentKind[OnCall] = DocumentKind(
    name="on-call",
    schema="zkdeployment/OnCall/v1",
    form=_DUTY_FORM,
    parse=_parse_duty,
    subject=lambda value: (value["metadata"]["name"],),
    faults=_duty_faults,
)


def check_problems(
    documents: Documents, nodes: Container[str] | None, systems: Iterable[str] = (), checks: Collection[str] = ()
) -> Iterator[Problem]:
    """Yield the problems of documents of checks that name a node, a monitoring system or a check that is missing.

    ``nodes`` are the paths of the tree; ``None`` if the documents are checked without a tree. ``systems`` and
    ``checks`` are further monitoring systems and configurations, besides those of the documents. An unknown
    placeholder is a warning: the configuration is published, but has no instances.
    """
    known = sorted({*systems, *(name for (name,) in documents.of(SYSTEM))})
    for (kind, _), entry in documents.entries.items():
        if kind == CHECK.name:
            yield from _object_problems(entry, nodes)
            # The system may be defined by a document with problems.
            if not documents.problems:
                yield from _system_problems(entry, known)
            for way, message in argument_faults(entry.content):
                yield replace(entry.problem(way, message), severity=Severity.WARNING)
        if kind in {ON_CALL.name, CHECK_GROUP.name}:
            yield from _object_problems(entry, nodes)
        if kind == CHECK_GROUP.name and not documents.problems:
            yield from _group_problems(entry, sorted({*checks, *(name for (name,) in documents.of(CHECK))}))
    yield from _duty_problems(documents)


def _group_problems(entry: DocumentEntry, checks: Collection[str]) -> Iterator[Problem]:
    for number, name in enumerate(entry.value.checks):
        if name not in checks:
            expected = one_of(checks) if checks else "a CheckConfiguration of that name"
            message = f"there is no check {name}; expected {expected}"
            yield entry.problem(("data", "checks", number), message)


def _duty_problems(documents: Documents) -> Iterator[Problem]:
    """Yield a problem for each duty whose node already has a duty."""
    first: dict[str, str] = {}
    for (kind, _), entry in documents.entries.items():
        if kind == ON_CALL.name:
            duty = entry.value
            former = first.setdefault(duty.path, duty.name)
            if former != duty.name:
                message = f"{duty.path or '/'} has the on-call duty {former} already; keep one of them"
                yield entry.problem(("data", "object"), message)


def _object_problems(entry: DocumentEntry, nodes: Container[str] | None) -> Iterator[Problem]:
    path = entry.value.path
    if path and nodes is not None and path not in nodes:
        message = f"there is no node {path}; expected the path of a node of the tree"
        yield entry.problem(("data", "object"), message)


def _system_problems(entry: DocumentEntry, systems: Collection[str]) -> Iterator[Problem]:
    name = entry.value.monitoring
    if name not in systems:
        expected = one_of(systems) if systems else "a MonitoringSystem of that name"
        message = f"there is no monitoring system {name}; expected {expected}"
        yield entry.problem(("data", "monitoring"), message)


DOCUMENT_KINDS: tuple[DocumentKind[Any], ...] = (SYSTEM, CHECK, CHECK_GROUP, ON_CALL)

REVIEW_RULES: tuple[ReviewRule, ...] = (lambda documents, tree, _targets: check_problems(documents, tree),)
