"""Requests: the quota, the choice of nodes, the end of sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.builders import make_user
from support.pools.builders import lending_facts, make_node, make_request
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
    reserve,
)
from zkdeployment.pools.rules.snapshot import (
    LATEST,
    LeasedNode,
    NodesSpec,
    SessionRequest,
    TenantSession,
    new_expiry,
    retire,
)
from zkdeployment.pools.rules.work import FillPlan, new_node, next_filling, plan_filling
from zkdeployment.service.users.user import Role, TenantLimits, User

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

WEB = NodePool("web", RoleMechanism("spare", "ci"), fill_level=3)
POOLS = PoolConfiguration(
    {"web": WEB, "db": replace(WEB, name="db")},
    TenantLimits(node_quota=3, session_lifetime=100, session_lifetime_max=200),
)
TENANT = make_user("ci", Role.TENANT, id=5)


def ready(number: int, pool: str = "web", changed: float = 0, host: str | None = None) -> PoolNode:
    return make_node(number, changed=changed, pool=pool, host=host)


def request(*specs: tuple[str, int], **fields: Any) -> SessionRequest:
    return make_request(11, TENANT, *(NodesSpec(pool, quantity) for pool, quantity in specs), **fields)


def ask(
    wanted: SessionRequest,
    nodes: Iterable[PoolNode],
    *,
    pools: PoolConfiguration = POOLS,
    tenant: User = TENANT,
    held: dict[str, int] | None = None,
    offset: int = 0,
    away: Collection[str] = (),
) -> Reservation | RequestRefusal:
    """Return the answer to a request of a tenant that has ``held`` nodes, by pool."""
    facts = lending_facts(pools, tenant, nodes, away=away)
    specs = tuple(NodesSpec(pool, quantity) for pool, quantity in (held or {}).items())
    present = TenantSession(id=1, tenant=tenant.id, specs=specs, nodes=(), created_at=0, expires_at=900)
    return reserve(wanted, replace(facts, pools=replace(facts.pools, sessions={1: present})), offset=offset)


def refusal(given: object) -> RequestRefusal:
    assert isinstance(given, RequestRefusal)
    return given


def granted(given: object) -> Reservation:
    assert isinstance(given, Reservation)
    return given


def test_exactly_the_quota_is_permitted_and_one_more_is_not() -> None:
    nodes = [ready(1), ready(2)]
    assert granted(ask(request(("web", 2)), nodes, held={"web": 1})).session.nodes == (1, 2)
    refused = refusal(ask(request(("web", 2)), nodes, held={"web": 2}))
    assert refused.problem is RequestProblem.QUOTA
    assert "requested nodes (2) + current allocation (2) = 4 > 3" in refused.message


def test_a_tenant_has_at_most_the_quota_of_a_pool_and_others_are_not_concerned() -> None:
    pools = replace(POOLS, pools={**POOLS.pools, "web": replace(WEB, node_quota=2)})
    nodes = [ready(1), ready(2), ready(3, "db")]
    one = request(("web", 1))
    assert granted(ask(one, nodes, pools=pools, held={"web": 1})).session.nodes == (1,)
    refused = refusal(ask(one, nodes, pools=pools, held={"web": 2}))
    assert refused.problem is RequestProblem.QUOTA
    assert "the pool web: requested nodes (1) + current allocation (2) = 3 > 2" in refused.message
    assert granted(ask(request(("db", 1)), nodes, pools=pools, held={"web": 2})).session.nodes == (3,)
    admin = replace(TENANT, role=Role.ADMIN)
    assert granted(ask(one, nodes, pools=pools, tenant=admin, held={"web": 2})).session.nodes == (1,)


def test_a_session_records_the_state_of_its_nodes_at_its_beginning() -> None:
    node = replace(ready(1), hostname="n1", ipaddr="192.0.2.1")
    session = granted(ask(request(("web", 1)), [node])).session
    assert session.leased == (LeasedNode(1, "web", "n1", "192.0.2.1"),)


def test_a_session_has_the_keys_of_its_request_until_it_ends() -> None:
    own = request(("web", 1), ssh_key="ssh-ed25519 AAAA")
    given = granted(ask(own, [ready(1)]))
    assert given.session.ssh_key == "ssh-ed25519 AAAA"
    assert retire(given.session, given.nodes, 20)[0].ssh_key is None
    assert granted(ask(request(("web", 1)), [ready(1)])).session.ssh_key is None


def test_a_session_with_long_keys_has_fewer_nodes() -> None:
    nodes = [ready(number) for number in range(200)]
    admin = replace(TENANT, role=Role.ADMIN, ssh_key="k" * 6000)
    assert len(granted(ask(request(("web", 100)), nodes, tenant=admin)).nodes) == 100
    refused = refusal(ask(request(("web", 101)), nodes, tenant=admin))
    assert refused.problem is RequestProblem.TOO_MANY
    assert "a session with SSH keys of 6000 characters has 100 at most" in refused.message
    short = request(("web", 200), ssh_key="k" * 100)
    assert len(granted(ask(short, nodes, tenant=admin)).nodes) == 200


def test_admins_have_no_quota_and_tenants_may_have_their_own() -> None:
    nodes = [ready(number) for number in range(5)]
    admin = replace(TENANT, role=Role.ADMIN)
    assert len(granted(ask(request(("web", 5)), nodes, tenant=admin)).nodes) == 5
    small = replace(TENANT, node_quota=1)
    assert refusal(ask(request(("web", 2)), nodes, tenant=small)).problem is RequestProblem.QUOTA


def test_a_session_has_two_hundred_nodes_at_most() -> None:
    nodes, admin = [ready(number) for number in range(300)], replace(TENANT, role=Role.ADMIN)
    assert len(granted(ask(request(("web", 200)), nodes, tenant=admin)).nodes) == 200
    refused = refusal(ask(request(("web", 150), ("db", 51)), nodes, tenant=admin))
    assert refused.problem is RequestProblem.TOO_MANY
    assert "201 requested, but a session has 200 at most" in refused.message


def test_a_session_has_nodes_of_all_pools_that_it_asks_for_and_lasts_as_long_as_the_tenant_may() -> None:
    nodes = [ready(1, "db"), ready(2), ready(3)]
    reservation = granted(ask(request(("web", 1), ("db", 1), ("web", 1)), nodes))
    assert sorted(reservation.session.nodes) == [1, 2, 3]
    assert {node.state for node in reservation.nodes} == {NodeState.CONTEXTUALIZING}
    assert {node.session for node in reservation.nodes} == {11}
    assert reservation.session.expires_at == 110
    assert reservation.nodes[0].data["nodes_spec"] == {"pool": "web", "quantity": 2}


def test_nothing_is_reserved_if_one_pool_has_too_few() -> None:
    refused = refusal(ask(request(("web", 1), ("db", 1)), [ready(1)]))
    assert refused.problem is RequestProblem.TOO_FEW
    assert "1 of db requested, 0 ready" in refused.message


def test_nodes_of_other_states_and_of_absent_hosts_are_not_chosen() -> None:
    nodes = [ready(1, host="h1"), replace(ready(2), state=NodeState.FAILED), ready(3, host="h3")]
    assert granted(ask(request(("web", 1)), nodes, away={"h1"})).session.nodes == (3,)
    assert refusal(ask(request(("web", 2)), nodes, away={"h1"})).problem is RequestProblem.TOO_FEW


def test_an_unknown_pool_is_refused_with_the_existing_ones() -> None:
    refused = refusal(ask(request(("cloud", 1)), []))
    assert refused.problem is RequestProblem.NO_POOL
    assert refused.message == "there is no pool 'cloud'; the pools are: db, web"


def test_the_node_that_has_been_ready_longest_comes_first_beginning_at_the_offset() -> None:
    nodes = [ready(1, changed=5), ready(2, changed=3), ready(3, changed=4)]
    chosen = [granted(ask(request(("web", 2)), nodes, offset=offset)).session.nodes for offset in range(4)]
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


@pytest.mark.parametrize(
    ("change", "end"), [({"delta": 50.0}, 1600), ({"until": 1700.0}, 1600), ({"delta": -50.0}, 1550)]
)
def test_an_extension_by_a_tenant_never_shortens_a_session_that_is_longer_than_its_ceiling(
    change: dict[str, float], end: float
) -> None:
    assert new_expiry(replace(SESSION, expires_at=1600), LIMITS, is_admin=False, **change) == end


def test_a_session_begins_with_the_longest_lifetime_of_its_tenant_if_the_usual_one_is_longer() -> None:
    brief = replace(TENANT, session_lifetime_max=60.0)
    assert granted(ask(request(("web", 1)), [ready(1)], tenant=brief)).session.expires_at == 70


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
    reservation = granted(ask(request(("web", 1)), [ready(1)]))
    again = ask(request(("web", 1)), reservation.nodes)
    assert refusal(again).problem is RequestProblem.TOO_FEW
    assert reservation.nodes[0].after(NodeEvent.CONTEXTUALIZED, 12).session == 11
