import pytest

from zkdeployment.base.durations import age, ago, duration_seconds, given_seconds, signed_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90d", 90 * 86400),
        ("1h30m", 5400),
        ("45s", 45),
        ("1d1h1m1s", 90061),
        ("1w", 604800),
        ("+2D 3H", 183600),
        ("1500ms", 1.5),
        ("30m1h", None),
        ("", None),
        ("0h", None),
        ("36525d", 36525 * 86400),
        ("36525d1s", None),
        ("999999999w", None),
    ]
    + [(text, None) for text in ("h", "-1h", "1.5h", "1 h", "10", "+", "1ms1s", "²h", "9" * 20 + "d")],
)
def test_durations_are_read_as_people_write_them(text, seconds):
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("+1h30m", 5400),
        ("-20m", -1200),
        (" + 1w 2D ", 777600),
        ("+0h", None),
        ("1h", None),
        ("++1h", None),
        ("-+1h", None),
        ("-", None),
        ("", None),
        ("+soon", None),
    ],
)
def test_a_signed_duration_needs_its_sign(text, seconds):
    assert signed_duration(text) == seconds


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (90, 90),
        (1.5, 1.5),
        ("90", 90),
        ("1h30m", 5400),
        (" 6h ", 21600),
        *(
            (given, None)
            for given in (0, -1, "0", "1.5", "soon", True, None, [6], 36525 * 86400 + 1, 10**400, "9" * 400)
        ),
    ],
)
def test_documents_and_requests_have_seconds_or_durations(given, seconds):
    assert given_seconds(given) == seconds


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
