"""Durations and ages as people read them."""

from __future__ import annotations

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def age(seconds: float) -> str:
    """Return a duration in seconds in its largest unit, or its two largest units: ``2 h 5 min``.

    Negative durations, which clocks that differ can cause, count as 0.
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
    """Return how far a time in seconds since the epoch is in the future, ``in 5 min``; ``now`` if it has come."""
    return f"in {age(time - now)}" if time > now else "now"


def ago(time: float, now: float) -> str:
    """Return the age of a time in seconds since the epoch, ``5 min ago``; 0 is an unknown time."""
    return f"{age(now - time)} ago" if time else "at an unknown time"
