"""Usage of pools: leases of nodes, held nodes and waiting times."""

from __future__ import annotations

import pytest

from zkdeployment.pools.rules.snapshot import LeasedNode, NodesSpec, TenantSession
from zkdeployment.pools.rules.usage import (
    LeaseFilter,
    SessionUse,
    UsageFilter,
    UsageWindow,
    lease_history,
    pool_usage,
    session_use,
    usage_window,
)

HOUR, DAY = 3600.0, 86400.0
WINDOW = UsageWindow(10 * HOUR, 12.5 * HOUR, HOUR)
NAMES = {5: "ci", 6: "web"}

#: Two nodes of metal and one virtual node from 9:00 to 11:00, then one node of metal that is still held.
FIRST = SessionUse(1, 5, (("metal", 2), ("virtual", 1)), 9 * HOUR, 11 * HOUR, 9 * HOUR, 9 * HOUR + 40)
SECOND = SessionUse(2, 5, (("metal", 1),), 11 * HOUR, None, 11 * HOUR - 60, 11 * HOUR + 30)
OTHER = SessionUse(3, 6, (("metal", 1),), 10.5 * HOUR, 11.5 * HOUR, 10.5 * HOUR, 10.5 * HOUR + 20)


def test_a_tenant_has_the_average_number_of_nodes_of_each_period_and_the_most_at_once() -> None:
    usage = pool_usage([FIRST, SECOND, OTHER], NAMES, WINDOW, UsageFilter())
    found = [(row.tenant, row.pool, row.sessions, row.node_hours, row.most, row.held) for row in usage.tenants]
    assert found == [
        ("ci", "metal", 2, 3.5, 2, (2.0, 1.0, 1.0)),
        ("ci", "virtual", 1, 1.0, 1, (1.0, 0.0, 0.0)),
        ("web", "metal", 1, 1.0, 1, (0.5, 0.5, 0.0)),
    ]


def test_waiting_times_are_those_of_the_sessions_that_began_in_the_window() -> None:
    slow = SessionUse(4, 5, (("metal", 1),), 11 * HOUR, None, 11 * HOUR, 11 * HOUR + 400)
    waiting = SessionUse(5, 5, (("metal", 1),), 12 * HOUR, None, 12 * HOUR)
    old = SessionUse(6, 5, (("metal", 1),), 11 * HOUR, None)
    usage = pool_usage([FIRST, SECOND, slow, waiting, old], NAMES, WINDOW, UsageFilter(pool="metal"))
    (row,) = usage.tenants
    assert (row.waits, row.median_wait, row.longest_wait) == ((90.0, 400.0), 245.0, 400.0)
    (row,) = pool_usage([waiting], NAMES, WINDOW, UsageFilter()).tenants
    assert (row.waits, row.median_wait, row.longest_wait) == ((), None, None)


def test_sessions_outside_the_window_do_not_count() -> None:
    before = SessionUse(7, 5, (("metal", 1),), 1 * HOUR, 10 * HOUR)
    after = SessionUse(8, 5, (("metal", 1),), 12.5 * HOUR, None)
    assert pool_usage([before, after], NAMES, WINDOW, UsageFilter()).tenants == ()


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        (UsageFilter(tenant="web"), [("web", "metal")]),
        (UsageFilter(pool="virtual"), [("ci", "virtual")]),
        (UsageFilter(tenant="web", pool="virtual"), []),
    ],
)
def test_a_filter_selects_tenants_and_pools(wanted: UsageFilter, rows: list[tuple[str, str]]) -> None:
    usage = pool_usage([FIRST, OTHER], NAMES, WINDOW, wanted)
    assert [(row.tenant, row.pool) for row in usage.tenants] == rows


@pytest.mark.parametrize(
    ("back", "step", "periods"),
    [
        (DAY, HOUR, 25),
        (7 * DAY, 6 * HOUR, 29),
        (30 * DAY, DAY, 31),
        (90 * DAY, 3 * DAY, 31),
        (500 * DAY, 7 * DAY, 54),
    ],
)
def test_a_window_has_at_most_60_periods_that_begin_with_a_whole_one(
    back: float, step: float, periods: int
) -> None:
    now = 2000 * 7 * DAY + 1800.0
    window = usage_window(now - back, now)
    assert (window.step, len(window.periods)) == (step, periods)
    assert window.begin % step == 0
    assert window.periods[-1] == (now // step * step, now)


def test_a_window_that_begins_now_or_later_is_one_short_period() -> None:
    assert usage_window(7300.0, 7260.0).periods == ((7200.0, 7260.0),)
    assert usage_window(7200.0, 7200.0).periods == ((7200.0, 7200.0),)


def test_the_use_of_a_session_follows_from_its_record() -> None:
    session = TenantSession(
        id=9,
        tenant=5,
        specs=(NodesSpec("metal", 1), NodesSpec("virtual", 1)),
        nodes=(1, 2, 3),
        created_at=100,
        expires_at=900,
        retired_at=500,
        leased=(LeasedNode(1, "virtual"), LeasedNode(2, "metal"), LeasedNode(3, "metal")),
        requested_at=90,
        begun_at=130,
    )
    use = session_use(session)
    assert use == SessionUse(9, 5, (("metal", 2), ("virtual", 1)), 100, 500, 90, 130)
    assert use.wait == 40


def test_the_answer_for_programs_has_rounded_numbers_and_null_for_unknown_ones() -> None:
    third = SessionUse(1, 7, (("metal", 1),), 10 * HOUR, 10 * HOUR + 1200)
    usage = pool_usage([third], NAMES, UsageWindow(10 * HOUR, 11 * HOUR, HOUR), UsageFilter())
    assert usage.to_json() == {
        "since": 36000.0,
        "until": 39600.0,
        "step": 3600.0,
        "usage": [
            {
                "tenant": "tenant 7",
                "pool": "metal",
                "sessions": 1,
                "node_hours": 0.3333,
                "most_nodes": 1,
                "held": [0.3333],
                "begun": 0,
                "median_wait": None,
                "longest_wait": None,
            }
        ],
    }


MACHINE = LeasedNode(1, "metal", "n1", "192.0.2.1")
SPARE = LeasedNode(2, "metal", "n2")


def session(number: int, tenant: int, begin: float, end: float | None, *nodes: LeasedNode) -> TenantSession:
    return TenantSession(
        id=number,
        tenant=tenant,
        specs=(NodesSpec("metal", len(nodes)),),
        nodes=tuple(node.id for node in nodes),
        created_at=begin,
        expires_at=begin + 100,
        retired_at=end,
        leased=nodes,
        requested_by="ci",
        retired_by="ann@adm1",
    )


SESSIONS = [session(10, 5, 100, 150, MACHINE, SPARE), session(11, 6, 200, None, MACHINE)]
TENANTS = {5: "ci", 6: "web"}


@pytest.mark.parametrize(
    ("wanted", "leases"),
    [
        (LeaseFilter(), [(11, 1), (10, 1), (10, 2)]),
        (LeaseFilter(node="1"), [(11, 1), (10, 1)]),
        (LeaseFilter(node="n2"), [(10, 2)]),
        (LeaseFilter(node="192.0.2.1", tenant="ci"), [(10, 1)]),
        (LeaseFilter(tenant="web"), [(11, 1)]),
        (LeaseFilter(since=150), [(11, 1), (10, 1), (10, 2)]),
        (LeaseFilter(since=151), [(11, 1)]),
    ],
)
def test_leases_are_selected_the_newest_first(wanted: LeaseFilter, leases: list[tuple[int, int]]) -> None:
    found = lease_history(SESSIONS, TENANTS, wanted)
    assert [(lease.session.id, lease.node.id) for lease in found] == leases


def test_a_lease_names_its_holder_the_node_at_that_time_and_who_ended_it() -> None:
    (lease,) = lease_history(SESSIONS, {}, LeaseFilter(node="n2"))
    assert lease.to_json() == {
        "node": 2,
        "pool": "metal",
        "hostname": "n2",
        "ipaddr": None,
        "session": 10,
        "tenant": "tenant 5",
        "begin": 100,
        "end": 150,
        "expires_at": 200,
        "requested_by": "ci",
        "retired_by": "ann@adm1",
    }
