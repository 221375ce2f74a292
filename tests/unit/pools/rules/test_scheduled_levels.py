"""Levels that depend on the time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from support.pools.builders import make_node
from zkdeployment.pools.api import pool_values
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism, ScheduledLevel
from zkdeployment.pools.rules.listing import pool_views
from zkdeployment.pools.rules.snapshot import FillingRecord, PoolSnapshot
from zkdeployment.pools.rules.work import PoolFacts, PoolSources, at_time, next_steps, surplus
from zkdeployment.strategies.strategy import Window

WORK = ScheduledLevel(Window(frozenset(range(5)), 8 * 60, 18 * 60, "Europe/Berlin"), 5)
WEEKEND = ScheduledLevel(Window(frozenset({5, 6}), 0, 0, "Europe/Berlin"), 0)
POOL = NodePool("web", RoleMechanism("spare", "ci"), fill_level=2, schedule=(WORK, WEEKEND))
CONFIGURATION = PoolConfiguration({"web": POOL})


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp()


@pytest.mark.parametrize(
    ("time", "level"),
    [
        ("2027-01-04 07:59", 2),
        ("2027-01-04 08:00", 5),
        ("2027-01-04 17:59", 5),
        ("2027-01-04 18:00", 2),
        ("2027-01-09 12:00", 0),
        ("2027-07-05 08:00", 5),
    ],
)
def test_the_first_open_window_decides_the_level_in_its_time_zone(time: str, level: int) -> None:
    assert at_time(CONFIGURATION, moment(time)).pools["web"].fill_level == level


def test_the_level_in_force_is_recorded_and_all_others_show_it() -> None:
    now = moment("2027-01-04 08:00")
    facts = PoolFacts(PoolSources(at_time(CONFIGURATION, now)), PoolSnapshot(), now)
    (step,) = (step for step in next_steps(facts) if step.change.filling)
    record = step.change.filling["web"]
    assert record.level == 5
    recorded = PoolSnapshot(filling={"web": record})
    (view,) = pool_views(CONFIGURATION, recorded)
    assert view.level == pool_values(CONFIGURATION.pools["web"], recorded)["fill_level"] == 5
    assert view.shortage is not None
    assert view.shortage.missing == 5
    (plain,) = pool_views(CONFIGURATION, PoolSnapshot(filling={"web": FillingRecord()}))
    assert plain.level == 2


def test_at_a_level_of_zero_the_ready_nodes_leave_the_pool() -> None:
    node = make_node(1, changed=0.0, pool="web", host="h1")
    idle = at_time(CONFIGURATION, moment("2027-01-09 12:00")).pools["web"]
    assert surplus(idle, [node], ()) == (node,)


def test_the_most_nodes_that_a_pool_keeps_do_not_depend_on_the_time() -> None:
    pool = replace(POOL, fill_level=7, values={"fill-level": 7})
    asleep = at_time(PoolConfiguration({"web": pool}), moment("2027-01-09 12:00")).pools["web"]
    assert (asleep.kept, asleep.most_kept, pool.most_kept) == (0, 7, 7)
