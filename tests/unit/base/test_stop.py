from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.stop import end_of_output

SECRET = b"DB_PASSWORD=hunter2 and more\n"


@given(st.binary(), st.binary(), st.integers(1, 100))
def test_no_cut_of_an_output_shows_a_secret(before, after, most):
    shown = end_of_output(before + b"\n" + SECRET + after, most)
    assert "hunter2" not in shown
    assert len(shown.encode()) <= most


def test_a_line_that_begins_at_the_cut_is_shown():
    assert end_of_output(b"one\ntwo\n", 4) == "two\n"
    assert end_of_output(b"one\ntwo\n", 5) == "two\n"
    assert end_of_output(b"one\ntwo\n", 8) == "one\ntwo\n"


def test_a_carriage_return_ends_a_line():
    assert end_of_output(b"downloading " * 100 + b"\r98 %\r99 %", 12) == r"98 %\r99 %"


def test_escapes_do_not_make_a_short_output_a_long_one():
    assert end_of_output(b"\x1b[31mred", 9) == "1b[31mred"
    assert end_of_output(b"\xff" * 10 + b"end", 14).endswith("end")
