"""Which steps race with each other, and which other runs follow from a run."""

import pytest

from simulation.races import TIME, Step, alternatives, order


def step(channel, *, reads="", writes="", variants=()):
    return Step(channel, "", set(reads.split()), set(writes.split()), list(variants))


def others(steps, *kinds, first=0):
    order(steps)
    choices = [each.choice for each in steps]
    return [each.choices(choices) for each in alternatives(steps, first, kinds)]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([step("a", writes="x"), step("b", reads="y")], []),
        ([step("a", reads="x"), step("b", reads="x")], []),
        ([step("a", writes="x"), step("b", reads="x")], [("b",)]),
        ([step("a", reads="x"), step("b", writes="x")], [("b",)]),
        ([step("a", writes="x"), step("b", writes="x")], [("b",)]),
        ([step("a", writes="x"), step("a", reads="x")], []),
        ([step("a", writes="x"), step(TIME), step("b", reads="x")], []),
        # The second request of b races, and its first one comes before it in any order.
        ([step("a", writes="x"), step("b"), step("b", reads="x")], [("b", "b")]),
        # An independent step of another client that came before stays.
        ([step("c"), step("a", writes="x"), step("b", reads="x")], [("c", "b")]),
        # What is between two steps in any order prevents their race: only neighbours race.
        ([step("a", writes="x"), step("c", reads="x", writes="y"), step("b", reads="x y")], [("c",), ("a", "b")]),
    ],
)
def test_only_steps_that_race_lead_to_another_order(steps, expected):
    assert others(steps, "order") == expected


def test_a_fault_leads_to_a_run_with_only_what_came_before_it():
    steps = [
        step("a"),
        step(TIME),
        step("b", writes="y"),
        step("a", writes="x", variants=["is killed after it", "act stop"]),
    ]
    assert others(steps, "fault") == [("a", "time", "a: is killed after it")]
    assert others(steps, "act") == [("a", "time", "a: act stop")]
    assert others(steps, "fault", first=4) == []


def test_runs_that_differ_in_the_order_of_independent_steps_are_the_same():
    def keys(*steps):
        steps = [*steps, step(TIME), step("a", writes="x", variants=["is killed after it"])]
        order(steps)
        return [each.key for each in alternatives(steps, 0, {"fault"})]

    one, two, three = (step("a", writes="x"), step("b", writes="y"), step("c", writes="x"))
    assert keys(one, two) == keys(two, one)
    assert keys(one, three) != keys(three, one)
