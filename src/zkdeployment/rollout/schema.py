"""The form of strategy documents, as JSON schemas, and what a value that has another form gets to hear.

The source of the form is the document "Deployment Grouping for Baremetal Nodes" of Airship's Shipyard; the keys
that set a group's pace are ours.
"""

from __future__ import annotations

import difflib
import functools
import graphlib
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias
from zoneinfo import ZoneInfo

from zkdeployment.model.strategy import Selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.strategy import Group
    from zkdeployment.rollout.yaml_values import Way

#: Where something is wrong, and what.
Fault: TypeAlias = "tuple[Way, str]"

STRATEGY_SCHEMA = "shipyard/DeploymentStrategy/v1"
CONFIGURATION_SCHEMA = "shipyard/DeploymentConfiguration/v1"

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_NAME = {"type": "string", "pattern": r"\S", "description": "a name, as text"}
_NAMES = {"type": "array", "items": _NAME}
_COUNT = {"type": "integer", "minimum": 0}
_DURATION = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": 99_999 * 86_400},
        {"type": "string", "pattern": r"^([0-9]{1,9}s|[0-9]{1,8}m|[0-9]{1,6}h|[0-9]{1,5}d)$"},
    ],
    "description": "seconds, or a number with s, m, h or d as in 15m, of at most 99999d",
}
_TIME = {
    "type": "string",
    "pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9]$",
    "description": "a time of day as in 22:30",
}

_LABEL_PART = r"^[^:]*[^:\s][^:]*$"
_LABEL = {
    "anyOf": [
        {"type": "string", "pattern": r"^[^:]*[^:\s][^:]*:[^:]*[^:\s][^:]*$"},
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "propertyNames": {"pattern": _LABEL_PART},
            "additionalProperties": {"type": "string", "pattern": _LABEL_PART},
        },
    ],
    "description": "a label as in 'tier: web', with one colon",
}

_SELECTOR = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {
        "node_names": _NAMES,
        "node_tags": _NAMES,
        "node_labels": {"type": "array", "items": _LABEL},
        "rack_names": _NAMES,
    },
}

_CRITERIA = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {
        "percent_successful_nodes": {"type": "integer", "minimum": 0, "maximum": 100},
        "minimum_successful_nodes": _COUNT,
        "maximum_failed_nodes": _COUNT,
    },
}

_WINDOW = {
    "type": "object",
    "additionalProperties": False,
    "required": ["from", "to"],
    "properties": {
        "days": {"type": "array", "minItems": 1, "items": {"enum": list(DAYS)}},
        "from": _TIME,
        "to": _TIME,
        "zone": _NAME,
    },
}

_GROUP = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "critical", "depends_on", "selectors"],
    "properties": {
        "name": _NAME,
        "critical": {"type": "boolean"},
        "depends_on": _NAMES,
        "selectors": {"type": "array", "items": _SELECTOR},
        "success_criteria": _CRITERIA,
        "max_parallel": {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^([1-9][0-9]?|100)%$"},
            ],
            "description": "a number of hosts, or a share as in '25%'",
        },
        "bake_time": _DURATION,
        "prepare_timeout": _DURATION,
        "deploy_timeout": _DURATION,
        "progress_deadline": _DURATION,
        "require_hosts": {"type": "integer", "minimum": 1},
        "manual": {"type": "boolean"},
        "windows": {"type": "array", "minItems": 1, "items": _WINDOW},
    },
}

_METADATA = {"type": "object", "required": ["name"], "properties": {"name": _NAME}}

#: Each document's form, by what it says its schema is.
SCHEMAS: dict[str, dict[str, Any]] = {
    STRATEGY_SCHEMA: {
        "type": "object",
        "additionalProperties": False,
        "required": ["metadata", "data"],
        "properties": {
            "schema": {},
            "metadata": _METADATA,
            "data": {
                "type": "object",
                "additionalProperties": False,
                "required": ["groups"],
                "properties": {
                    "groups": {"type": "array", "items": _GROUP},
                    "absent_after": _DURATION,
                    "prepare_timeout": _DURATION,
                    "deploy_timeout": _DURATION,
                },
            },
        },
    },
    # Shipyard's configuration holds much that is not ours.
    CONFIGURATION_SCHEMA: {
        "type": "object",
        "required": ["data"],
        "properties": {
            "data": {
                "type": "object",
                "properties": {
                    "deployment_strategy": _NAME,
                    "physical_provisioner": {"type": "object", "properties": {"deployment_strategy": _NAME}},
                },
            },
        },
    },
}


#: What looks like the schema of such a document, although it may be misspelt or of another version.
_OURS = r"shipyard/|deployment[-_]?(strategy|configuration)/"
_OUR_CONTENT = re.compile(_OURS.encode(), re.IGNORECASE)
_OUR_SCHEMA = re.compile(_OURS, re.IGNORECASE)

_CHOICE = "deployment_strategy"
_CHOICES: tuple[Way, ...] = (("data", _CHOICE), ("data", "physical_provisioner", _CHOICE))


def mentions_documents(content: bytes) -> bool:
    """Whether a file may hold one of these documents; others need not even be YAML that we could read."""
    return _OUR_CONTENT.search(content) is not None


def schema_faults(value: Mapping[str, object]) -> Iterator[Fault]:
    """Report a document whose schema is none of these but looks like one, and one that has it by another key."""
    for key, content in value.items():
        if not isinstance(content, str):
            continue
        if key == "schema" and _OUR_SCHEMA.search(f"{content}/"):
            yield (key,), f"expected {one_of(SCHEMAS)}, found {content!r}"
        elif key != "schema" and content in SCHEMAS:
            yield (key,), f"expected the key schema, found {key!r}"


def choice_faults(value: Any) -> Iterator[Fault]:
    """Report keys of a configuration that seem to choose a strategy but do not, and contradicting choices."""
    yield from _near_choices((), value)
    named = {way: name for way, name in _choices(value) if isinstance(name, str)}
    if len(set(named.values())) > 1:
        yield _CHOICES[1], f"expected one strategy, found {' and '.join(named.values())}"


def choice(value: Any) -> tuple[Way, str | None]:
    """Return the strategy that a sound configuration names, and where."""
    return next(_choices(value), (("data",), None))


def _choices(value: Any) -> Iterator[tuple[Way, Any]]:
    for way in _CHOICES:
        place = value
        for key in way:
            place = place.get(key) if isinstance(place, dict) else None
        if place is not None:
            yield way, place


def _near_choices(way: Way, value: object) -> Iterator[Fault]:
    if not isinstance(value, dict):
        return
    for key, content in value.items():
        here = (*way, key)
        name = key.lower().replace("-", "_")
        if here not in _CHOICES and difflib.get_close_matches(name, [_CHOICE], cutoff=0.85):
            yield here, f"{key} chooses no strategy here; expected {_CHOICE} in data"
        yield from _near_choices(here, content)


def form_faults(value: object, schema: dict[str, Any]) -> Iterator[Fault]:
    """Say everything in which a value is not of the form: where, and what was expected and found."""
    faults = _validator_class()(schema).iter_errors(value)
    for fault in sorted(faults, key=lambda fault: [str(part) for part in fault.absolute_path]):
        way, form = tuple(fault.absolute_path), fault.schema
        if fault.validator == "additionalProperties":
            yield from _unknown_keys(way, fault.instance, form["properties"])
        elif "description" in form:
            yield way, f"expected {form['description']}, found {fault.instance!r}"
        else:
            yield way, fault.message


def _unknown_keys(way: Way, value: Iterable[str], known: Iterable[str]) -> Iterator[Fault]:
    """Say which keys of a mapping are not among the known ones, each with its place."""
    known = sorted(known)
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected {one_of(known)}"
            yield (*way, key), f"unknown key {key!r}; {hint}"


@functools.cache
def _validator_class() -> Any:
    """Return a validator of JSON schemas for which NaN and infinity are no numbers."""
    import jsonschema  # noqa: PLC0415  slow to import, seldom needed

    standard = jsonschema.Draft202012Validator
    finite = standard.TYPE_CHECKER.redefine("number", lambda _, value: _is_finite_number(value))
    return jsonschema.validators.extend(standard, type_checker=finite)  # type: ignore[no-untyped-call]


def _is_finite_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


def group_faults(groups: list[dict[str, Any]]) -> Iterator[Fault]:
    """Check what groups of a sound form say of each other."""
    times = Counter(group["name"] for group in groups)
    for number, group in enumerate(groups):
        way: Way = ("data", "groups", number)
        if times[group["name"]] > 1:
            yield (*way, "name"), f"there are {times[group['name']]} groups {group['name']}; expected one"
        for position, parent in enumerate(group["depends_on"]):
            if parent not in times:
                yield (*way, "depends_on", position), f"there is no group {parent}; expected {one_of(times)}"
        for position, window in enumerate(group.get("windows", ())):
            yield from _window_faults((*way, "windows", position), window)
    try:
        graphlib.TopologicalSorter({group["name"]: group["depends_on"] for group in groups}).prepare()
    except graphlib.CycleError as error:
        circle = list(reversed(error.args[1]))  # graphlib goes from a group to those that depend on it
        number = next(number for number, group in enumerate(groups) if group["name"] == circle[0])
        words = f"groups depend on each other in a circle: {' > '.join(circle)}"
        yield ("data", "groups", number, "depends_on"), words


def group_advice(groups: Iterable[Group]) -> Iterator[Fault]:
    """Name the critical groups that succeed without a host when their selectors match none."""
    for number, group in enumerate(groups):
        selective = group.selectors and all(selector != Selector() for selector in group.selectors)
        if group.critical and selective and group.require_hosts is None:
            way = ("data", "groups", number, "selectors")
            yield (
                way,
                f"critical group {group.name} may be empty; add require_hosts: N, the hosts that it waits for",
            )


def _window_faults(way: Way, window: Mapping[str, str]) -> Iterator[Fault]:
    try:
        ZoneInfo(window.get("zone", "UTC"))
    except (KeyError, ValueError, OSError):
        yield (*way, "zone"), f"there is no time zone {window['zone']}; expected a name as in Europe/Berlin"
    if window["from"] == window["to"]:
        yield way, "the window ends when it starts; expected two different times"


def one_of(names: Iterable[str]) -> str:
    """List names, to say what was expected."""
    return f"one of: {', '.join(sorted(names))}"
