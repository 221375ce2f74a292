"""The time windows in which a group may start."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zkdeployment.model.strategy import Window

#: A window opens at least once a week, but not in an hour that a change of the clocks skips.
_DAYS_AHEAD = 15


def is_open(windows: Collection[Window], now: float) -> bool:
    """Whether any window is open at ``now`` (seconds since the epoch), or there are no windows."""
    return not windows or any(start <= now < end for window in windows for start, end in _spans(window, now))


def next_opening(windows: Collection[Window], now: float) -> float:
    """Return when the first of the windows opens after ``now``, in seconds since the epoch."""
    return min(start for window in windows for start, _ in _spans(window, now) if start > now)


def _spans(window: Window, now: float) -> Iterator[tuple[float, float]]:
    """Return when the window opens and closes, from the day before ``now`` on."""
    zone = ZoneInfo(window.zone)
    today = datetime.fromtimestamp(now, zone).date()
    length = (window.end - window.start) % (24 * 60) or 24 * 60
    for ahead in range(-1, _DAYS_AHEAD + 1):
        day = today + timedelta(days=ahead)
        if day.weekday() in window.days:
            begin = datetime.combine(day, time()) + timedelta(minutes=window.start)
            end = begin + timedelta(minutes=length)
            span = begin.replace(tzinfo=zone).timestamp(), end.replace(tzinfo=zone).timestamp()
            if span[0] < span[1]:  # otherwise the change of the clocks skips its hour
                yield span
