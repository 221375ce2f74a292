"""YAML text as values, each with its place in the text, and typed values read from text.

Scalars stay text as written, because YAML's own rules would change ``010``, ``1.10``, ``yes`` and ``12:30``.
Numbers, booleans and null are read where a schema expects them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

import yaml

from zkdeployment.base.values import dataclass


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

#: The path to a value: keys and positions from the top of the document.
Way: TypeAlias = "tuple[str | int, ...]"

_MOST_VALUES = 500_000  # 10,000 hosts by name in each of 50 groups; aliases could make of a few lines far more
_TOO_DEEP_FOR_LIBYAML = "exceeded maximum nesting depth"
_DEEPEST = 32

#: The loader in C is ten times as fast but missing on some platforms. Neither loader interprets scalars.
_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_TAG = "tag:yaml.org,2002:"

#: The JSON types of the tags that a scalar may have, besides the tag of text.
_TYPES = {_TAG + "int": "integer", _TAG + "float": "number", _TAG + "bool": "boolean", _TAG + "null": "null"}


class YamlTextError(Exception):
    """The text is not valid YAML or exceeds the limits; ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


@dataclass(slots=True)
class Document:
    """One document of a YAML text, with the place of each value: line and column, from 1 on."""

    value: object = None
    places: dict[Way, tuple[int, int]] = field(default_factory=dict)

    def place(self, way: Way) -> tuple[int, int]:
        """Return the place of a value, or of the nearest value that contains it."""
        while way not in self.places:
            way = way[:-1]
        return self.places[way]


def parse_yaml(text: str) -> Iterator[Document]:
    """Return the documents of a text, with mappings, sequences and text as values.

    Text that is neither quoted nor tagged as text is a ``PlainText``. Raises ``YamlTextError``, also for a
    key that is given twice.
    """
    try:
        _check_depth(text)
        for node in yaml.compose_all(text, Loader=_Loader):
            if node is not None:
                yield _Reader().read(node)
    except yaml.MarkedYAMLError as error:
        place = _place(error.problem_mark or error.context_mark)
        if (
            error.problem == _TOO_DEEP_FOR_LIBYAML
        ):  # libyaml reads ahead, so it finds this before the check of depth
            raise YamlTextError(f"expected values nested at most {_DEEPEST} deep", *place) from error
        raise YamlTextError(f"not valid YAML: {error.problem or error.context}", *place) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # a character that YAML forbids or Python lacks
        raise YamlTextError(f"not valid YAML: {' '.join(str(error).split())}", 1, 1) from error


def _check_depth(text: str) -> None:
    """Raise ``YamlTextError`` for text that is nested too deep, before a parser recurses into it."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise YamlTextError(f"expected values nested at most {_DEEPEST} deep", *_place(event.start_mark))


def _place(mark: Any) -> tuple[int, int]:
    """Return the line and column of a loader's mark, from 1 on; the first place without a mark."""
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)


class _Reader:
    """The reader of one document."""

    def __init__(self) -> None:
        self._document = Document()
        self._read = 0

    def read(self, node: yaml.Node) -> Document:
        """Return the value of a YAML node and the place of each value in it."""
        self._document.value = self._value(node, ())
        return self._document

    def _value(self, node: yaml.Node, way: Way) -> object:
        place = _place(node.start_mark)
        self._document.places[way] = place
        self._read += 1
        if self._read > _MOST_VALUES or len(way) > _DEEPEST:
            raise YamlTextError(f"expected at most {_MOST_VALUES} values, nested at most {_DEEPEST} deep", *place)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, way)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*way, number)) for number, item in enumerate(node.value)]
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, way: Way) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            place = _place(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlTextError("expected a plain key", *place)
            key = str(key_node.value)
            if key in values:
                raise YamlTextError(f"{key} is given twice", *place)
            values[key] = self._value(value_node, (*way, key))
        return values


def _scalar(node: Any) -> str:
    """Return the text of a scalar; raises ``YamlTextError`` if the text does not fit its tag."""
    tag, text = node.tag, str(node.value)
    if tag == _TAG + "str":
        return text if node.style else PlainText(text)
    shown, place = tag.replace(_TAG, "!!"), _place(node.start_mark)
    kind = _TYPES.get(tag)
    if kind is None:
        raise YamlTextError(f"expected a value without the tag {shown}; remove the tag", *place)
    try:
        read_scalar(text, kind)
    except NoValueError as error:
        raise YamlTextError(f"expected a value that fits its tag {shown}, found {text!r}", *place) from error
    return PlainText(text)
