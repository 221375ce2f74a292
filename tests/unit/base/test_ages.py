import pytest

from zkdeployment.base.durations import age, ago


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (119, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (9 * 3600 + 120, "9 h 2 min"),
        (10 * 3600 + 120, "10 h"),
        (86400 + 7200, "1 d 2 h"),
        (400 * 86400, "400 d"),
    ],
)
def test_ages_are_shown_in_the_largest_units(seconds, text):
    assert age(seconds) == text


def test_a_time_is_shown_relative_to_now():
    assert ago(100.0, 400.0) == "5 min ago"
    assert ago(0.0, 400.0) == "at an unknown time"
