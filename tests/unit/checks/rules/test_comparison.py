"""Comparison of details: order in arrays and null keys do not matter, types do."""

import time

import pytest

from zkdeployment.checks.rules.workflow import same_details

SAME = [
    ({}, {}),
    ({"a": [1, 2]}, {"a": [2, 1]}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": [[1, 2], [3]]}, {"a": [[3], [2, 1]]}),
    ({"a": [{"x": [1, 2]}, {"x": [3]}]}, {"a": [{"x": [3]}, {"x": [2, 1]}]}),
    ({"a": {"b": {"c": ["x", "y"]}}}, {"a": {"b": {"c": ["y", "x"]}}}),
    ({"a": [1, "1", True, None, [], {}]}, {"a": [{}, [], None, True, "1", 1]}),
    ({"a": None}, {}),
    ({"a": {"b": None}}, {"a": {}}),
    ({"a": [{"b": None}]}, {"a": [{}]}),
    ({"a": 1}, {"a": 1.0}),
    ({"version": 0, "config_id": "x", "task": "rollout", "a": 1}, {"version": 1, "config_id": "y", "a": 1}),
]

DIFFERENT = [
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"a": True}),
    ({"a": 0}, {"a": False}),
    ({"a": [1]}, {"a": [True]}),
    ({"a": 1}, {"a": "1"}),
    ({"a": None}, {"a": 0}),
    ({"a": None}, {"a": ""}),
    ({"a": None}, {"a": []}),
    ({}, {"a": {}}),
    ({"a": []}, {"a": {}}),
    ({"a": []}, {"a": [None]}),
    ({"a": [1, 1, 2]}, {"a": [1, 2, 2]}),
    ({"a": [1, 1]}, {"a": [1]}),
    ({"a": [[1, 2], [3]]}, {"a": [[1], [2, 3]]}),
    ({"a": [1, 2]}, {"a": [12]}),
    ({"a": {"version": 0}}, {"a": {"version": 1}}),
    ({"a": {"task": "x"}}, {"a": {}}),
    ({"a": 2**53 + 1}, {"a": float(2**53)}),
    ({"a": "b"}, {"a": {"b": None}}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_these_details_are_the_same(one, other):
    assert same_details(one, other)
    assert same_details(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_these_details_are_different(one, other):
    assert not same_details(one, other)
    assert not same_details(other, one)


def test_values_that_are_not_of_json_are_refused():
    with pytest.raises(TypeError, match="JSON value"):
        same_details({"a": {1, 2}}, {"a": 1})


def test_long_arrays_are_compared_quickly():
    one = {"a": [{"name": str(number), "values": [number, number + 1]} for number in range(20_000)]}
    other = {"a": [{"values": [number + 1, number], "name": str(number)} for number in reversed(range(20_000))]}
    begun = time.process_time()
    assert same_details(one, other)
    assert time.process_time() - begun < 2
