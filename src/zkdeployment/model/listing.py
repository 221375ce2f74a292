"""Lists of names in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def listing(names: Sequence[str], most: int | None = None) -> str:
    """Return the first ``most`` names (``None``: all), joined by commas, and the number of the others."""
    more = f" and {len(names) - most} more" if most is not None and len(names) > most else ""
    return ", ".join(names[:most]) + more
