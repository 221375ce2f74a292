"""Values: dataclasses that cost little until a program uses them.

A program defines a hundred or more dataclasses when it starts, and makes instances of few of them. The standard
decorator compiles up to six methods for each class, which took a third of the start of a verb. ``dataclass`` here
has the same options and results, but each method is compiled when it is first called.

Dataclasses of the standard decorator and of this one do not inherit from each other. ``InitVar``, and the options
``init`` and ``unsafe_hash``, are not supported.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> type | Callable[[type], type]:
        """Return the class with the methods of a dataclass, or a decorator with these options."""
        return partial(_with_methods, **options) if cls is None else _with_methods(cls)


#: The options with which the standard decorator compiles nothing.
_NOTHING: Mapping[str, Any] = MappingProxyType({"init": False, "repr": False, "eq": False})

_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")


def _with_methods(
    original: type,
    *,
    repr: bool = True,  # noqa: A002  the option of the standard decorator
    eq: bool = True,
    order: bool = False,
    frozen: bool = False,
    **layout: bool,
) -> type:
    """Return the class with its methods; methods in its body remain.

    ``layout`` has the options that add no method.
    """
    cls: type = dataclasses.dataclass(**_NOTHING, **layout)(original)
    methods: dict[str, Any] = {"__init__": _lazy(cls, "__init__", init=True, frozen=frozen)}
    if repr:
        methods["__repr__"] = _lazy(cls, "__repr__", repr=True)
    if eq:
        methods["__eq__"] = _lazy(cls, "__eq__", eq=True)
        methods["__hash__"] = _lazy(cls, "__hash__", unsafe_hash=True) if frozen else None
    if order:
        methods |= {name: _lazy(cls, name, eq=True, order=True) for name in _ORDER}
    if frozen:
        methods |= {"__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
        if layout.get("slots"):
            methods |= {"__getstate__": _state, "__setstate__": _restore_state}
    for name, method in methods.items():
        if vars(cls).get(name) is None:  # Python sets __hash__ to None in a class with its own __eq__
            setattr(cls, name, method)
    return cls


def _lazy(cls: type, name: str, **options: bool) -> Callable[..., Any]:
    """Return a method that is replaced, when it is first called, with the one that these options compile."""

    def method(self: object, /, *values: Any, **named: Any) -> Any:
        compiled = _compiled(cls, name, **options)
        setattr(cls, name, compiled)
        return compiled(self, *values, **named)

    return method


def _compiled(cls: type, name: str, **options: bool) -> Callable[..., Any]:
    """Return the method of a standard dataclass that has the same fields and these options."""
    body: dict[str, Any] = {"__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    if hasattr(cls, "__post_init__"):
        body["__post_init__"] = None  # its presence alone makes __init__ call the method of the instance
    twin = dataclasses.make_dataclass(
        cls.__name__,
        [(each.name, each.type, each) for each in dataclasses.fields(cls)],
        namespace=body,
        match_args=False,
        **{**_NOTHING, **options},
    )
    method: Callable[..., Any] = vars(twin)[name]
    return method


def _refuse_assignment(_self: object, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    """Return the values of the fields, from which pickle and copy restore an instance with slots."""
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _restore_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
