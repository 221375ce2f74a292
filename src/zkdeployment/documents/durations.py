"""Durations as people write them in commands and documents."""

from __future__ import annotations

import re

#: The longest duration, in seconds: 100 years. The end of a longer one may have no date.
LONGEST_DURATION = 36525 * 86400.0

_PARTS = (("w", 604800.0), ("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 0.001))

#: A duration above zero, as a JSON schema describes it: ``90d``, ``1h30m`` or ``1w 2d``.
DURATION_PATTERN = (
    r"^\+?(?=.*[1-9])"
    + "".join(
        rf"(?:\s*([0-9]{{1,9}}){''.join(f'[{letter}{letter.upper()}]' for letter in unit)})?" for unit, _ in _PARTS
    )
    + "$"
)

_WRITTEN = re.compile(DURATION_PATTERN, re.ASCII)


def duration_seconds(text: str) -> float | None:
    """Return the seconds of a duration that a person wrote, ``90d`` or ``1h30m``.

    ``None`` for 0, for invalid texts and for durations longer than 100 years.
    """
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    parts = zip(match.groups(default="0"), _PARTS, strict=True)
    duration = sum(int(number) * seconds for number, (_, seconds) in parts)
    return duration if duration <= LONGEST_DURATION else None


def signed_duration(text: str) -> float | None:
    """Return the seconds of a duration with a sign, ``+1h30m`` or ``-20m``; ``None`` for 0 and invalid texts."""
    sign, rest = text.strip()[:1], text.strip()[1:]
    seconds = None if sign not in {"+", "-"} or rest.startswith("+") else duration_seconds(rest)
    return -seconds if seconds is not None and sign == "-" else seconds
