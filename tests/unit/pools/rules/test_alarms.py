"""Alarms of pools: not while a pool is filled normally, and as severe as the lack is old."""

from __future__ import annotations

import pytest
from nagiosplugin import Range

from support.pools.builders import make_node
from zkdeployment.fleet.views.fleet_health import AlarmTimes
from zkdeployment.fleet.views.health import Health, HealthLimits
from zkdeployment.pools.documents import NodePool, RoleMechanism
from zkdeployment.pools.rules.listing import PoolShortage, PoolsStatus, PoolView, ShortageCause, pool_alarms
from zkdeployment.pools.rules.node import NodeState, PoolNode, fail

NOW = 100_000.0
LIMITS = HealthLimits(Range("15"), Range("30"))
POOL = NodePool("web", RoleMechanism("spare", "ci"), fill_level=2)


def lacking(cause: ShortageCause, minutes: float | None = None, failures: int = 0) -> PoolView:
    since = None if minutes is None else NOW - 60 * minutes
    shortage = PoolShortage(1, cause, since, "the reason")
    return PoolView(pool=POOL, states={NodeState.READY: 1}, shortage=shortage, failures=failures)


def alarms(
    *pools: PoolView,
    failed: tuple[PoolNode, ...] = (),
    workers: tuple[str, ...] = ("w1",),
    published: float = 60.0,
) -> list[tuple[Health, str]]:
    status = PoolsStatus(pools, failed, workers)
    return [*pool_alarms(status, AlarmTimes(NOW, published, LIMITS))]


def below(duration: str) -> str:
    return f"pool web is below its level for {duration}, 1 of 2 ready: the reason"


@pytest.mark.parametrize(
    ("pool", "found"),
    [
        (lacking(ShortageCause.FILLING, 600), []),
        (lacking(ShortageCause.FAILURES, 14, failures=1), []),
        (lacking(ShortageCause.FAILURES, 2, failures=2), [(Health.WARNING, below("2 min"))]),
        (lacking(ShortageCause.FAILURES, 31, failures=1), [(Health.CRITICAL, below("31 min"))]),
        (lacking(ShortageCause.WAITING, 16), [(Health.WARNING, below("16 min"))]),
        (lacking(ShortageCause.WAITING, 31), [(Health.CRITICAL, below("31 min"))]),
        (lacking(ShortageCause.NO_NODES, 14), []),
        (lacking(ShortageCause.NO_NODES, 600), [(Health.WARNING, below("10 h"))]),
        (PoolView(pool=POOL, states={NodeState.READY: 2}), []),
    ],
)
def test_a_pool_below_its_level_is_a_problem_unless_it_is_filled(
    pool: PoolView, found: list[tuple[Health, str]]
) -> None:
    assert alarms(pool) == found


def test_a_lack_of_unknown_age_is_as_old_as_the_publication() -> None:
    pool = lacking(ShortageCause.WAITING)
    assert alarms(pool, published=60) == []
    assert alarms(pool, published=3600) == [(Health.CRITICAL, below("1 h"))]


@pytest.mark.parametrize(
    ("pools", "found"),
    [
        ((), []),
        ((PoolView(pool=NodePool("attic", POOL.mechanism), states={}),), []),
        ((PoolView(pool=POOL, states={}),), [(Health.WARNING, "no worker of the pools runs")]),
        (
            (lacking(ShortageCause.NO_WORKER, 1), lacking(ShortageCause.NO_WORKER, 40)),
            [(Health.CRITICAL, "no worker of the pools runs; below their levels: web, web")],
        ),
        (
            (lacking(ShortageCause.NO_WORKER),),
            [(Health.WARNING, "no worker of the pools runs; below their levels: web")],
        ),
    ],
)
def test_pools_with_a_level_need_a_worker(pools: tuple[PoolView, ...], found: list[tuple[Health, str]]) -> None:
    assert alarms(*pools, workers=()) == found


def test_failed_nodes_are_a_problem_until_an_operator_handles_them() -> None:
    node = make_node(7, NodeState.DEPROVISIONING, changed=0, pool="web", hostname="n7.example.com")
    failed = fail(node, "the switch is off", 1)
    assert alarms(failed=(failed,)) == [
        (Health.WARNING, "1 node of pools failed: n7.example.com (web): the switch is off")
    ]
