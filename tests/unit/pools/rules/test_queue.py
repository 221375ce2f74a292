"""The queue of requests: its order, the reasons of waits, and invariants for all requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import make_user
from support.pools.builders import make_node, make_request
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism
from zkdeployment.pools.rules.node import NodeState, PoolNode
from zkdeployment.pools.rules.queue import (
    MOST_OF_TENANT,
    MOST_WAITING,
    OVERDUE,
    LendingFacts,
    RequestProblem,
    RequestQueue,
    Reservation,
    ended_waits,
    grant_at_once,
    grants,
    outdated_waits,
    queueing_problem,
    request_queue,
)
from zkdeployment.pools.rules.snapshot import (
    KEPT,
    NodesSpec,
    PoolSnapshot,
    SessionRequest,
    TenantSession,
    in_queue_again,
    read_properties,
)
from zkdeployment.service.users.user import Role, TenantLimits

if TYPE_CHECKING:
    from collections.abc import Callable

QUOTA = 4
WEB = NodePool("web", RoleMechanism("spare", "ci"), fill_level=4)
POOLS = PoolConfiguration({"web": WEB, "db": replace(WEB, name="db")}, TenantLimits(node_quota=QUOTA))
TENANTS = {
    number: make_user(f"t{number}", Role.TENANT, id=number, ssh_key="ssh-ed25519 AAAA") for number in (1, 2, 3)
}


def waits(number: int, tenant: int = 1, at: float = 0.0, until: float = 1e6, **pools: int) -> SessionRequest:
    specs = tuple(NodesSpec(pool, quantity) for pool, quantity in pools.items())
    return SessionRequest(id=number, tenant=tenant, specs=specs, created_at=at, expires_at=until)


def lease(number: int, tenant: int, **pools: int) -> TenantSession:
    specs = tuple(NodesSpec(pool, quantity) for pool, quantity in pools.items())
    nodes = tuple(range(1000 * number, 1000 * number + sum(pools.values())))
    return TenantSession(id=number, tenant=tenant, specs=specs, nodes=nodes, created_at=0, expires_at=1e6)


def queue(*requests: SessionRequest, sessions: tuple[TenantSession, ...] = (), now: float = 100.0) -> RequestQueue:
    read = PoolSnapshot(
        sessions={session.id: session for session in sessions}, waiting={found.id: found for found in requests}
    )
    return request_queue(LendingFacts(read, POOLS, TENANTS, now))


def having(**ready: int) -> Callable[[SessionRequest], bool]:
    return lambda request: request.wanted <= Counter(ready)


def granted(found: RequestQueue, is_ready: Callable[[SessionRequest], bool]) -> int | None:
    return next((request.id for request in found.grants(is_ready)), None)


def next_grant(read: PoolSnapshot, now: float) -> tuple[SessionRequest, Reservation] | None:
    return next(grants(LendingFacts(read, POOLS, TENANTS, now)), None)


def test_the_tenant_with_the_smallest_share_of_its_quota_comes_first() -> None:
    requests = (waits(1, tenant=1, web=1), waits(2, tenant=2, at=50, web=1))
    assert granted(queue(*requests), having(web=1)) == 1
    assert granted(queue(*requests, sessions=(lease(9, 1, web=1),)), having(web=1)) == 2


def test_requests_of_a_tenant_get_nodes_of_a_pool_in_their_order() -> None:
    requests = (waits(1, web=2), waits(2, at=1, web=1), waits(3, at=2, db=1))
    assert granted(queue(*requests), having(web=1)) is None
    assert granted(queue(*requests), having(web=1, db=1)) == 3
    assert granted(queue(*requests), having(web=2)) == 1


def test_a_request_that_has_waited_long_blocks_its_pools_for_later_ones() -> None:
    large, small = waits(1, tenant=1, web=3, db=1), waits(2, tenant=2, at=50, db=1)
    assert granted(queue(large, small), having(web=2, db=1)) == 2
    late = queue(large, small, now=OVERDUE)
    assert granted(late, having(web=2, db=1)) is None
    assert granted(late, having(web=3, db=1)) == 1


def test_requests_that_have_waited_long_come_first_by_age_and_the_others_by_share() -> None:
    requests = (
        waits(1, tenant=1, at=100, web=1),  # with the largest share
        waits(2, tenant=2, at=150, db=1),
        waits(3, tenant=3, at=200, web=1),
        waits(4, tenant=3, at=201, db=4),  # above the quota
    )
    sessions = (lease(8, 1, web=3), lease(9, 2, web=1))

    def order(now: float) -> list[int]:
        return [found.id for found in queue(*requests, sessions=sessions, now=now).requests]

    assert order(99 + OVERDUE) == [3, 4, 2, 1]
    assert order(100 + OVERDUE) == [1, 3, 4, 2]
    assert order(150 + OVERDUE) == [1, 2, 3, 4]
    assert order(201 + OVERDUE) == [1, 2, 3, 4]


def test_a_request_has_waited_long_since_it_was_made() -> None:
    large, small = waits(1, tenant=1, at=400, web=3), waits(2, tenant=2, at=450, web=1)
    assert granted(queue(large, small, now=399 + OVERDUE), having(web=1)) == 2
    assert granted(queue(large, small, now=400 + OVERDUE), having(web=1)) is None


def test_a_request_above_a_quota_blocks_no_other_tenant() -> None:
    full, other = waits(1, tenant=1, web=2), waits(2, tenant=2, at=50, web=1)
    sessions = (lease(9, 1, web=3),)
    late = queue(full, other, sessions=sessions, now=10 * OVERDUE)
    assert granted(late, having(web=2)) == 2


NOW = 1000.0
LARGE_SHARE = (lease(9, 2, web=3),)


@pytest.mark.parametrize(
    ("waiting", "sessions", "wanted", "answer"),
    [
        ((), (), {"web": 2}, (1, 2)),
        ((), (), {"web": 3}, RequestProblem.TOO_FEW),
        ((), (), {"web": 5}, RequestProblem.QUOTA),
        ((waits(7, 2, NOW - 1, db=1),), (), {"web": 1}, (1,)),
        ((waits(7, 2, NOW - 1, web=1),), (), {"web": 1}, RequestProblem.TOO_FEW),  # the older one gets nodes now
        ((waits(7, 2, NOW, web=1),), (), {"web": 1}, RequestProblem.TOO_FEW),  # of the same moment
        ((waits(7, 2, NOW - 1, web=1),), (lease(9, 2, web=3),), {"web": 1}, (1,)),  # its tenant has a larger share
        ((waits(7, 2, NOW - 1, web=3),), (), {"web": 1}, (1,)),  # the older one lacks nodes
        ((waits(7, 2, NOW - OVERDUE, web=3),), (), {"web": 1}, RequestProblem.TOO_FEW),
        ((waits(7, 1, NOW - 1, web=3),), (), {"web": 1}, RequestProblem.TOO_FEW),  # of the same tenant
        ((waits(7, 1, NOW - 1, db=4),), (), {"web": 1}, RequestProblem.QUOTA),
        ((waits(7, 2, NOW - OVERDUE, web=1).ended("cancelled", NOW),), (), {"web": 2}, (1, 2)),
    ],
)
def test_a_request_that_does_not_wait_gets_nodes_at_once_if_the_queue_would_give_them_now(
    waiting: tuple[SessionRequest, ...],
    sessions: tuple[TenantSession, ...],
    wanted: dict[str, int],
    answer: tuple[int, ...] | RequestProblem,
) -> None:
    read = PoolSnapshot(
        {number: ready(number, "web") for number in (1, 2)},
        {session.id: session for session in sessions},
        waiting={request.id: request for request in waiting},
    )
    request = waits(0, 1, NOW, NOW, **wanted)
    given = grant_at_once(request, LendingFacts(read, POOLS, TENANTS, NOW))
    assert answer == (given.session.nodes if isinstance(given, Reservation) else given.problem)
    assert not isinstance(given, Reservation) or given.session.waiting_until is None


def test_a_request_has_a_place_for_each_pool_and_names_a_quota_that_it_exceeds() -> None:
    requests = (waits(1, tenant=1, web=4), waits(2, tenant=2, web=1, db=2), waits(3, tenant=1, at=5, web=1))
    places = queue(*requests).places({"web": 2})
    assert str(places[1]) == "waiting: 1st of 3 for pool web; 2 nodes ready of 4 wanted"
    assert str(places[2]) == (
        "waiting: 2nd of 3 for pool web; 2 nodes ready of 1 wanted;"
        " 1st of 1 for pool db; 0 nodes ready of 2 wanted"
    )
    assert "requested nodes (1) + current allocation (4) = 5 > 4" in str(places[3])


def test_a_request_with_properties_gets_only_matching_nodes_and_without_such_nodes_blocks_no_other_request() -> (
    None
):
    large = NodesSpec("web", 1, read_properties(["memory>=16"]))
    demanding = replace(waits(1, tenant=1, web=1), specs=(large,))
    small = replace(ready(1, "web"), data={"memory": 8})
    read = PoolSnapshot({1: small}, waiting={1: demanding, 2: waits(2, tenant=2, at=5, web=1)})
    late = 10 * OVERDUE
    outcome = next_grant(read, late)
    assert outcome is not None
    assert outcome[0].id == 2
    assert "no node of the pool web has memory>=16" in str(
        request_queue(LendingFacts(read, POOLS, TENANTS, late)).places({})[1]
    )
    leased = replace(ready(3, "web"), state=NodeState.DEPLOYED, data={"memory": 32})
    assert next_grant(replace(read, nodes={1: small, 3: leased}), late) is None
    outcome = next_grant(replace(read, nodes={1: small, 3: leased}), 10)
    assert outcome is not None
    assert outcome[0].id == 2  # the first request waits for a node that fits, not long enough to block others
    fit = replace(leased, state=NodeState.READY)
    outcome = next_grant(replace(read, nodes={1: small, 3: fit}), late)
    assert outcome is not None
    assert (outcome[0].id, outcome[1].session.nodes) == (1, (3,))


@pytest.mark.parametrize(
    ("specs", "is_unmet"),
    [
        ([NodesSpec("web", 2, read_properties(["memory>=16"]))], True),
        ([NodesSpec("web", 1, read_properties(["memory>=16"]))] * 2, True),
        ([NodesSpec("web", 1, read_properties(["memory>=16", "hostname=n1"]))], True),
        ([NodesSpec("web", 2, read_properties(["memory>=4"]))], False),
    ],
)
def test_a_request_that_too_few_nodes_can_meet_blocks_no_other_request_and_its_end_names_the_reason(
    specs: list[NodesSpec], is_unmet: bool
) -> None:
    demanding = replace(waits(1, tenant=1, until=10 * OVERDUE), specs=tuple(specs))
    nodes = {
        number: replace(ready(number, "web"), hostname=f"n{number}", data={"memory": memory})
        for number, memory in ((1, 8), (2, 32))
    }
    nodes[1] = replace(nodes[1], state=NodeState.DEPLOYED)
    read = PoolSnapshot(nodes, waiting={1: demanding, 2: waits(2, tenant=2, at=5, web=1)})
    late = 10 * OVERDUE
    has_grant = next_grant(read, late) is not None
    assert has_grant is is_unmet
    (ended,) = ended_waits(read, POOLS, TENANTS, late)
    assert ended.outcome is not None
    assert ("with memory>=16" in ended.outcome) is is_unmet


def test_nodes_that_are_being_provisioned_may_meet_the_demands_that_another_node_meets() -> None:
    demanding = replace(waits(1, web=2), specs=(NodesSpec("web", 2, read_properties(["memory>=16"])),))
    nodes = {
        1: replace(ready(1, "web"), data={"memory": 32}),
        2: make_node(2, NodeState.PROVISIONING, pool="web"),
    }
    read = PoolSnapshot(nodes, waiting={1: demanding, 2: waits(2, tenant=2, at=5, web=1)})
    assert next_grant(read, 10 * OVERDUE) is None


def problem(given: Any) -> RequestProblem | None:
    return None if given is None else given.problem


def test_requests_that_can_never_be_served_do_not_wait_and_the_queue_is_bounded() -> None:
    def ask(*present: SessionRequest, **pools: int) -> RequestProblem | None:
        specs = tuple(NodesSpec(pool, quantity) for pool, quantity in pools.items())
        return problem(queueing_problem(make_request(0, TENANTS[1], *specs), TENANTS[1], POOLS, present))

    assert ask(web=4) is None
    assert ask(web=3, db=2) is RequestProblem.QUOTA
    assert ask(wbe=1) is RequestProblem.NO_POOL
    unknown = queueing_problem(make_request(0, TENANTS[1], NodesSpec("wbe", 1)), TENANTS[1], POOLS, ())
    assert unknown is not None
    assert unknown.message == "there is no pool 'wbe'; the pools are: db, web"
    admin = replace(TENANTS[1], role=Role.ADMIN)
    many = make_request(0, admin, NodesSpec("web", 5))
    assert problem(queueing_problem(many, admin, POOLS, ())) is RequestProblem.TOO_MANY
    own = [waits(number, web=1) for number in range(MOST_OF_TENANT)]
    assert ask(*own, web=1) is RequestProblem.QUEUE_FULL
    assert ask(*own[1:], own[0].ended("cancelled", 5), web=1) is None
    others = [waits(number, tenant=2, web=1) for number in range(MOST_WAITING)]
    assert ask(*others, web=1) is RequestProblem.QUEUE_FULL
    assert ask(*others[1:], web=1) is None


def test_the_record_of_a_request_stays_for_a_while_after_its_end() -> None:
    ended = waits(1, web=1).ended("cancelled", 5)
    read = PoolSnapshot(waiting={1: ended, 2: waits(2, web=1)})
    assert list(outdated_waits(read, 4 + KEPT)) == []
    assert list(outdated_waits(read, 5 + KEPT)) == [ended]


def test_waits_end_at_their_limit_without_a_key_a_pool_or_its_level_and_with_their_tenant() -> None:
    def ended(request: SessionRequest, **values: Any) -> list[str | None]:
        tenants = {1: replace(TENANTS[1], **values)}
        read = PoolSnapshot(waiting={request.id: request})
        return [found.outcome for found in ended_waits(read, POOLS, tenants, 100)]

    assert ended(waits(1, web=1)) == []
    assert ended(waits(1, until=100, web=1)) == ["the nodes did not become ready within 100 s"]
    assert ended(waits(1, wbe=1)) == ["there is no pool 'wbe' any more"]
    assert ended(waits(1, web=5)) == ["5 of web requested, but the pool keeps at most 4 ready"]
    assert ended(waits(1, web=1), retired_at=5.0) == ["the tenant t1 is retired"]
    assert ended(waits(1, web=1), ssh_key=None) == ["the tenant t1 has no SSH key"]
    assert ended(waits(1, until=100, web=1).ended("cancelled", 50)) == []


def test_a_request_waits_again_with_its_age_after_a_session_that_did_not_begin_three_times_at_most() -> None:
    session = replace(lease(7, 1, web=1), requested_at=5.0, waiting_until=50.0, failures=1)
    (again,) = in_queue_again(session, "boom", 20)
    assert (again.id, again.created_at, again.expires_at, again.failures) == (7, 5.0, 50.0, 2)
    assert again.is_waiting
    (last,) = in_queue_again(replace(session, failures=2), "boom", 20)
    assert (last.outcome, last.ended_at) == ("boom", 20)
    assert in_queue_again(lease(7, 1, web=1), "boom", 20) == ()


def ready(number: int, pool: str) -> PoolNode:
    return make_node(number, changed=0, pool=pool)


QUANTITIES = st.dictionaries(st.sampled_from(["web", "db"]), st.integers(1, 2), min_size=1)
ARRIVALS = st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1, 2, 3]), QUANTITIES), max_size=25)
STEP, DURATION = 60.0, 300.0


@given(ARRIVALS)
def test_no_request_starves_or_exceeds_a_quota_and_nodes_are_idle_only_by_the_rule(arrivals: list[Any]) -> None:
    waiting = {
        number: waits(number, tenant, moment * STEP, 1e9, **pools)
        for number, (moment, tenant, pools) in enumerate(sorted(arrivals, key=lambda found: found[0]), 1)
    }
    sessions: dict[int, TenantSession] = {}
    free = Counter(web=4, db=4)
    now = 0.0
    while waiting or sessions:
        for session in [found for found in sessions.values() if found.created_at + DURATION <= now]:
            free.update(Counter({spec.pool: spec.quantity for spec in session.specs}))
            del sessions[session.id]
        while True:
            present = {number: found for number, found in waiting.items() if found.created_at <= now}
            nodes = {number: ready(number, pool) for number, pool in enumerate(Counter(free).elements(), 1)}
            read = PoolSnapshot(nodes, sessions, waiting=present)
            outcome = next_grant(read, now)
            if outcome is None:
                _check_idle(read, free, now)
                break
            request, given = outcome
            assert isinstance(given, Reservation)
            older = sum(found.created_at <= request.created_at for found in present.values())
            own = sum(found.tenant == request.tenant for found in arrivals_of(waiting, now))
            assert now - request.created_at <= OVERDUE + (older + own + QUOTA + 1) * (DURATION + STEP)
            del waiting[request.id]
            sessions[request.id] = given.session
            free -= request.wanted
            held = sum(len(session.nodes) for session in sessions.values() if session.tenant == request.tenant)
            assert held <= QUOTA
        now += STEP
        assert now < 1e6


def arrivals_of(waiting: dict[int, SessionRequest], now: float) -> list[SessionRequest]:
    return [found for found in waiting.values() if found.created_at <= now]


def _check_idle(read: PoolSnapshot, free: Counter[str], now: float) -> None:
    """Check that each request that waits lacks nodes, or exceeds its quota, or comes after another one."""
    places = request_queue(LendingFacts(read, POOLS, TENANTS, now)).places(free)
    before: list[SessionRequest] = []
    for place in places.values():
        request = place.request
        lacks = any(free[pool] < quantity for pool, quantity in request.wanted.items())
        is_behind = any(
            request.wanted.keys() & other.wanted.keys()
            and (other.tenant == request.tenant or now - other.created_at >= OVERDUE)
            for other in before
        )
        assert lacks or is_behind or place.excess
        if not place.excess:
            before.append(request)
