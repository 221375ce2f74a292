"""How pools extend others: a deep merge, in which the values of the pool itself come last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

#: The values of a pool in their written form.
PoolValues: TypeAlias = "Mapping[str, Any]"


#: The keys of a pool whose value may be null.
_NULLABLE = frozenset({"extends", "mechanism", "fill-level", "levels", "reuse-nodes", "run-parallel"})


class ExtensionError(Exception):
    """A pool extends one that does not exist, or itself."""


def extended_names(values: PoolValues) -> tuple[str, ...]:
    """Return the names of the pools that a pool extends, in the order in which they are merged."""
    extends = values.get("extends") or ()
    return (extends,) if isinstance(extends, str) else tuple(extends)


def merged_pool(name: str, pools: Mapping[str, PoolValues]) -> dict[str, Any]:
    """Return the values of a pool, merged with those that it extends; raises ``ExtensionError``.

    A key with a meaning whose value is null counts as missing; it also removes what the pool would inherit.
    """
    merged = _merged(name, pools, (), {})
    values = {key: value for key, value in merged.items() if value is not None or key not in _NULLABLE}
    if isinstance(values.get("mechanism"), Mapping):
        values["mechanism"] = _without_nulls(values["mechanism"])
    return values


def _without_nulls(mechanism: PoolValues) -> dict[str, Any]:
    """Return a mechanism, or a part of it, without keys whose value is null; variables keep theirs."""
    kept = ((key, value) for key, value in mechanism.items() if value is not None)
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) and key != "extra-vars" else value
        for key, value in kept
    }


def _merged(
    name: str, pools: Mapping[str, PoolValues], below: tuple[str, ...], done: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the values of a pool; ``done`` are those of the pools that were merged before."""
    if name in done:
        return done[name]
    if name in below:
        raise ExtensionError(f"the pool extends itself: {' -> '.join((*below, name))}")
    own = pools[name]
    merged: dict[str, Any] = {}
    for other in extended_names(own):
        if other not in pools:
            known = ", ".join(sorted(pools.keys() - {name})) or "none"
            raise ExtensionError(f"there is no pool {other!r}; the others are: {known}")
        merged = _deep_merge(merged, _merged(other, pools, (*below, name), done))
    done[name] = _deep_merge(merged, {key: value for key, value in own.items() if key != "extends"})
    return done[name]


def _deep_merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Return the union of two mappings; of two values that are no mappings the upper one counts."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = _deep_merge(below, value)
        else:
            merged[key] = value
    return merged
