"""The installed features, and their contributions to the frames.

A frame, such as the documents, the service or the verbs, declares its places for contributions in its own module
``places``, and reads here how features fill them. Features do not know each other, and frames do not know the
features: ``programs`` has the list.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from zkdeployment import base

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

P = TypeVar("P")


class Feature(NamedTuple):
    """A feature: its name, and the places of the frames as it fills them.

    The values of places are functions, which import what they return: a program loads only the parts of the
    features that it uses.
    """

    name: str
    places: tuple[object, ...]


def value_in(module: str, name: str) -> Callable[[], Any]:
    """Return a function that returns a value of a module, which is imported at the first call.

    The name of a module below ``zkdeployment`` may be relative.
    """
    return lambda: getattr(importlib.import_module(module, "zkdeployment"), name)


def function_in(module: str, name: str) -> Callable[..., Any]:
    """Return a function that calls one in a module, which is imported as for ``value_in``."""

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(module, "zkdeployment"), name)(*arguments)

    return call


def install(names: Sequence[str]) -> None:
    """Make these capabilities the installed features: each has a module ``feature`` with the value ``FEATURE``."""
    base.installed_features = tuple(names)
    _features.cache_clear()


def installed(kind: type[P]) -> tuple[P, ...]:
    """Return the places of one kind as the installed features fill them, in the order of the features.

    Raises ``RuntimeError`` if a program installed no features.
    """
    return tuple(places for feature in _features() for places in feature.places if isinstance(places, kind))


@cache
def _features() -> tuple[Feature, ...]:
    names = base.installed_features
    if not names:
        raise RuntimeError("no features are installed: import zkdeployment.programs first")
    return tuple(importlib.import_module(f"zkdeployment.{name}.feature").FEATURE for name in names)
