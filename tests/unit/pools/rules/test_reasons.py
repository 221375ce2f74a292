"""The shortening of long texts."""

from __future__ import annotations

import pytest

from zkdeployment.pools.rules.node import shortened, shown


@pytest.mark.parametrize(
    ("text", "longest", "left"),
    [
        ("0123456789", 10, "0123456789"),
        ("0123456789a", 10, "01 [...] a"),
        ("begin" + 100 * "-" + "finis", 17, "begin [...] finis"),
        ("", 10, ""),
    ],
)
def test_a_long_text_keeps_its_beginning_and_its_end(text: str, longest: int, left: str) -> None:
    assert shortened(text, longest) == left


def test_a_long_value_is_shown_in_part() -> None:
    assert shown({"a": 1}) == "{'a': 1}"
    assert len(shown(["x" * 100] * 1000)) == 200
