"""Comparison of the details of configurations: a difference undeploys the old one and deploys the new one.

The top-level keys that differ between all configurations are ignored. The order of an array does not matter, at
any depth, and a key with the value null is the same as no key. Numbers are equal if their values are: 1 and 1.0
are equal, but 1 and true are not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.checks.instance import CheckDetails

#: The top-level keys of details that are not compared.
IGNORED_KEYS = frozenset({"config_id", "version", "task"})


def same_details(one: CheckDetails, other: CheckDetails) -> bool:
    """Return whether two configurations with these details are the same for a monitoring system."""
    return one is other or _comparable(one) == _comparable(other)


def _comparable(details: CheckDetails) -> object:
    return _canonical_object({key: value for key, value in details.items() if key not in IGNORED_KEYS})


def _canonical(value: object) -> tuple[str, Any]:
    """Return a form of a JSON value that can be compared and sorted: the name of a type, and a value of it."""
    if value is None:
        return "null", 0
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int | float):
        return ("number", value) if math.isfinite(value) else ("text of a number", repr(value))
    if isinstance(value, str):
        return "text", value
    if isinstance(value, list | tuple):
        return "array", tuple(sorted(_canonical(item) for item in value))
    if isinstance(value, dict):
        return _canonical_object(value)
    raise TypeError(f"expected a JSON value, found {value!r}")


def _canonical_object(value: Mapping[str, object]) -> tuple[str, Any]:
    return "object", tuple(
        (key, _canonical(item)) for key, item in sorted(value.items(), key=_key) if item is not None
    )


def _key(item: tuple[str, object]) -> str:
    return item[0]
