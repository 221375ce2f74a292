"""Records: dataclasses with one JSON form, which ZooKeeper, files, answers of the API and ``-o json`` share.

The annotation of a field decides its form: numbers, text and booleans stay unchanged, enumerations become their
values, tuples and frozen sets lists, mappings and other records objects. A ``Key`` in the annotation states the
properties that the type cannot express. A field ``unknown`` keeps the keys that this version does not know: a
process of an older version must not erase what a newer one wrote.

Annotations are evaluated once for each class, when its first record is encoded or decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as evaluated

from zkdeployment.base.values import dataclass

_NO_KEYS: Mapping[str, Any] = MappingProxyType({})

#: Numbers beyond these bounds lose digits in JSON readers that have only floating point numbers.
_LARGEST = 2.0**53

#: The most characters of an invalid value that a message shows.
_LONGEST_SHOWN = 100


def no_keys() -> Mapping[str, Any]:
    """Return the unknown keys of a new record: one empty mapping for all records."""
    return _NO_KEYS


def unknown_keys(record: Any, known: Any) -> Mapping[str, Any]:
    """Return the keys of a JSON object that are not ``known``, with their values."""
    return {key: record[key] for key in record if key not in known} or _NO_KEYS


@dataclass(frozen=True)
class Key:
    """The properties of a form that do not follow from the type of the field.

    ``name`` is the key, by default that of the field. ``omit`` is whether the key is omitted while the field has
    its default value. ``apart``: the field has no place in the JSON form. ``flat``: the keys of the field's record
    stand among those of the outer record; an optional record is ``None`` if its first key is null or missing.
    ``read`` converts a JSON value to that of the field, or raises ``ValueError``; ``write`` does the reverse, and
    ``form`` is the type of the JSON value, or its JSON schema. ``about`` describes the key in the description of
    the API.
    """

    name: str | None = None
    omit: bool | None = None
    apart: bool = False
    flat: bool = False
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None
    form: Any = None
    about: str = ""


#: The key is omitted while the field has its default value.
OMITTED = Key(omit=True)

#: The field is not in the JSON form.
APART = Key(apart=True)

_F = TypeVar("_F", bound=Callable[[Any], Any])


def shown(name: str) -> Callable[[_F], _F]:
    """Add the result of a method to the JSON form of its record, under the key ``name``, after all fields."""

    def mark(method: _F) -> _F:
        method.__dict__["shown_as"] = name
        return method

    return mark


class Record:
    """A dataclass with a JSON form.

    In a record that ``is_lenient``, missing and malformed values are replaced by the default value of the field,
    or else by ``?`` for text and 0 for numbers. A record that ``omits_unset`` omits the keys of fields that are
    ``None`` by default while they are ``None``.
    """

    __slots__ = ()
    is_lenient: ClassVar[bool] = False
    omits_unset: ClassVar[bool] = False

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; equal records have equal forms."""
        return codec(type(self)).encode(self)

    @classmethod
    def from_json(cls, value: object, **apart: Any) -> Self:
        """Return the record with a JSON form; ``apart`` are the fields outside of it.

        Raises ``ValueError`` for an invalid form, unless the record is lenient.
        """
        return cls(**codec(cls).decode(value), **apart)

    @classmethod
    def if_valid(cls, value: object, **apart: Any) -> Self | None:
        """Return the record with a JSON form; ``None`` for an invalid form."""
        try:
            return cls.from_json(value, **apart)
        except ValueError:
            return None


class _Form(NamedTuple):
    """The form of a type: ``write`` is ``None`` if values stay unchanged; ``unset`` is the unknown value."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None = None
    unset: Any = MISSING


class FieldForm(NamedTuple):
    """The form of a field: its ``key``, the ``type`` of the value, and how to convert the value.

    ``omit`` is whether the key may be missing. ``unset`` is the value that a lenient record has instead of an
    invalid one. The keys of a ``flat`` field are those of its record. ``write`` is ``None`` if values stay
    unchanged.
    """

    name: str
    key: str
    type: Any
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None
    default: Any
    unset: Any
    omit: bool
    flat: bool


class ShownForm(NamedTuple):
    """The form of the result of a method that is marked with ``shown``."""

    key: str
    type: Any
    method: Callable[[Any], Any]
    write: Callable[[Any], Any] | None


class Codec(NamedTuple):
    """The JSON form of a class of records; ``known`` are its keys, ``None`` unless it keeps unknown keys."""

    fields: tuple[FieldForm, ...]
    shown: tuple[ShownForm, ...]
    known: frozenset[str] | None
    is_lenient: bool

    def encode(self, record: Any) -> dict[str, Any]:
        """Return the JSON form of a record."""
        value = {} if self.known is None else {**record.unknown}
        for name, key, _, _, write, default, _, omit, flat in self.fields:
            found = getattr(record, name)
            if omit and found == default:
                continue
            written = found if write is None else write(found)
            if flat:
                value |= written
            else:
                value[key] = written
        for key, _, method, write in self.shown:
            found = method(record)
            value[key] = found if write is None else write(found)
        return value

    def decode(self, value: Any) -> dict[str, Any]:
        """Return the values of the fields of a record; raises ``ValueError`` for an invalid form."""
        if not isinstance(value, Mapping):
            if not self.is_lenient:
                raise invalid("an object", value)
            value = {}
        found = {}
        for name, key, _, read, _, default, unset, _, flat in self.fields:
            if flat or key in value:
                try:
                    found[name] = read(value if flat else value[key])
                except (ValueError, TypeError) as error:
                    if not self.is_lenient or unset is MISSING:
                        raise ValueError(str(error) if flat else f"{key}: {error}") from error
                    found[name] = unset
            elif default is MISSING:
                if not self.is_lenient or unset is MISSING:
                    raise ValueError(f"{key}: the key is missing")
                found[name] = unset
        if self.known is not None:
            found["unknown"] = unknown_keys(value, self.known)
        return found


def invalid(expected: str, found: object) -> ValueError:
    """Return the error for a value that is not of the ``expected`` kind."""
    return ValueError(f"expected {expected}, found {ascii(found)[:_LONGEST_SHOWN]}")


_CODECS: dict[Any, Codec] = {}


def codec(record: Any) -> Codec:
    """Return the codec of a class of records."""
    if record not in _CODECS:
        _CODECS[record] = _codec(record)
    return _CODECS[record]


def _codec(record: Any) -> Codec:
    hints = evaluated(record, include_extras=True)
    forms = [_field_form(field, hints[field.name], record) for field in fields(record) if field.name != "unknown"]
    kept = tuple(form for form in forms if form is not None)
    keys = frozenset(key for form in kept for key in _keys(form))
    members = [getattr(member, "fget", member) for member in vars(record).values()]
    methods = [member for member in members if hasattr(member, "shown_as")]
    shown_forms = tuple(map(_shown_form, methods))
    return Codec(kept, shown_forms, keys if "unknown" in hints else None, record.is_lenient)


def _keys(form: FieldForm) -> list[str]:
    return [key for inner in codec(form.type).fields for key in _keys(inner)] if form.flat else [form.key]


def _field_form(field: Field[Any], hint: Any, record: type[Record]) -> FieldForm | None:
    key = Key()
    if get_origin(hint) is Annotated:
        hint, key = get_args(hint)
    if key.apart:
        return None
    form = _flat_form(hint) if key.flat else _keyed_form(key, hint)
    default = field.default if field.default_factory is MISSING else field.default_factory()
    omit = record.omits_unset and default is None if key.omit is None else key.omit
    kind = _required(hint)[0] if key.flat else key.form or hint
    if key.about:
        kind = Annotated[kind, Key(about=key.about)]
    unset = form.unset if default is MISSING else default
    return FieldForm(
        field.name, key.name or field.name, kind, form.read, form.write, default, unset, omit, key.flat
    )


def _shown_form(method: Any) -> ShownForm:
    hint = evaluated(method, include_extras=True)["return"]
    return ShownForm(method.shown_as, hint, method, _form(hint).write)


def _flat_form(hint: Any) -> _Form:
    """Return the form of a record whose keys are among those of another record.

    Without the record, these keys are null, except those that it may omit.
    """
    kinds, is_optional = _required(hint), NoneType in get_args(hint)
    record: type[Record] = kinds[0]
    first = codec(record).fields[0].key
    written = (form for form in codec(record).fields if not form.omit)
    nothing = dict.fromkeys((key for form in written for key in _keys(form)), None)

    def read(value: Mapping[str, Any]) -> Record | None:
        return None if is_optional and value.get(first) is None else record.from_json(value)

    def write(value: Record | None) -> dict[str, Any]:
        return {**nothing} if value is None else value.to_json()

    return _Form(read, write)


def _required(hint: Any) -> list[Any]:
    """Return the types of a union except ``None``, or the type itself."""
    parts = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    return [part for part in parts if part is not NoneType]


def _keyed_form(key: Key, hint: Any) -> _Form:
    """Return the form of a type with a key."""
    form = _Form(_anything) if key.read is not None and key.write is not None else _form(hint)
    return _Form(key.read or form.read, key.write or form.write, form.unset)


def _form(hint: Any) -> _Form:
    """Return the form of a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if origin is Annotated:
        return _keyed_form(arguments[1], arguments[0])
    if origin in {Union, UnionType}:
        return _union_form([_form(kind) for kind in _required(hint)], is_optional=NoneType in arguments)
    if origin is Literal:
        return _literal_form(arguments)
    if origin is tuple and arguments[1:] != (...,):
        return _fixed_form([_form(each) for each in arguments])
    if origin in {tuple, frozenset}:
        return _list_form(origin, _form(arguments[0]))
    if origin is Mapping:
        return _mapping_form(_form(arguments[0]), _form(arguments[1]))
    if issubclass(hint, Enum):
        return _enum_form(hint)
    return _Form(hint.from_json, hint.to_json)


def _anything(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise invalid("text", value)


def _whole(value: Any) -> int:
    if type(value) is int:
        return value
    raise invalid("a whole number", value)


def _number(value: Any) -> float:
    if type(value) in {int, float} and -_LARGEST < value < _LARGEST:
        return float(value)
    raise invalid("a number", value)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise invalid("true or false", value)


_SIMPLE: Mapping[Any, _Form] = {
    str: _Form(_text, unset="?"),
    int: _Form(_whole, unset=0),
    float: _Form(_number, unset=0.0),
    bool: _Form(_truth),
    Any: _Form(_anything),
    object: _Form(_anything),
}


def _union_form(forms: list[_Form], *, is_optional: bool) -> _Form:
    """Return the form of one of several types; only one of them may have values that need conversion."""
    (first, *others) = forms
    write = next((form.write for form in forms if form.write is not None), None)

    def read(value: Any) -> Any:
        if value is None and is_optional:
            return None
        for form in others:
            try:
                return form.read(value)
            except ValueError:
                continue
        return first.read(value)

    def write_given(value: Any) -> Any:
        return None if value is None or write is None else write(value)

    return _Form(read, None if write is None else write_given, None if is_optional else first.unset)


def _literal_form(values: tuple[Any, ...]) -> _Form:
    def read(value: Any) -> Any:
        if any(value is each or (isinstance(each, str) and value == each) for each in values):
            return value
        raise invalid(" or ".join(map(repr, values)), value)

    return _Form(read)


def _enum_form(kind: type[Enum]) -> _Form:
    members = {member.value: member for member in kind}

    def read(value: Any) -> Enum:
        if isinstance(value, str | int) and value in members:
            return members[value]
        raise invalid(f"one of {', '.join(map(str, members))}", value)

    return _Form(read, lambda member: member.value)


def _list_form(collection: Callable[[Any], Any], item: _Form) -> _Form:
    read_item, write_item = item.read, item.write
    in_order = sorted if collection is frozenset else list

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise invalid("a list", value)
        return collection([read_item(each) for each in value])

    return _Form(read, in_order if write_item is None else lambda value: in_order(map(write_item, value)))


def _fixed_form(items: list[_Form]) -> _Form:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(items):
            raise invalid(f"a list of {len(items)} values", value)
        return tuple(item.read(each) for item, each in zip(items, value, strict=True))

    def write(value: tuple[Any, ...]) -> list[Any]:
        pairs = zip(items, value, strict=True)
        return [each if item.write is None else item.write(each) for item, each in pairs]

    return _Form(read, write)


def _mapping_form(key: _Form, item: _Form) -> _Form:
    read_key, write_key = key.read, key.write or _anything
    read_item, write_item = item.read, item.write or _anything

    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise invalid("an object", value)
        return {read_key(name): read_item(each) for name, each in value.items()}

    def write(value: Mapping[Any, Any]) -> dict[str, Any]:
        return {write_key(name): write_item(each) for name, each in value.items()}

    return _Form(read, dict if key.write is None and item.write is None else write)
