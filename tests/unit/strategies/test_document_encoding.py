"""Strategies are kept as JSON."""

import dataclasses
import json
import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.strategies import example
from zkdeployment.base.names import NameKind, is_name
from zkdeployment.strategies.documents import strategy_from_json, strategy_to_json
from zkdeployment.strategies.strategy import (
    ALL_HOSTS,
    Criteria,
    Group,
    OnFailure,
    Pace,
    ParallelLimit,
    Selector,
    Strategy,
    Window,
)

NAMES = st.text(min_size=1, max_size=50).filter(partial(is_name, NameKind.TEXT))
PARTS = NAMES.map(str.strip).filter(lambda part: ":" not in part)
NUMBERS = st.none() | st.integers(0, 100)
SECONDS = st.none() | st.floats(0, 1e6)
MINUTES = st.integers(0, 24 * 60 - 1)

SELECTORS = st.builds(
    Selector,
    names=st.frozensets(NAMES, max_size=3),
    tags=st.frozensets(NAMES, max_size=2),
    labels=st.frozensets(st.tuples(PARTS, PARTS), max_size=2),
    racks=st.frozensets(NAMES, max_size=2),
)
WINDOWS = st.builds(
    Window,
    days=st.frozensets(st.integers(0, 6), min_size=1),
    start=MINUTES,
    end=MINUTES,
    zone=st.sampled_from(["UTC", "Europe/Berlin"]),
).filter(lambda window: window.start != window.end)
PACES = st.builds(
    Pace,
    max_parallel=st.none() | st.builds(ParallelLimit, st.integers(1, 100), st.booleans()),
    bake_time=st.floats(0, 1e6),
    prepare_timeout=SECONDS,
    deploy_timeout=SECONDS,
    progress_deadline=SECONDS,
    manual=st.booleans(),
    windows=st.lists(WINDOWS, max_size=2).map(tuple),
    healthy_checks=st.booleans(),
).filter(lambda pace: not pace.healthy_checks or pace.bake_time > 0)


@st.composite
def valid(draw):
    """Draw a valid strategy: groups depend on earlier ones."""
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    groups = []
    for number, name in enumerate(names):
        earlier = st.lists(st.sampled_from(names[:number]), unique=True) if number else st.just([])
        groups.append(
            Group(
                name,
                critical=draw(st.booleans()),
                depends_on=tuple(draw(earlier)),
                selectors=tuple(draw(st.lists(SELECTORS, max_size=2))),
                criteria=draw(st.builds(Criteria, NUMBERS, NUMBERS, NUMBERS)),
                pace=draw(PACES),
                require_hosts=draw(st.none() | st.integers(1, 100)),
            )
        )
    times = {"prepare_timeout": draw(SECONDS), "deploy_timeout": draw(SECONDS)}
    absent_after, on_failure = draw(st.just(300.0) | st.floats(0, 1e6)), draw(st.sampled_from(OnFailure))
    return Strategy(draw(NAMES), tuple(groups), absent_after=absent_after, on_failure=on_failure, **times)


@given(valid())
def test_every_strategy_is_read_back_unchanged(strategy):
    assert strategy_from_json(json.loads(json.dumps(strategy_to_json(strategy)))) == strategy


@pytest.mark.parametrize("strategy", [example(), ALL_HOSTS], ids=lambda strategy: strategy.name)
def test_strategies_of_the_real_world_are_read_back_unchanged(strategy):
    assert strategy_from_json(json.loads(json.dumps(strategy_to_json(strategy)))) == strategy


CIRCLE = strategy_to_json(Strategy("s", (Group("g", critical=True, depends_on=("g",)),)))


def with_group_values(**values):
    """Return a strategy of one group that has these values, as JSON."""
    group = {"name": "g", "critical": True, "depends_on": [], "selectors": [], **values}
    return {"schema": "shipyard/DeploymentStrategy/v1", "metadata": {"name": "s"}, "data": {"groups": [group]}}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        "text",
        {"metadata": {"name": "s"}, "data": {"groups": [3]}},
        CIRCLE,
        with_group_values(bake_time=math.nan),
        with_group_values(deploy_timeout=math.inf),
        with_group_values(max_parallel=math.nan),
        with_group_values(require_hosts=2.5),
    ],
)
def test_an_invalid_strategy_is_refused(value):
    with pytest.raises(ValueError, match="not a valid strategy"):
        strategy_from_json(value)


def test_a_count_that_is_written_as_a_float_is_an_integer():
    criteria = {"percent_successful_nodes": 90.0, "minimum_successful_nodes": 1.0, "maximum_failed_nodes": 3.0}
    value = with_group_values(max_parallel=2.0, require_hosts=4.0, success_criteria=criteria)
    (group,) = strategy_from_json(value).groups
    numbers = [group.pace.max_parallel.number, group.require_hosts, *dataclasses.astuple(group.criteria)]
    assert numbers == [2, 4, 90, 1, 3]
    assert {type(number) for number in numbers} == {int}


def test_a_strategy_without_the_newer_keys_is_kept_without_them():
    older_readers_refuse = {"require_hosts", "absent_after", "prepare_timeout", "deploy_timeout", "on_failure"}
    assert not any(key in json.dumps(strategy_to_json(example())) for key in older_readers_refuse)
