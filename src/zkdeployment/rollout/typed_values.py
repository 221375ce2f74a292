"""Numbers, booleans and null read from text where a JSON schema expects them; all other text stays as written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class PlainText(str):
    """Text that a document has without quotes: it may stand for a number, a boolean or null."""

    __slots__ = ()


class NoValueError(ValueError):
    """Text that is no value of the type asked for."""


#: Decimal only: 010 would be 8 by the rules of YAML 1.1 and 10 by those of YAML 1.2. No count has 18 digits.
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NULLS = frozenset({"", "~", "null"})


def typed_values(value: object, schema: Mapping[str, Any]) -> object:
    """Return a value with its ``PlainText`` read as what the schema expects at its place.

    Text that is not of an expected type stays text, for the schema's validation to refuse.
    """
    if isinstance(value, dict):
        form = _form(schema, "object")
        named, others = form.get("properties", {}), form.get("additionalProperties")
        other = others if isinstance(others, Mapping) else {}
        return {key: typed_values(item, named.get(key, other)) for key, item in value.items()}
    if isinstance(value, list):
        items = _form(schema, "array").get("items", {})
        return [typed_values(item, items) for item in value]
    if isinstance(value, PlainText):
        return _typed_scalar(str(value), _types(schema))
    return value


def read_scalar(text: str, kind: str) -> float | bool | None:
    """Return the value of a JSON type that a text stands for; raises ``NoValueError`` if it is none."""
    return _READERS[kind](text)


def _typed_scalar(text: str, types: frozenset[str]) -> object:
    wanted = types | {"number"} if "integer" in types else types  # 2.0 is a whole number, 2.5 at least a number
    for kind in _READERS:
        if kind in wanted:
            try:
                return read_scalar(text, kind)
            except NoValueError:
                continue
    return text


def _forms(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [schema, *schema.get("anyOf", ())]


def _form(schema: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the part of a schema that says what values of a type hold."""
    return next((form for form in _forms(schema) if kind in _own_types(form)), {})


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    return frozenset[str]().union(*map(_own_types, _forms(schema)))


def _own_types(schema: Mapping[str, Any]) -> frozenset[str]:
    types = schema.get("type", ())
    return frozenset([types] if isinstance(types, str) else types)


def _read_integer(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise NoValueError(text)
    return int(text)


def _read_number(text: str) -> float:
    if _INTEGER.fullmatch(text) is not None:
        return int(text)
    number = float(text) if _NUMBER.fullmatch(text) is not None else math.nan
    if not math.isfinite(number):
        raise NoValueError(text)
    return number


def _read_boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise NoValueError(text)
    return _BOOLEANS[text.lower()]


def _read_null(text: str) -> None:
    if text.lower() not in _NULLS:
        raise NoValueError(text)


#: By JSON type, the narrower ones first.
_READERS: dict[str, Callable[[str], float | bool | None]] = {
    "integer": _read_integer,
    "number": _read_number,
    "boolean": _read_boolean,
    "null": _read_null,
}
