"""Checks of values against forms, which are JSON schemas. Each fault is a place in the document and a message."""

from __future__ import annotations

import functools
import math
import re
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from zkdeployment.base.names import NameKind, expected_name, is_name, name_pattern
from zkdeployment.base.records import FieldForm, Record, codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.documents.yaml_values import Way

#: The place of a fault in its document, and the message.
Fault: TypeAlias = "tuple[Way, str]"

#: The most characters of a value in a message.
_LONGEST = 100

#: The key of a form that holds the kind of a name.
NAME_KIND = "nameKind"


def text_form(pattern: str, description: str) -> dict[str, Any]:
    """Return the form of text that matches a pattern."""
    return {"type": "string", "pattern": pattern, "description": description}


def list_form(items: Mapping[str, Any], description: str, **bounds: int) -> dict[str, Any]:
    """Return the form of a list; ``bounds`` are keys of JSON schemas such as ``minItems``."""
    return {"type": "array", "items": items, **bounds, "description": description}


def choice_form(*values: Enum | str) -> dict[str, Any]:
    """Return the form of one of these values."""
    names = [value.value if isinstance(value, Enum) else value for value in values]
    return {"enum": names, "description": f"one of: {', '.join(names)}"}


#: The form of text that is not blank.
TEXT = text_form(r"\S", "text that is not blank")

#: The form of the path of a node, and of the path of a node or the root of the tree.
NODE_PATH = text_form(r"^(/[^/\s]+)+$", "the path of a node, as in /p1/shop/front")
OBJECT_PATH = text_form(r"^(/|(/[^/\s]+)+)$", "the path of a node, as in /p1/shop")

#: The form of a condition.
TRUTH: dict[str, Any] = {"type": "boolean", "description": "true or false"}


def name_form(kind: NameKind) -> dict[str, Any]:
    """Return the form of a name; ``base.names`` has the rule for each kind."""
    return {"type": "string", NAME_KIND: kind.name, "description": f"a {kind.value} of {expected_name(kind)}"}


#: The form of a name that may contain blanks.
NAME = name_form(NameKind.TEXT)


def mapping_form(required: Mapping[str, Any], optional: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of a mapping that has all required keys, and no other keys than these and the optional ones.

    Both map keys to the forms of their values.
    """
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {**required, **optional},
    }


def document_form(
    metadata: Mapping[str, Any], required: Mapping[str, Any], optional: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the form of a document with its metadata, and with the required and the optional keys of its data."""
    return mapping_form(
        {"metadata": mapping_form(metadata, {}), "data": mapping_form(required, optional)}, {"schema": {}}
    )


def record_form(record: type[Record]) -> dict[str, Any]:
    """Return the form of the JSON form of a record; the keys that the record may omit are optional."""
    return form_of_fields(codec(record).fields)


def form_of_fields(fields: Iterable[FieldForm]) -> dict[str, Any]:
    """Return the form of a mapping with the keys of these fields of a record."""
    required: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for each in fields:
        (optional if each.omit else required)[each.key] = _form(each.type)
    return mapping_form(required, optional)


def _form(hint: Any) -> dict[str, Any]:
    """Return the form of a type; a ``Key`` may state the form itself."""
    if isinstance(hint, dict):
        return hint
    kind = next((each for each in get_args(hint) if each is not type(None)), hint)
    if kind is bool:
        return TRUTH
    return choice_form(*kind) if issubclass(kind, Enum) else record_form(kind)


def json_schema(form: Any) -> Any:
    """Return a form, or a part of one, as a JSON schema for other programs: kinds of names become patterns."""
    if isinstance(form, list):
        return [json_schema(each) for each in form]
    if not isinstance(form, dict):
        return form
    named = {"pattern": f"^(?:{name_pattern(NameKind[form[NAME_KIND]])})$"} if NAME_KIND in form else {}
    return {key: json_schema(value) for key, value in form.items() if key != NAME_KIND} | named


def form_faults(value: object, schema: dict[str, Any]) -> Iterator[Fault]:
    """Return all deviations of a value from a form, each with what was expected and found."""
    faults = _validator_class()(schema).iter_errors(value)
    for fault in sorted(faults, key=lambda fault: [str(part) for part in fault.absolute_path]):
        way, form = tuple(fault.absolute_path), fault.schema
        if fault.validator == "additionalProperties":
            yield from _unknown_keys(way, fault.instance, form["properties"])
        elif "description" in form:
            yield way, f"expected {form['description']}, found {_shown(fault.instance)}"
        else:
            yield way, fault.message


def one_of(names: Iterable[str]) -> str:
    """Return names as the list of expected values in a message."""
    return f"one of: {', '.join(sorted(names))}"


def _unknown_keys(way: Way, value: Iterable[str], known: Iterable[str]) -> Iterator[Fault]:
    """Return a fault for each key of a mapping that is not among the known ones."""
    known = sorted(known)
    for key in value:
        if key not in known:
            import difflib  # noqa: PLC0415  programs start faster without it

            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected {one_of(known)}"
            yield (*way, key), f"unknown key {_shown(key)}; {hint}"


def _shown(value: object) -> str:
    """Return the beginning of a value, which may be a whole file."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@functools.cache
def _validator_class() -> Any:
    """Return a validator of forms that does not accept NaN and infinity as numbers.

    In its patterns, ``$`` is the end of the text, as in JSON Schema. In Python, ``$`` also matches before a line
    break at the end.
    """
    import jsonschema  # noqa: PLC0415  slow to import and rarely needed

    def pattern(_validator: Any, wanted: str, value: object, _schema: object) -> Iterator[Any]:
        if isinstance(value, str) and _compiled(wanted).search(value) is None:
            yield jsonschema.ValidationError(f"{_shown(value)} does not match {wanted!r}")

    def name(_validator: Any, kind: str, value: object, _schema: object) -> Iterator[Any]:
        if isinstance(value, str) and not is_name(NameKind[kind], value):
            yield jsonschema.ValidationError(f"{_shown(value)} is not a {NameKind[kind].value}")

    standard = jsonschema.Draft202012Validator
    finite = standard.TYPE_CHECKER.redefine("number", lambda _, value: _is_finite_number(value))
    return jsonschema.validators.extend(  # type: ignore[no-untyped-call]
        standard, {"pattern": pattern, NAME_KIND: name}, type_checker=finite
    )


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    r"""Return a pattern of JSON Schema as one of Python: ``$`` before ``)``, ``|`` or the end is ``\Z``."""
    return re.compile(re.sub(r"(?<!\\)\$(?=[)|]|\Z)", r"\\Z", pattern))


def _is_finite_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf
