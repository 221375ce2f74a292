"""Numbers, booleans and null, read from text where a JSON schema expects them; all other text stays as written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class PlainText(str):
    """Text without quotes in a document, which may represent a number, a boolean or null."""

    __slots__ = ()


class NoValueError(ValueError):
    """The text does not represent a value of the requested type."""


#: Decimal only: 010 would be 8 by the rules of YAML 1.1 and 10 by those of YAML 1.2. No count has 18 digits.
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NULLS = frozenset({"", "~", "null"})


def typed_values(value: object, schema: Mapping[str, Any]) -> object:
    """Return a value with each ``PlainText`` in it converted to the type that the schema expects at its place.

    Text that does not represent an expected type stays text, which the validation then refuses.
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
    """Return the value of a JSON type that a text represents; raises ``NoValueError`` if no such value exists."""
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
    """Return the part of a schema that describes values of a type."""
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


#: The readers by JSON type, narrower types first.
_READERS: dict[str, Callable[[str], float | bool | None]] = {
    "integer": _read_integer,
    "number": _read_number,
    "boolean": _read_boolean,
    "null": _read_null,
}
