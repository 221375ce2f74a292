"""The bodies of answers, made from the records that the answers encode, for the description of the API."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import cleandoc
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import SkipJsonSchema, WithJsonSchema

from zkdeployment.base.records import Record, codec
from zkdeployment.documents.forms import json_schema

T = TypeVar("T")

#: The type of a key that an answer omits instead of making it null. In a request, null counts as omitted.
Omittable = Union[T, SkipJsonSchema[None]]  # noqa: UP007  a generic alias


class Described(BaseModel):
    """A JSON object with these keys; a later version may add keys, as in all output."""

    model_config = ConfigDict(extra="allow")


@cache
def body_of(record: Any) -> type[BaseModel]:
    """Return the body that describes a class of records, by its name and its docstring."""
    return _model(record.__name__, record.__doc__, _keys(record))


def answer(schema: str | None, record: Any = None, text: str = "", **more: Any) -> Any:
    """Return the body of an answer: its ``schema``, the keys of a record, and ``more`` keys with their types.

    ``text`` describes the answer, by default with the docstring of the record. Keys with the type ``None`` are
    omitted. A part of an answer, and an answer of ``/v2``, has no schema.
    """
    keys = {} if schema is None else {"schema": (Literal[f"zkdeployment/{schema}/v1"], ...)}
    keys |= ({} if record is None else _keys(record)) | {
        key: (_described(hint), ...) for key, hint in more.items()
    }
    kept = {key: described for key, described in keys.items() if described[0] is not None}
    name = (
        getattr(record, "__name__", "")
        if schema is None
        else "".join(part.capitalize() for part in schema.split("-"))
    )
    return _model(f"{name}Answer", text or record.__doc__, kept)


def _model(name: str, text: str, keys: dict[str, Any]) -> type[BaseModel]:
    described = {
        f"key_{number}": (hint, Field(default, alias=key))
        for number, (key, (hint, default)) in enumerate(keys.items())
    }
    return create_model(name, __base__=Described, __doc__=cleandoc(text).partition("\n\n")[0], **described)  # type: ignore[call-overload,no-any-return]


def _keys(record: Any) -> dict[str, tuple[Any, Any]]:
    """Return the types of the keys of a record, and their defaults: ``...`` for keys that are never omitted."""
    found: dict[str, tuple[Any, Any]] = {}
    for form in codec(record).fields:
        if form.flat and form.default is None:
            inner = _keys(form.type).items()
            found |= {key: (hint if default is None else hint | None, default) for key, (hint, default) in inner}
        elif form.flat:
            found |= _keys(form.type)
        else:
            found[form.key] = (_described(_given(form.type)), None) if form.omit else (_described(form.type), ...)
    return found | {shown.key: (_described(shown.type), ...) for shown in codec(record).shown}


def _given(hint: Any) -> Any:
    """Return the type of a key that is omitted instead of being null."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)] if get_origin(hint) is UnionType else []
    return Union[tuple(kinds)] if kinds else hint  # noqa: UP007  the types are computed


def _described(hint: Any) -> Any:
    """Return the type that describes the JSON form of a type, or values of the form of a document."""
    if isinstance(hint, Mapping):
        return Annotated[Any, WithJsonSchema(json_schema(hint))]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        described, about = _described(arguments[1].form or arguments[0]), arguments[1].about
        return Annotated[described, Field(description=about)] if about else described
    if origin in {Union, UnionType}:
        return Union[tuple(map(_described, arguments))]  # noqa: UP007  the types are computed
    if origin in {tuple, frozenset, list}:
        return list[_described(arguments[0])]  # type: ignore[misc]
    if origin is not None and origin is not Literal:
        return dict[str, _described(arguments[1])]  # type: ignore[misc]
    if isinstance(hint, type) and issubclass(hint, Record):
        return body_of(cast("Any", hint))
    return Literal[tuple(member.value for member in hint)] if _is_enumeration(hint) else hint


def _is_enumeration(hint: Any) -> bool:
    return hasattr(hint, "__members__")
