import json

import pytest

from zkdeployment.base.json_values import DEEPEST, json_problem, readable


def nested(depth):
    value = 1
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


@pytest.mark.parametrize(
    "value",
    [None, True, 1, -(2**63), 2**63 - 1, 1.5, "text \U0001f600", [], {}, {"a": [1, {"b": "c"}]}, nested(DEEPEST)],
)
def test_a_value_within_the_bounds_has_no_problem_and_stays_unchanged(value):
    assert json_problem(value) is None
    assert readable(value) == value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (nested(DEEPEST + 1), "levels"),
        (nested(5000), "levels"),
        ({"a": ["\ud800"]}, "surrogate"),
        ({"\udc00": 1}, "surrogate"),
        ([2**63], "64 bits"),
        (-(2**63) - 1, "64 bits"),
        ([float("nan")], "finite"),
        (float("-inf"), "finite"),
    ],
)
def test_a_value_beyond_the_bounds_has_a_problem(value, problem):
    assert problem in (json_problem(value) or "")


def test_a_kept_value_beyond_the_bounds_can_be_read():
    assert readable({"\ud800a": ["b\udcff"]}) == {"?a": ["b?"]}
    shown = readable(nested(5000))
    assert json_problem(shown) is None
    assert json.dumps(shown).count("a") == DEEPEST // 2
