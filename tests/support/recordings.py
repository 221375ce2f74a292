"""Recordings of what users and programs see: text files with one fact a line, compared or written again."""

from __future__ import annotations

import json
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

import pytest

from support.manual import HERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_RECORDINGS = HERE / "tests" / "recordings"

_JSON_TYPES = {bool: "boolean", int: "number", float: "number", str: "text", type(None): "null"}


@pytest.fixture
def recorded(pytestconfig: pytest.Config) -> Callable[[str, Iterable[str]], None]:
    """Return a function that fails unless facts equal their recording; with ``--record`` it records them."""

    def compare(name: str, facts: Iterable[str]) -> None:
        file, found = _RECORDINGS / f"{name}.txt", [*facts]
        if pytestconfig.getoption("record"):
            file.write_text("".join(f"{fact}\n" for fact in found), encoding="utf-8")
            return
        expected = file.read_text(encoding="utf-8").splitlines()
        place = str(file.relative_to(HERE))
        changes = [*unified_diff(expected, found, place, "found", lineterm="", n=0)]
        assert not changes, "\n".join(
            [
                f"what users see differs from {place}; an intended difference is recorded with --record:",
                *changes,
            ]
        )

    return compare


def values(value: Any, place: str = "") -> Iterator[str]:
    """Yield one line for each value in a JSON value, with its place."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from values(value[key], f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value and all(isinstance(item, dict | list) for item in value):
        for number, item in enumerate(value):
            yield from values(item, f"{place}[{number}]")
    else:
        yield f"{place} = {json.dumps(value, ensure_ascii=False, sort_keys=True)}"


def shape(value: Any, place: str, steady: Callable[[str], str] = str) -> set[str]:
    """Return one line for each place in a JSON value, with its type; all items of a list are one place.

    ``steady`` replaces keys that are names, and differ from run to run.
    """
    if isinstance(value, dict):
        below = (shape(item, f"{place}.{steady(key)}", steady) for key, item in value.items())
        return {f"{place}: object"}.union(*below)
    if isinstance(value, list):
        return {f"{place}: list"}.union(*(shape(item, f"{place}[]", steady) for item in value))
    return {f"{place}: {_JSON_TYPES[type(value)]}"}
