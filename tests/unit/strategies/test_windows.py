"""Times in which groups may start: days, zones, midnight, and days without some of their hours."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from zkdeployment.strategies.strategy import Window, is_open, next_opening

DAILY = frozenset(range(7))
WEEKDAYS = frozenset(range(5))


def at(text, zone="UTC"):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def window(start, end, days=DAILY, zone="UTC"):
    return Window(days, start * 60, end * 60, zone)


@pytest.mark.parametrize(
    ("when", "windows", "expected_result"),
    [
        ("2026-11-18T10:00", (), True),
        ("2026-11-18T01:59", (window(2, 4),), False),
        ("2026-11-18T02:00", (window(2, 4),), True),
        ("2026-11-18T03:59", (window(2, 4),), True),
        ("2026-11-18T04:00", (window(2, 4),), False),
        ("2026-11-18T23:00", (window(22, 2),), True),
        ("2026-11-18T01:00", (window(22, 2),), True),
        ("2026-11-18T03:00", (window(22, 2),), False),
        ("2026-11-21T01:00", (window(22, 2, WEEKDAYS),), True),  # Saturday, but Friday's window
        ("2026-11-21T23:00", (window(22, 2, WEEKDAYS),), False),
        ("2026-11-18T10:00", (window(5, 5),), True),  # all day
        ("2026-11-18T10:00", (window(2, 4), window(9, 11)), True),
        ("2026-11-18T02:30", (window(2, 4, zone="America/New_York"),), False),
        ("2026-11-18T07:30", (window(2, 4, zone="America/New_York"),), True),
    ],
)
def test_a_window_is_open_or_not(when, windows, expected_result):
    assert is_open(windows, at(when)) is expected_result


@pytest.mark.parametrize(
    ("when", "windows", "opens"),
    [
        ("2026-11-18T10:00", (window(2, 4),), "2026-11-19T02:00"),
        ("2026-11-18T01:00", (window(2, 4), window(3, 5)), "2026-11-18T02:00"),
        ("2026-11-20T23:00", (window(2, 4, WEEKDAYS),), "2026-11-23T02:00"),
        ("2026-11-18T04:00", (window(2, 4, frozenset({2})),), "2026-11-25T02:00"),
    ],
)
def test_the_next_opening(when, windows, opens):
    assert next_opening(windows, at(when)) == at(opens)


def test_a_window_in_an_hour_that_a_day_lacks_waits_for_the_next_day():
    night = window(2, 3, zone="Europe/Berlin")  # on 2026-03-29 three o'clock comes right after two
    opens = next_opening((night,), at("2026-03-29T00:00", "Europe/Berlin"))
    assert datetime.fromtimestamp(opens, UTC) == datetime(2026, 3, 30, 0, tzinfo=UTC)
    assert is_open((night,), opens)


@pytest.mark.parametrize("now", ["2026-03-22T02:00", "2026-03-25T12:00", "2026-03-29T03:00"])
def test_a_weekly_window_that_falls_into_such_an_hour_comes_a_week_later(now):
    sundays = window(2, 3, days=frozenset({6}), zone="Europe/Berlin")
    opens = next_opening((sundays,), at(now, "Europe/Berlin"))
    assert datetime.fromtimestamp(opens, UTC) == datetime(2026, 4, 5, 0, tzinfo=UTC)


def test_a_window_over_midnight_of_such_a_day_ends_at_its_clock_time():
    night = window(22, 4, zone="Europe/Berlin")
    assert is_open((night,), at("2026-03-29T03:59", "Europe/Berlin"))
    assert not is_open((night,), at("2026-03-29T04:00", "Europe/Berlin"))
