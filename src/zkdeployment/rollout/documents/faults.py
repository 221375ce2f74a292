"""The faults of strategy documents: wrong forms, unknown references, contradictions, and advice.

Each fault is the place in the document and a message. The forms are in ``schema``.
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
from zkdeployment.rollout.documents.schema import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.strategy import Group
    from zkdeployment.rollout.documents.yaml_values import Way

#: The place of a fault in its document, and the message.
Fault: TypeAlias = "tuple[Way, str]"

#: A text that looks like the schema of such a document, possibly misspelt or of another version.
_OURS = r"shipyard/|deployment[-_]?(strategy|configuration)/"
_OUR_CONTENT = re.compile(_OURS.encode(), re.IGNORECASE)
_OUR_SCHEMA = re.compile(_OURS, re.IGNORECASE)

_CHOICE = "deployment_strategy"
_CHOICES: tuple[Way, ...] = (("data", _CHOICE), ("data", "physical_provisioner", _CHOICE))


def mentions_documents(content: bytes) -> bool:
    """Whether a file may contain one of these documents; other files need not even be valid YAML."""
    return _OUR_CONTENT.search(content) is not None


def schema_faults(value: Mapping[str, object]) -> Iterator[Fault]:
    """Return faults of a document with an unknown but similar schema, or with the schema under another key."""
    for key, content in value.items():
        if not isinstance(content, str):
            continue
        if key == "schema" and _OUR_SCHEMA.search(f"{content}/"):
            yield (key,), f"expected {one_of(SCHEMAS)}, found {content!r}"
        elif key != "schema" and content in SCHEMAS:
            yield (key,), f"expected the key schema, found {key!r}"


def choice_faults(value: Any) -> Iterator[Fault]:
    """Return faults of keys that look like the choice of a strategy but are not, and of contradicting choices."""
    yield from _near_choices((), value)
    named = {way: name for way, name in _choices(value) if isinstance(name, str)}
    if len(set(named.values())) > 1:
        yield _CHOICES[1], f"expected one strategy, found {' and '.join(named.values())}"


def choice(value: Any) -> tuple[Way, str | None]:
    """Return the place and the name of the strategy that a valid configuration chooses."""
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
    """Return all deviations of a value from a form, each with what was expected and found."""
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
    """Return a fault for each key of a mapping that is not among the known ones."""
    known = sorted(known)
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected {one_of(known)}"
            yield (*way, key), f"unknown key {key!r}; {hint}"


@functools.cache
def _validator_class() -> Any:
    """Return a validator of JSON schemas that does not accept NaN and infinity as numbers."""
    import jsonschema  # noqa: PLC0415  slow to import and rarely needed

    standard = jsonschema.Draft202012Validator
    finite = standard.TYPE_CHECKER.redefine("number", lambda _, value: _is_finite_number(value))
    return jsonschema.validators.extend(standard, type_checker=finite)  # type: ignore[no-untyped-call]


def _is_finite_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


def group_faults(groups: list[dict[str, Any]]) -> Iterator[Fault]:
    """Return faults of valid groups: names given twice, unknown or circular dependencies, impossible windows."""
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
        circle = list(reversed(error.args[1]))  # graphlib lists a group before the groups that depend on it
        number = next(number for number, group in enumerate(groups) if group["name"] == circle[0])
        message = f"groups depend on each other in a circle: {' > '.join(circle)}"
        yield ("data", "groups", number, "depends_on"), message


def group_advice(groups: Iterable[Group]) -> Iterator[Fault]:
    """Return advice for the critical groups that succeed if their selectors match no host."""
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
    """Return names as a list for a message on what was expected."""
    return f"one of: {', '.join(sorted(names))}"
