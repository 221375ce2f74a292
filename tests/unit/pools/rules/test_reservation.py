"""Requests: the quota, the choice of nodes, the end of sessions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.builders import make_user
from support.pools.builders import make_node
from zkdeployment.pools.documents import (
    AnsibleMechanism,
    NodePool,
    Playbook,
    PoolConfiguration,
    RoleMechanism,
)
from zkdeployment.pools.rules.node import NodeEvent, NodeState, PoolNode
from zkdeployment.pools.rules.queue import (
    RequestProblem,
    RequestRefusal,
    Reservation,
    SessionRequest,
    reserve,
)
from zkdeployment.pools.rules.snapshot import (
    LATEST,
    LeasedNode,
    NodesSpec,
    TenantSession,
    new_expiry,
    retire,
)
from zkdeployment.pools.rules.work import FillPlan, new_node, next_filling, plan_filling
from zkdeployment.service.users.user import Role, TenantLimits, User

WEB = NodePool("web", RoleMechanism("spare", "ci"), fill_level=3)
POOLS = PoolConfiguration(
    {"web": WEB, "db": replace(WEB, name="db")},
    TenantLimits(node_quota=3, session_lifetime=100, session_lifetime_max=200),
)
TENANT = make_user("ci", Role.TENANT, id=5)


def ready(number: int, pool: str = "web", changed: float = 0, host: str | None = None) -> PoolNode:
    return make_node(number, changed=changed, pool=pool, host=host)


def request(*specs: tuple[str, int], held: int = 0, tenant: User = TENANT) -> SessionRequest:
    return SessionRequest(11, tenant, tuple(NodesSpec(pool, quantity) for pool, quantity in specs), held)


def refusal(given: object) -> RequestRefusal:
    assert isinstance(given, RequestRefusal)
    return given


def granted(given: object) -> Reservation:
    assert isinstance(given, Reservation)
    return given


def test_exactly_the_quota_is_permitted_and_one_more_is_not() -> None:
    nodes = [ready(1), ready(2)]
    assert granted(reserve(request(("web", 2), held=1), POOLS, nodes, 10)).session.nodes == (1, 2)
    refused = refusal(reserve(request(("web", 2), held=2), POOLS, nodes, 10))
    assert refused.problem is RequestProblem.QUOTA
    assert "requested nodes (2) + current allocation (2) = 4 > 3" in refused.message


def test_a_tenant_has_at_most_the_quota_of_a_pool_and_others_are_not_concerned() -> None:
    pools = replace(POOLS, pools={**POOLS.pools, "web": replace(WEB, node_quota=2)})
    nodes = [ready(1), ready(2), ready(3, "db")]
    with_one = replace(request(("web", 1), held=1), held_by_pool={"web": 1})
    assert granted(reserve(with_one, pools, nodes, 10)).session.nodes == (1,)
    refused = refusal(reserve(replace(with_one, held_by_pool={"web": 2}), pools, nodes, 10))
    assert refused.problem is RequestProblem.QUOTA
    assert "the pool web: requested nodes (1) + current allocation (2) = 3 > 2" in refused.message
    assert granted(reserve(request(("db", 1), held=2), pools, nodes, 10)).session.nodes == (3,)
    admin = replace(with_one, tenant=replace(TENANT, role=Role.ADMIN), held_by_pool={"web": 2})
    assert granted(reserve(admin, pools, nodes, 10)).session.nodes == (1,)


def test_a_session_records_the_state_of_its_nodes_at_its_beginning() -> None:
    node = replace(ready(1), hostname="n1", ipaddr="192.0.2.1")
    session = granted(reserve(request(("web", 1)), POOLS, [node], 10)).session
    assert session.leased == (LeasedNode(1, "web", "n1", "192.0.2.1"),)


def test_a_session_has_the_keys_of_its_request_until_it_ends() -> None:
    own = replace(request(("web", 1)), ssh_key="ssh-ed25519 AAAA")
    given = granted(reserve(own, POOLS, [ready(1)], 10))
    assert given.session.ssh_key == "ssh-ed25519 AAAA"
    assert retire(given.session, given.nodes, 20)[0].ssh_key is None
    assert granted(reserve(request(("web", 1)), POOLS, [ready(1)], 10)).session.ssh_key is None


def test_a_session_with_long_keys_has_fewer_nodes() -> None:
    nodes = [ready(number) for number in range(200)]
    admin = replace(TENANT, role=Role.ADMIN, ssh_key="k" * 6000)
    assert len(granted(reserve(request(("web", 100), tenant=admin), POOLS, nodes, 10)).nodes) == 100
    refused = refusal(reserve(request(("web", 101), tenant=admin), POOLS, nodes, 10))
    assert refused.problem is RequestProblem.TOO_MANY
    assert "a session with SSH keys of 6000 characters has 100 at most" in refused.message
    short = replace(request(("web", 200), tenant=admin), ssh_key="k" * 100)
    assert len(granted(reserve(short, POOLS, nodes, 10)).nodes) == 200


def test_admins_have_no_quota_and_tenants_may_have_their_own() -> None:
    nodes = [ready(number) for number in range(5)]
    admin = replace(TENANT, role=Role.ADMIN)
    assert len(granted(reserve(request(("web", 5), tenant=admin), POOLS, nodes, 10)).nodes) == 5
    small = replace(TENANT, node_quota=1)
    assert refusal(reserve(request(("web", 2), tenant=small), POOLS, nodes, 10)).problem is RequestProblem.QUOTA


def test_a_session_has_two_hundred_nodes_at_most() -> None:
    nodes, admin = [ready(number) for number in range(300)], replace(TENANT, role=Role.ADMIN)
    assert len(granted(reserve(request(("web", 200), tenant=admin), POOLS, nodes, 10)).nodes) == 200
    refused = refusal(reserve(request(("web", 150), ("db", 51), tenant=admin), POOLS, nodes, 10))
    assert refused.problem is RequestProblem.TOO_MANY
    assert "201 requested, but a session has 200 at most" in refused.message


def test_a_session_has_nodes_of_all_pools_that_it_asks_for_and_lasts_as_long_as_the_tenant_may() -> None:
    nodes = [ready(1, "db"), ready(2), ready(3)]
    reservation = granted(reserve(request(("web", 1), ("db", 1), ("web", 1)), POOLS, nodes, 10))
    assert sorted(reservation.session.nodes) == [1, 2, 3]
    assert {node.state for node in reservation.nodes} == {NodeState.CONTEXTUALIZING}
    assert {node.session for node in reservation.nodes} == {11}
    assert reservation.session.expires_at == 110
    assert reservation.nodes[0].data["nodes_spec"] == {"pool": "web", "quantity": 2}


def test_nothing_is_reserved_if_one_pool_has_too_few() -> None:
    refused = refusal(reserve(request(("web", 1), ("db", 1)), POOLS, [ready(1)], 10))
    assert refused.problem is RequestProblem.TOO_FEW
    assert "1 of db requested, 0 ready" in refused.message


def test_nodes_of_other_states_and_of_absent_hosts_are_not_chosen() -> None:
    nodes = [ready(1, host="h1"), replace(ready(2), state=NodeState.FAILED), ready(3, host="h3")]
    assert granted(reserve(request(("web", 1)), POOLS, nodes, 10, away={"h1"})).session.nodes == (3,)
    assert refusal(reserve(request(("web", 2)), POOLS, nodes, 10, away={"h1"})).problem is RequestProblem.TOO_FEW


def test_an_unknown_pool_is_refused_with_the_existing_ones() -> None:
    refused = refusal(reserve(request(("cloud", 1)), POOLS, [], 10))
    assert refused.problem is RequestProblem.NO_POOL
    assert refused.message == "there is no pool 'cloud'; the pools are: db, web"


def test_the_node_that_has_been_ready_longest_comes_first_beginning_at_the_offset() -> None:
    nodes = [ready(1, changed=5), ready(2, changed=3), ready(3, changed=4)]
    chosen = [
        granted(reserve(request(("web", 2)), POOLS, nodes, 10, offset=offset)).session.nodes for offset in range(4)
    ]
    assert chosen == [(2, 3), (3, 1), (1, 2), (2, 3)]


SESSION = TenantSession(
    id=11, tenant=5, specs=(NodesSpec("web", 1),), nodes=(1, 2), created_at=1000, expires_at=1100
)
LIMITS = TenantLimits(node_quota=3, session_lifetime=100, session_lifetime_max=200)


@pytest.mark.parametrize(
    ("change", "is_admin", "end"),
    [
        ({"delta": 50.0}, False, 1150),
        ({"delta": 500.0}, False, 1200),
        ({"delta": 500.0}, True, 1600),
        ({"delta": -500.0}, False, 1000),
        ({"until": 1150.0}, False, 1150),
        ({"until": 5000.0}, False, 1200),
        ({"until": 5000.0}, True, 5000),
        ({"until": 0.0}, True, 1000),
    ],
)
def test_a_session_ends_between_its_begin_and_its_ceiling(
    change: dict[str, float], is_admin: bool, end: float
) -> None:
    assert new_expiry(SESSION, LIMITS, is_admin=is_admin, **change) == end


def test_no_session_ends_later_than_calendars_can_show() -> None:
    assert new_expiry(SESSION, LIMITS, delta=1e13, is_admin=True) == LATEST


def test_a_session_is_expired_at_its_end_and_not_before() -> None:
    assert [SESSION.is_expired(now) for now in (1099.9, 1100)] == [False, True]
    assert not replace(SESSION, retired_at=1050).is_expired(2000)


def test_retiring_releases_the_nodes_that_the_session_still_has() -> None:
    mine = replace(ready(1), state=NodeState.DEPLOYED, session=11)
    failed = replace(ready(2), state=NodeState.FAILED)
    other = replace(ready(3), state=NodeState.DEPLOYED, session=12)
    session, released = retire(SESSION, [mine, failed, other], 1050, "ann@console")
    assert [(node.id, node.state) for node in released] == [(1, NodeState.DEPROVISIONING)]
    assert (session.retired_at, session.retired_by, session.is_active) == (1050, "ann@console", False)


def spare(number: int, host: str | None, **data: object) -> PoolNode:
    return make_node(number, NodeState.UNUSED, changed=number, reusable=True, host=host, data=data)


def test_a_pool_of_hosts_takes_present_hosts_of_its_idle_role() -> None:
    nodes = [spare(1, "h1"), spare(2, "h2"), spare(3, "h3"), spare(4, None)]
    plan = plan_filling(WEB, nodes, 10, roles={"h1": "spare", "h3": "other"})
    assert [(node.id, node.state, node.pool) for node in plan.taken] == [(1, NodeState.PROVISIONING, "web")]
    assert plan.new == 0


def test_ready_nodes_and_nodes_in_preparation_count_for_the_level() -> None:
    nodes = [ready(1), new_node(2, WEB, 0), replace(ready(3), state=NodeState.DEPLOYED), ready(4, "db")]
    assert plan_filling(WEB, nodes, 10) == FillPlan()
    cloud = replace(WEB, mechanism=replace(WEB.mechanism), fill_level=2)
    assert plan_filling(cloud, nodes, 10) == FillPlan()


def test_unused_nodes_are_taken_whose_data_has_the_values_with_their_types() -> None:
    metal = NodePool("metal", AnsibleMechanism("/srv", Playbook("p.yml")), fill_level=5)
    nodes = [
        spare(1, None, cores=8),
        spare(2, None, cores="8"),
        spare(3, None, cores=True),
        spare(4, "h4", cores=8),
        spare(5, None, cores=16),
        spare(6, None),
    ]
    plan = plan_filling(metal, nodes, 10, reuse={"cores": 8})
    assert [node.id for node in plan.taken] == [1]
    assert plan_filling(metal, nodes, 10) == FillPlan(new=5)


def test_a_large_pool_is_filled_in_steps_of_two_hundred_nodes() -> None:
    metal = NodePool("metal", AnsibleMechanism("/srv", Playbook("p.yml")), fill_level=250)
    assert plan_filling(metal, [], 10) == FillPlan(new=200)
    assert plan_filling(metal, [new_node(number, metal, 0) for number in range(200)], 10) == FillPlan(new=50)
    assert len(plan_filling(metal, [spare(number, None) for number in range(250)], 10, reuse={}).taken) == 200


def test_a_pool_without_a_level_is_never_filled() -> None:
    assert plan_filling(replace(WEB, fill_level=None), [spare(1, "h1")], 10, roles={"h1": "spare"}) == FillPlan()


def test_after_failures_in_a_row_the_next_filling_is_later_and_later() -> None:
    assert [next_filling(failures, 1000) for failures in (0, 1, 2, 3, 99)] == [1000, 1060, 1120, 1300, 4600]


def test_a_node_that_is_reserved_once_is_not_reserved_again() -> None:
    reservation = granted(reserve(request(("web", 1)), POOLS, [ready(1)], 10))
    again = reserve(request(("web", 1)), POOLS, reservation.nodes, 11)
    assert refusal(again).problem is RequestProblem.TOO_FEW
    assert reservation.nodes[0].after(NodeEvent.CONTEXTUALIZED, 12).session == 11
