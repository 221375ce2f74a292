"""JSON that is kept or printed: its types, its bounds, and the name of its format.

Beyond these bounds, parsers, encoders and databases accept different values. One value that some reader refuses
would break every list that contains the value.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    #: The value of a property of a node: any JSON value.
    Value: TypeAlias = bool | int | float | str | list["Value"] | dict[str, "Value"] | None
    Properties: TypeAlias = Mapping[str, Value]

    #: Returns the properties of a node with links unresolved, or ``None`` if there is no such node.
    Lookup: TypeAlias = Callable[[str], Properties | None]


#: The most levels of nested lists and objects. Documents need about ten.
DEEPEST = 32

#: Whole numbers have at most 64 bits, with the sign.
_LARGEST = 2**63

_SURROGATE = re.compile("[\ud800-\udfff]")

TOO_DEEP = f"expected at most {DEEPEST} levels of lists and objects in each other, found more"


def json_problem(value: object) -> str | None:
    """Return why a value from JSON is beyond the bounds; ``None`` if it is within them."""
    level = [value]
    for _ in range(DEEPEST + 1):
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner += [*each, *each.values()]
            elif isinstance(each, list):
                inner += each
            elif (problem := _problem_of_single(each)) is not None:
                return problem
        if not inner:
            return None
        level = inner
    return TOO_DEEP


def _problem_of_single(value: object) -> str | None:
    if isinstance(value, str) and _SURROGATE.search(value):
        return "expected Unicode text, found half of a surrogate pair"
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return "expected whole numbers of at most 64 bits, found a larger one"
    if isinstance(value, float) and not math.isfinite(value):
        return "expected finite numbers, found infinity or NaN"
    return None


def readable(value: Any, levels: int = DEEPEST) -> Any:
    """Return a value that was stored without these bounds in a form that every parser accepts.

    Question marks replace characters that are not Unicode, and ``null`` replaces values that are nested too
    deeply.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8") if _SURROGATE.search(value) else value
    if isinstance(value, dict):
        return {readable(key): readable(each, levels - 1) for key, each in value.items()} if levels else None
    if isinstance(value, list):
        return [readable(each, levels - 1) for each in value] if levels else None
    return value


V = TypeVar("V")


def with_schema(schema: str, body: Mapping[str, V]) -> dict[str, V | str]:
    """Return an object for programs with the name of its format, ``zkdeployment/SCHEMA/v1``."""
    return {"schema": f"zkdeployment/{schema}/v1", **body}
