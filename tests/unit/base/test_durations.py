import pytest

from zkdeployment.base.durations import duration_seconds, signed_duration


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
