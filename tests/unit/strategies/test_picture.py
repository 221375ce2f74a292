"""The picture of a rollout: layers, widths, segments, and the pace of the group under way."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.strategies import active_rollout, advanced_rollout, begun_rollout, group, plain_hosts, strategy
from zkdeployment.strategies.picture import failure_budget, pace_facts, picture
from zkdeployment.strategies.strategy import Pace, ParallelLimit
from zkdeployment.strategies.views import rollout_status

NOW = 2_000.0


def drawn(state):
    groups = rollout_status(state, led=True, now=NOW).groups
    return picture(state, groups), {each.name: each for each in groups}


def box(found, name):
    return next(each for each in found.boxes if each.name == name)


def diamond(*names, hosts="abcdefgh"):
    groups = [group("first", hosts="a"), *(group(name, "first", hosts="bcd") for name in names)]
    return begun_rollout(strategy(*groups, group("last", *names)), plain_hosts(hosts))


def test_a_group_stands_below_all_groups_on_which_it_depends():
    found, _ = drawn(diamond("left", "right"))
    first, left, right, last = (box(found, name) for name in ("first", "left", "right", "last"))
    assert first.y < left.y == right.y < last.y
    assert left.x + left.width <= right.x or right.x + right.width <= left.x
    assert len(found.lines) == 4
    assert found.height == last.y + last.height


def test_a_dependency_that_skips_a_layer_passes_beside_its_groups():
    groups = (group("a", hosts="a"), group("b", "a", hosts="b"), group("c", "a", "b", hosts="c"))
    found, _ = drawn(begun_rollout(strategy(*groups), plain_hosts("abc")))
    passed = box(found, "b")
    vertical = [line for line in found.lines if line.x1 == line.x2 and line.y1 == passed.y]
    assert [line.y2 for line in vertical] == [passed.y + passed.height]
    assert not passed.x < vertical[0].x1 < passed.x + passed.width


def test_groups_are_as_wide_as_their_hosts_and_never_too_narrow_for_a_name():
    groups = (group("few", hosts="a"), group("many", "few"))
    found, _ = drawn(begun_rollout(strategy(*groups), plain_hosts([f"h{number}" for number in range(1000)])))
    assert box(found, "many").width == 100.0
    assert 5 < box(found, "few").width < 20


def test_the_bar_has_a_segment_for_each_state_of_hosts():
    state = diamond("middle")
    state = advanced_rollout(state, until="middle")
    state = active_rollout(state, granted="bcd", done="b", failed="c")
    state = replace(state, absent={"h": 1.0})
    found, _ = drawn(state)
    assert [(part.kind, round(part.width)) for part in box(found, "middle").segments] == [
        ("deploying", 33),
        ("prepared", 33),
        ("failed", 33),
    ]
    assert {part.kind for part in box(found, "last").segments} >= {"converged", "absent"}
    assert box(found, "middle").text == "0 of 3, 1 failed"


def test_groups_that_ended_are_small_and_their_lines_are_whole():
    state = advanced_rollout(diamond("middle"), until="middle")
    found, _ = drawn(state)
    assert box(found, "first").height < box(found, "middle").height
    assert [line.is_open for line in found.lines] == [False, True]


def test_a_group_under_way_tells_its_rate_and_the_time_left():
    wide = replace(group("all", percent_successful=75), pace=Pace(max_parallel=ParallelLimit(2)))
    state = begun_rollout(strategy(wide), plain_hosts("abcdefgh"))
    state = active_rollout(state, granted="abcd", done="ab")
    active = state.active_phase
    assert active is not None
    reports = {host: replace(report, time=active.begun + 120) for host, report in active.reports.items()}
    granted = dict.fromkeys(active.granted, active.begun)
    state = replace(state, active_phase=replace(active, reports=reports, granted=granted))
    _, groups = drawn(state)
    facts = pace_facts(state, groups["all"], active.begun + 240)
    assert facts == (
        "prepare for 4 min",
        "30 hosts per hour",
        "about 6 min left",
        "2 more hosts may fail",
    )


def test_the_bake_time_counts_down():
    group_ = replace(group("all"), pace=Pace(bake_time=600))
    state = begun_rollout(strategy(group_), plain_hosts("ab"))
    state = active_rollout(state, granted="ab", done="ab", baking=NOW - 60)
    _, groups = drawn(state)
    assert "bake time ends in 9 min" in pace_facts(state, groups["all"], NOW)


@pytest.mark.parametrize(
    ("criteria", "budget"),
    [
        ({}, None),
        ({"percent_successful": 100}, 0),
        ({"percent_successful": 75}, 2),
        ({"minimum_successful": 5}, 3),
        ({"maximum_failed": 1}, 1),
        ({"percent_successful": 50, "maximum_failed": 2}, 2),
    ],
)
def test_the_failure_budget_is_what_the_criteria_leave(criteria, budget):
    state = begun_rollout(strategy(group("all", **criteria)), plain_hosts("abcdefgh"))
    _, groups = drawn(state)
    assert failure_budget(state, groups["all"]) == budget


@st.composite
def rollouts(draw):
    count = draw(st.integers(1, 12))
    groups = []
    for number in range(count):
        parents = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else ()
        hosts = draw(st.text("abcdefgh", max_size=5))
        groups.append(group(f"g{number}", *(f"g{parent}" for parent in sorted(parents)), hosts=hosts))
    return begun_rollout(strategy(*groups), plain_hosts("abcdefgh"))


@given(rollouts())
def test_no_two_groups_of_any_strategy_overlap_and_every_dependency_leads_down(state):
    found, groups = drawn(state)
    for one in found.boxes:
        assert one.x >= 0
        assert one.x + one.width <= 100.1
        for other in found.boxes:
            if one.name < other.name and one.y == other.y:
                assert one.x + one.width <= other.x + 0.05 or other.x + other.width <= one.x + 0.05
        assert all(box(found, parent).y < one.y for parent in groups[one.name].depends_on)
    assert all(line.y1 <= line.y2 for line in found.lines)
