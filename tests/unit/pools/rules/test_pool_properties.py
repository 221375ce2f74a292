"""Invariants of pools under random requests, results, crashes and clocks."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.builders import make_user
from support.pools.builders import make_node, make_request
from zkdeployment.pools.documents import AnsibleMechanism, NodePool, Playbook, PoolConfiguration
from zkdeployment.pools.rules.node import IN_SESSION, NodeEvent, NodeState, PoolNode, fail
from zkdeployment.pools.rules.queue import LendingFacts, Reservation, reserve
from zkdeployment.pools.rules.results import deprovisioned, provisioned
from zkdeployment.pools.rules.snapshot import (
    NodesSpec,
    PoolSnapshot,
    TenantSession,
    new_expiry,
    retire,
)
from zkdeployment.pools.rules.work import new_node, plan_filling
from zkdeployment.service.users.user import Role, TenantLimits

BOOKS = AnsibleMechanism("/srv/books", Playbook("provision.yml"), Playbook("deprovision.yml"))
POOLS = PoolConfiguration(
    {
        "new": NodePool("new", BOOKS, fill_level=2),
        "metal": NodePool("metal", BOOKS, fill_level=2, reuse={"kind": "metal"}),
    },
    TenantLimits(node_quota=3, session_lifetime=100, session_lifetime_max=200),
)
TENANTS = {number: make_user(f"t{number}", Role.TENANT, id=number) for number in (1, 2)}


class Pools(RuleBasedStateMachine):
    """A store of nodes and sessions that only the decisions of the room change."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.numbers = 0
        self.nodes: dict[int, PoolNode] = {}
        self.sessions: dict[int, TenantSession] = {}
        for _ in range(3):
            self.put(make_node(self.number(), NodeState.UNUSED, changed=0, reusable=True, data={"kind": "metal"}))

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def put(self, *nodes: PoolNode) -> None:
        self.nodes.update({node.id: node for node in nodes})

    def of(self, state: NodeState) -> list[PoolNode]:
        return sorted((node for node in self.nodes.values() if node.state is state), key=lambda node: node.id)

    def held(self, tenant: int) -> int:
        active = (session for session in self.sessions.values() if session.is_active and session.tenant == tenant)
        return sum(len(session.nodes) for session in active)

    @rule(seconds=st.sampled_from([-50, 1, 30, 101, 500]))
    def the_clock_steps(self, seconds: int) -> None:
        self.now = max(0.0, self.now + seconds)

    @rule(pool=st.sampled_from(sorted(POOLS.pools)))
    def a_pool_is_filled(self, pool: str) -> None:
        plan = plan_filling(POOLS.pools[pool], self.nodes.values(), self.now, reuse=POOLS.pools[pool].reuse)
        self.put(*plan.taken, *(new_node(self.number(), POOLS.pools[pool], self.now) for _ in range(plan.new)))

    @precondition(lambda self: self.of(NodeState.PROVISIONING))
    @rule(addresses=st.lists(st.booleans(), max_size=3))
    def a_playbook_provisions(self, addresses: list[bool]) -> None:
        nodes = self.of(NodeState.PROVISIONING)
        results = [
            {"ipaddr": f"192.0.2.{node.id % 250}", "serial": node.id} if is_given else {}
            for node, is_given in zip(nodes, addresses, strict=False)
        ]
        outcome = provisioned(nodes, {"nodes": results}, self.now)
        self.put(*outcome.nodes)
        for number in outcome.deleted:
            del self.nodes[number]

    @rule(tenant=st.sampled_from([1, 2]), pool=st.sampled_from(["new", "metal"]), quantity=st.integers(1, 3))
    def a_tenant_requests_nodes(self, tenant: int, pool: str, quantity: int) -> None:
        request = make_request(self.number(), TENANTS[tenant], NodesSpec(pool, quantity))
        active = {number: found for number, found in self.sessions.items() if found.is_active}
        facts = LendingFacts(PoolSnapshot(self.nodes, active), POOLS, TENANTS, self.now)
        given = reserve(request, facts, offset=self.numbers)
        if isinstance(given, Reservation):
            self.sessions[given.session.id] = given.session
            self.put(*given.nodes)

    @precondition(lambda self: self.of(NodeState.CONTEXTUALIZING))
    @rule(is_reached=st.booleans(), is_clean=st.booleans())
    def the_keys_are_written_or_not(self, is_reached: bool, is_clean: bool) -> None:
        number = self.of(NodeState.CONTEXTUALIZING)[0].session
        assert number is not None
        nodes = [node for node in self.of(NodeState.CONTEXTUALIZING) if node.session == number]
        if is_reached:
            self.put(*(node.after(NodeEvent.CONTEXTUALIZED, self.now) for node in nodes))
            return
        first, *others = nodes
        self.put(fail(first, "no route to host", self.now))
        for node in others:
            cleaned = node.after(NodeEvent.CLEANED, self.now) if is_clean else fail(node, "not clean", self.now)
            self.put(cleaned)
        del self.sessions[number]

    @precondition(lambda self: any(session.is_active for session in self.sessions.values()))
    @rule(delta=st.sampled_from([-300.0, 50.0, 300.0]), ends=st.booleans())
    def a_session_is_extended_or_retired(self, delta: float, ends: bool) -> None:
        session = min((one for one in self.sessions.values() if one.is_active), key=lambda one: one.id)
        if ends:
            self.end(session)
            return
        limits = POOLS.defaults.of(TENANTS[session.tenant])
        until = new_expiry(session, limits, delta=delta, is_admin=False)
        assert session.created_at <= until <= session.created_at + limits.session_lifetime_max

    @rule()
    def sessions_expire(self) -> None:
        for session in list(self.sessions.values()):
            if session.is_expired(self.now):
                self.end(session)

    def end(self, session: TenantSession) -> None:
        self.sessions[session.id], released = retire(session, self.nodes.values(), self.now)
        self.put(*released)

    @precondition(lambda self: self.of(NodeState.DEPROVISIONING))
    @rule(found=st.lists(st.booleans(), max_size=3))
    def a_playbook_deprovisions(self, found: list[bool]) -> None:
        nodes = self.of(NodeState.DEPROVISIONING)
        results = [
            {"serial": node.data["provision"]["serial"] if is_found else -1}
            for node, is_found in zip(nodes, found, strict=False)
        ]
        self.put(*deprovisioned(nodes, {"nodes": results}, self.now).nodes)

    @precondition(lambda self: self.of(NodeState.FAILED))
    @rule()
    def an_operator_forgives(self) -> None:
        self.put(self.of(NodeState.FAILED)[0].after(NodeEvent.FORGIVEN, self.now))

    @invariant()
    def no_node_is_in_two_sessions_and_each_has_the_session_that_has_it(self) -> None:
        active = {number: session for number, session in self.sessions.items() if session.is_active}
        taken = Counter(node for session in active.values() for node in session.nodes)
        assert set(taken.values()) <= {1}
        for node in self.nodes.values():
            assert (node.session is not None) == (node.state in IN_SESSION)
            if node.session is not None:
                assert node.id in active[node.session].nodes

    @invariant()
    def no_tenant_has_more_than_its_quota(self) -> None:
        assert all(self.held(tenant) <= POOLS.defaults.node_quota for tenant in TENANTS)

    @invariant()
    def nothing_is_leaked(self) -> None:
        for node in self.nodes.values():
            assert (node.pool is None) == (node.state in {NodeState.UNUSED, NodeState.DONE})
            assert (node.retired_at is not None) == (node.state is NodeState.DONE)
            assert node.state is not NodeState.FAILED or node.data["error"]["detail"]
        reusable = [node for node in self.nodes.values() if node.reusable]
        assert len(reusable) == 3

    @invariant()
    def no_pool_is_filled_above_its_level(self) -> None:
        for pool in POOLS.pools.values():
            again = plan_filling(pool, self.nodes.values(), self.now, reuse=pool.reuse)
            provisioning = [node for node in self.of(NodeState.PROVISIONING) if node.pool == pool.name]
            level = pool.fill_level or 0
            assert len(again.taken) + again.new + len(provisioning) <= level


TestPools = Pools.TestCase
TestPools.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
