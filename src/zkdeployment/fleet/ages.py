"""Ages for reading."""

from __future__ import annotations

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def age(seconds: float) -> str:
    """Return how long something lasts in the largest unit that fits, or the two largest: ``2 h 5 min``.

    Clocks differ: what is to come counts as now.
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


def ago(time: float, now: float) -> str:
    """Return when something happened: ``5 min ago``; an unknown time (0) says so."""
    return f"{age(now - time)} ago" if time else "at an unknown time"
