"""The search for the items that another program refuses, where the program judges only all of them together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Generic, TypeVar

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VerifiedItems(Generic[T]):
    """The items that a program accepts together, and the message about each rejected item."""

    accepted: tuple[T, ...] = ()
    rejected: tuple[tuple[T, str], ...] = ()


def find_acceptable(
    items: Sequence[T], verify: Callable[[Sequence[T]], str | None], most_rejected: float = math.inf
) -> VerifiedItems[T]:
    """Return the items that a program accepts together; bad items are found by halving.

    ``verify`` returns the message of the program about these items, or ``None`` if it accepts them. For each bad
    item, the number of verifications is about twice the binary logarithm of the number of items. When more than
    ``most_rejected`` items are bad, parts are no longer halved: all items of a bad part are rejected.
    """
    accepted: list[T] = []
    rejected: list[tuple[T, str]] = []
    parts = [list(items)] if items else []
    while parts:
        part = parts.pop()
        words = verify([*accepted, *part])
        if words is None:
            accepted += part
        elif len(part) == 1 or len(rejected) > most_rejected:
            rejected += [(item, words) for item in part]
        else:
            middle = len(part) // 2
            parts += [part[middle:], part[:middle]]
    return VerifiedItems(tuple(accepted), tuple(rejected))
