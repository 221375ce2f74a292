"""Durations and ages, as people write and read them, and times by the clocks of other machines."""

from __future__ import annotations

import re
from datetime import UTC, datetime

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


def duration_seconds(text: str, longest: float = LONGEST_DURATION) -> float | None:
    """Return the seconds of a duration that a person wrote, ``90d`` or ``1h30m``.

    ``None`` for 0, for invalid texts and for durations longer than ``longest``, by default 100 years.
    """
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    parts = zip(match.groups(default="0"), _PARTS, strict=True)
    duration = sum(int(number) * seconds for number, (_, seconds) in parts)
    return duration if duration <= longest else None


def given_seconds(given: object) -> float | None:
    """Return the seconds of a value in a document or a request: seconds, also as digits, or a written duration.

    ``None`` for 0, for other values and for more than 100 years.
    """
    if isinstance(given, str):
        if not (given.isascii() and given.isdecimal()):
            return duration_seconds(given.strip())
        given = float(given)
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return float(given) if 0 < given <= LONGEST_DURATION else None


def signed_duration(text: str) -> float | None:
    """Return the seconds of a duration with a sign, ``+1h30m`` or ``-20m``; ``None`` for 0 and invalid texts."""
    sign, rest = text.strip()[:1], text.strip()[1:]
    seconds = None if sign not in {"+", "-"} or rest.startswith("+") else duration_seconds(rest)
    return -seconds if seconds is not None and sign == "-" else seconds


def clock_time(minutes: int) -> str:
    """Return the time of day at these minutes after midnight, as in ``22:30``."""
    return f"{minutes // 60:02}:{minutes % 60:02}"


_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


#: Seconds by which the clock of another machine may be ahead of the clock of this one.
CLOCK_TOLERANCE = 600.0


def seconds_ahead(time: float, now: float) -> float:
    """Return by how many seconds a time from another machine is in the future; 0 within the tolerance.

    A rule that permits something for a while after such a time has to refuse times in the future. Otherwise a
    clock that is ahead extends the permission.
    """
    return time - now if time - now > CLOCK_TOLERANCE else 0.0


def utc_text(time: float) -> str:
    """Return a time in seconds since the epoch, ``2026-05-01 18:00 UTC``, also one that no calendar has."""
    return _utc_text(time, "%Y-%m-%d %H:%M")


def utc_clock_text(time: float) -> str:
    """Return the time of day of a time in seconds since the epoch, ``18:00 UTC``, also if no calendar has it."""
    return _utc_text(time, "%H:%M")


def _utc_text(time: float, form: str) -> str:
    try:
        return f"{datetime.fromtimestamp(time, UTC):{form}} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{time:g} seconds since the epoch"


def age(seconds: float) -> str:
    """Return a duration in seconds in its largest unit, or its two largest units: ``2 h 5 min``.

    A negative duration, which different clocks can cause, counts as 0.
    """
    rest = max(0.0, seconds)
    for place, (length, unit) in enumerate(_UNITS):
        if rest >= length:
            whole = int(rest // length)
            smaller = _UNITS[place + 1 : place + 2]
            if whole >= 10 or not smaller or rest % length < smaller[0][0]:
                return f"{whole} {unit}"
            return f"{whole} {unit} {int(rest % length // smaller[0][0])} {smaller[0][1]}"
    return f"{int(rest)} s"


def ahead(time: float, now: float) -> str:
    """Return the duration until a time in seconds since the epoch, ``in 5 min``; ``now`` if it has come."""
    return f"in {age(time - now)}" if time > now else "now"


def ago(time: float, now: float) -> str:
    """Return the age of a time in seconds since the epoch, ``5 min ago``; 0 is an unknown time."""
    return f"{age(now - time)} ago" if time else "at an unknown time"
