"""Keys of records that this version does not know: processes of several versions read and write the same records.

A value that is read from a record keeps them, and writes them again: a process of an older version erases nothing
that a newer one wrote.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NONE: Mapping[str, Any] = MappingProxyType({})


def no_keys() -> Mapping[str, Any]:
    """Return the unknown keys of a new record: one empty mapping for all records."""
    return _NONE


def unknown_keys(record: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Return what a record has besides the ``known`` keys; raises ``TypeError`` for what is no record."""
    return {key: record[key] for key in record if key not in known} or _NONE
