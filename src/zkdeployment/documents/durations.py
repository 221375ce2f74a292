"""Durations as people write them in commands and documents."""

from __future__ import annotations

import re

_WRITTEN = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?")
_WRITTEN_SECONDS = (86400.0, 3600.0, 60.0, 1.0)


def duration_seconds(text: str) -> float | None:
    """Return the seconds of a duration that a person wrote, ``90d`` or ``1h30m``; ``None`` if it is none, or 0."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    parts = zip(match.groups(default="0"), _WRITTEN_SECONDS, strict=True)
    return sum(int(number) * seconds for number, seconds in parts) or None
