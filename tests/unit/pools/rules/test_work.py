"""The next task of a worker."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.builders import make_user
from zkdeployment.base.host import Host, Identity
from zkdeployment.pools.documents import (
    AnsibleMechanism,
    NodePool,
    Playbook,
    PoolConfiguration,
    RoleMechanism,
)
from zkdeployment.pools.rules.node import NodeState, PoolNode
from zkdeployment.pools.rules.snapshot import (
    FillingRecord,
    NodesSpec,
    PoolChange,
    PoolSnapshot,
    SessionRequest,
    TenantSession,
)
from zkdeployment.pools.rules.work import (
    PoolFacts,
    PoolSources,
    TaskKind,
    WorkStep,
    next_due,
    next_steps,
    next_tasks,
    plan_filling,
)
from zkdeployment.service.users.user import Role, User

if TYPE_CHECKING:
    from collections.abc import Collection

VALUES: dict[str, Any] = {
    "name": "cloud",
    "fill-level": 2,
    "mechanism": {
        "type": "ansible",
        "ansible": {"topdir": "/srv", "provision": {"playbook": "p"}, "deprovision": {"playbook": "d"}},
    },
}
BOOKS = AnsibleMechanism("/srv", Playbook("p"), Playbook("d"))
CLOUD = NodePool("cloud", BOOKS, fill_level=2, values=VALUES)
METAL = NodePool("metal", BOOKS, fill_level=2, reuse={"kind": "metal"}, values={"name": "metal"})
WEB = NodePool("web", RoleMechanism("spare", "ci"), fill_level=1, values={"name": "web"})
KNOWN = {pool.name: FillingRecord(values=pool.values, stamp=0) for pool in (CLOUD, METAL, WEB)}
TENANT = make_user("t7", Role.TENANT, id=7, ssh_key="ssh-ed25519 AAAA")


def node(number: int, state: NodeState, pool: str | None = "cloud", **values: Any) -> PoolNode:
    return PoolNode(id=number, state=state, created_at=1, changed=1, pool=pool, **values)


def session(number: int, *nodes: int, expires_at: float = 100.0) -> TenantSession:
    return TenantSession(
        id=number, tenant=7, specs=(NodesSpec("cloud", 1),), nodes=nodes, created_at=1, expires_at=expires_at
    )


def observe(
    *nodes: PoolNode,
    pools: tuple[NodePool, ...] = (),
    sessions: tuple[TenantSession, ...] = (),
    claimed: frozenset[int] = frozenset(),
    filling: dict[str, FillingRecord] | None = None,
    tenant: User = TENANT,
    hosts: tuple[Host, ...] = (),
    known_hosts: dict[str, int] | None = None,
    maintenance: Collection[str] = (),
    now: float = 50.0,
    reuse: dict[str, dict[str, int | str]] | None = None,
) -> PoolFacts:
    sources = PoolSources(
        PoolConfiguration({pool.name: pool for pool in pools}),
        {tenant.id: tenant},
        {host.identity.id: host for host in hosts},
        frozenset(maintenance),
    )
    read = PoolSnapshot(
        {found.id: found for found in nodes},
        {found.id: found for found in sessions},
        claimed,
        filling=_known_fillings(nodes, pools) if filling is None else filling,
        hosts=known_hosts or {},
    )
    return PoolFacts(sources, read, now, reuse or {})


def _known_fillings(nodes: tuple[PoolNode, ...], pools: tuple[NodePool, ...]) -> dict[str, FillingRecord]:
    """Return the records of pools as a worker has written them before."""
    ready = Counter(found.pool for found in nodes if found.state is NodeState.READY)
    below = {pool.name for pool in pools if ready[pool.name] < (pool.fill_level or 0)}
    return {name: replace(record, below_since=40.0 if name in below else None) for name, record in KNOWN.items()}


def steps(facts: PoolFacts) -> list[WorkStep]:
    return list(next_steps(facts))


def states(step: WorkStep) -> dict[int, str]:
    return {found.id: found.state.value for found in step.change.nodes}


def test_a_session_ends_when_it_expires_or_its_tenant_is_retired() -> None:
    leased = node(1, NodeState.DEPLOYED, session=9)
    given = {"pools": (replace(CLOUD, fill_level=None),), "sessions": (session(9, 1),)}
    assert steps(observe(leased, **given, now=99)) == []
    (expired,) = steps(observe(leased, **given, now=100))
    assert (expired.event, expired.values["cause"], states(expired)) == (
        "session-expired",
        "it expired",
        {1: "deprovisioning"},
    )
    assert [found.retired_at for found in expired.change.sessions] == [100]
    (retired,) = steps(observe(leased, **given, tenant=replace(TENANT, retired_at=5)))
    assert retired.values["cause"] == "its tenant is retired"


def test_a_clock_that_is_ahead_prolongs_no_session_and_no_wait() -> None:
    leased, day = node(1, NodeState.DEPLOYED, session=9), 86_400.0
    dated = replace(session(9, 1), created_at=10 + day, expires_at=110 + day, requested_at=8 + day)
    given = {"pools": (replace(CLOUD, fill_level=None),), "sessions": (dated,)}
    (step,) = steps(observe(leased, **given, now=10))
    (seen,) = step.change.sessions
    assert (seen.created_at, seen.expires_at, seen.requested_at) == (10, 110, 10)
    assert steps(observe(leased, **{**given, "sessions": (seen,)}, now=10)) == []
    waiting = SessionRequest(id=4, tenant=7, specs=(), created_at=9 + day, expires_at=60 + day)
    ended = replace(waiting.ended("cancelled", 9 + day), id=5)
    facts = observe(now=10)
    read = replace(facts.snapshot, waiting={4: waiting, 5: ended})
    corrected = next(next_steps(replace(facts, snapshot=read)))
    assert corrected.change == PoolChange(waiting=(replace(waiting, created_at=10, expires_at=61),))
    near = [step.event for step in next_steps(replace(facts, snapshot=read, now=day))]
    assert "request-time-corrected" not in near


@pytest.mark.parametrize(
    ("probes", "claimed", "found"),
    [
        ({1: "no route", 2: ""}, {}, {1: "failed"}),
        ({1: "no route", 2: "no route"}, {}, {2: "ready"}),  # the worker may be at fault: 2 is only marked
        ({1: "no route", 3: "", 4: "", 9: ""}, {}, {1: "failed"}),  # others are not ready, gone, or in work
        ({1: "", 2: ""}, {}, {1: "ready"}),
        ({1: "no route", 2: ""}, {1}, {}),
    ],
)
def test_a_ready_node_fails_if_only_others_answer_for_long(
    probes: dict[int, str], claimed: set[int], found: dict[int, str]
) -> None:
    silent = node(1, NodeState.READY, data={"unreachable": {"since": "1970-01-01T00:00:00+00:00"}})
    nodes = (silent, node(2, NodeState.READY), node(3, NodeState.DEPLOYED, session=9), node(4, NodeState.READY))
    given = observe(
        *nodes, pools=(replace(CLOUD, fill_level=3),), sessions=(session(9, 3, expires_at=9e4),), now=9e3
    )
    read = replace(given.snapshot, claimed=frozenset({4, *claimed}))
    taken = [
        step for step in next_steps(replace(given, snapshot=read, probes=probes)) if step.event == "node-probed"
    ]
    assert {number: state for step in taken for number, state in states(step).items()} == found
    assert [step.values["reason"] for step in taken] == [probes[number] or "it answers" for number in found]


def test_unused_nodes_that_may_not_be_used_again_fill_no_pool() -> None:
    pool = replace(METAL, fill_level=1)
    kept, gone = (
        node(number, NodeState.UNUSED, None, reusable=reusable, data={"kind": "metal"})
        for number, reusable in ((1, True), (2, False))
    )
    assert plan_filling(pool, [gone], 50, reuse={"kind": "metal"}).taken == ()
    assert [taken.id for taken in plan_filling(pool, [gone, kept], 50, reuse={"kind": "metal"}).taken] == [1]


def test_nodes_whose_session_is_gone_are_released() -> None:
    lost = (node(1, NodeState.DEPLOYED, session=9), node(2, NodeState.CONTEXTUALIZING, session=9))
    found = steps(observe(*lost, pools=(replace(CLOUD, fill_level=None),)))
    assert [states(step) for step in found] == [{1: "deprovisioning"}, {2: "deprovisioning"}]


def test_an_unused_node_that_is_not_used_again_is_retired() -> None:
    (step,) = steps(observe(node(1, NodeState.UNUSED, None), node(2, NodeState.UNUSED, None, reusable=True)))
    assert states(step) == {1: "done"}


def test_ready_nodes_of_a_pool_that_left_the_document_are_deprovisioned_with_its_last_values() -> None:
    found = observe(node(1, NodeState.READY), node(2, NodeState.DEPROVISIONING), node(3, NodeState.PROVISIONING))
    assert [states(step) for step in steps(found)] == [{1: "deprovisioning"}]
    deprovision, provision = next_tasks(found, ())
    assert (deprovision.kind, deprovision.pool.mechanism) == (TaskKind.DEPROVISION, BOOKS)
    assert (provision.kind, provision.ids) == (TaskKind.PROVISION, {3})


def test_nodes_of_a_pool_that_gets_another_mechanism_are_deprovisioned_by_the_one_that_made_them() -> None:
    role = {"name": "web", "mechanism": {"type": "role", "role": {"idle": "spare", "leased": "ci"}}}
    record = {"web": FillingRecord(values=role, stamp=3)}
    changed = NodePool("web", BOOKS, fill_level=2, run_parallel=False, values={**VALUES, "name": "web"})
    nodes = (
        node(1, NodeState.READY, "web", host="h1"),
        node(2, NodeState.DEPROVISIONING, "web", host="h2"),
        node(3, NodeState.PROVISIONING, "web"),
        node(4, NodeState.READY, "web"),
        node(5, NodeState.CONTEXTUALIZING, "web", host="h5", session=9),
        node(6, NodeState.DEPROVISIONING, "web"),
    )
    found = observe(*nodes, pools=(changed,), filling=record, sessions=(session(9, 5),))
    (released,) = steps(found)  # and the former description stays on record
    assert (states(released), released.values["reason"]) == (
        {1: "deprovisioning"},
        "the pool web has another mechanism now",
    )
    former = RoleMechanism("spare", "ci")
    assert [(task.kind.name, sorted(task.ids), task.pool.mechanism) for task in next_tasks(found, ())] == [
        ("CONTEXTUALIZE", [5], former),
        ("DEPROVISION", [6], BOOKS),
        ("DEPROVISION", [2], former),
        ("PROVISION", [3], BOOKS),
    ]
    (described,) = steps(observe(*nodes[2:4], pools=(changed,), filling=record))
    assert described.change.filling["web"].values == changed.values
    unknown = observe(nodes[1], pools=(replace(changed, fill_level=None),), filling={})
    (failed,) = steps(unknown)
    assert (
        "not in the document with the mechanism that made the node"
        in failed.change.nodes[0].data["error"]["detail"]
    )
    assert list(next_tasks(unknown, ())) == []


@pytest.mark.parametrize("host", [None, "h1"])
def test_keys_of_an_ended_session_are_removed_first_even_if_the_pool_is_unknown(host: str | None) -> None:
    lent = node(1, NodeState.DEPROVISIONING, "gone", host=host, data={"nodes_spec": {}})
    assert steps(observe(lent)) == []
    (revoke,) = next_tasks(observe(lent), ())
    assert (revoke.kind, revoke.nodes, revoke.pools) == (TaskKind.REVOKE, (lent,), {})
    (failed,) = steps(observe(replace(lent, revoked=True)))
    assert states(failed) == {1: "failed"}


def test_nodes_of_an_unknown_pool_fail_with_the_reason() -> None:
    nodes = (
        node(1, NodeState.DEPROVISIONING),
        node(2, NodeState.PROVISIONING),
        node(3, NodeState.PROVISIONING, reusable=True),
        node(4, NodeState.DEPROVISIONING),
    )
    found = observe(*nodes, filling={}, claimed=frozenset({4}))
    failed, deleted, unused = steps(found)
    assert states(failed) == {1: "failed"}
    assert "the pool cloud is not in the document" in failed.change.nodes[0].data["error"]["detail"]
    assert [gone.id for gone in deleted.change.deleted] == [2]
    assert states(unused) == {3: "unused"}
    assert list(next_tasks(found, ())) == []


def test_pools_below_their_level_are_filled_with_new_nodes_or_with_unused_ones() -> None:
    unused = node(1, NodeState.UNUSED, None, reusable=True, data={"kind": "metal"})
    ready = node(2, NodeState.READY)
    second = replace(METAL, name="metal2")
    found = observe(
        unused,
        ready,
        pools=(CLOUD, METAL, second),
        reuse={"metal": {"kind": "metal"}, "metal2": {"kind": "metal"}},
    )
    cloud, metal, described = steps(found)
    assert (cloud.event, cloud.values) == ("pool-filling", {"pool": "cloud", "reused": 0, "new": 1})
    assert [(new.state, new.pool, new.reusable) for new in cloud.new] == [(NodeState.PROVISIONING, "cloud", False)]
    assert (metal.values, states(metal)) == ({"pool": "metal", "reused": 1, "new": 0}, {1: "provisioning"})
    assert metal.change.filling["metal"].stamp == 0
    assert described.event == "pool-described"  # the node is taken


def test_a_pool_is_not_filled_while_its_templates_are_wrong_or_after_failures() -> None:
    unused = node(1, NodeState.UNUSED, None, reusable=True, data={"kind": "metal"})
    assert steps(observe(unused, pools=(METAL,))) == []
    failing = {"cloud": FillingRecord(1, 40.0, "no power", VALUES, 40.0, stamp=3)}
    assert steps(observe(pools=(CLOUD,), filling=failing, now=99)) == []
    assert next_due(observe(pools=(CLOUD,), filling=failing, now=99)) == 100
    (step,) = steps(observe(pools=(CLOUD,), filling=failing, now=100))
    assert step.change.filling == failing


def test_a_failure_that_a_clock_ahead_recorded_delays_filling_from_now_on_and_no_longer() -> None:
    ahead = {"cloud": FillingRecord(1, 4000.0, "no power", VALUES, stamp=3)}
    (step,) = steps(observe(pools=(CLOUD,), filling=ahead, now=100))
    assert (step.new, step.change.filling["cloud"].last_failure) == ((), 100)
    (step,) = steps(observe(pools=(CLOUD,), filling=dict(step.change.filling), now=160))
    assert len(step.new) == 2


def test_the_description_of_a_pool_is_recorded_when_it_changes() -> None:
    full = (node(1, NodeState.READY), node(2, NodeState.READY))
    (step,) = steps(observe(*full, pools=(CLOUD,), filling={}))
    assert step.change.filling["cloud"].values == VALUES
    assert steps(observe(*full, pools=(CLOUD,))) == []
    changed = replace(CLOUD, fill_level=None, values={**VALUES, "flavour": "small"})
    (step,) = steps(observe(*full, pools=(changed,)))
    assert step.change.filling["cloud"].values["flavour"] == "small"


def test_a_pool_above_its_level_drops_nodes_before_they_are_made_and_gives_ready_nodes_up() -> None:
    nodes = (
        node(1, NodeState.READY),
        node(2, NodeState.READY, data={"nodes_spec": {}}),  # it was cleaned when its session did not begin
        node(3, NodeState.PROVISIONING, begun=True),
        node(4, NodeState.PROVISIONING),
        node(5, NodeState.PROVISIONING),
        node(6, NodeState.READY),
    )
    found = steps(observe(*nodes, pools=(CLOUD,), claimed=frozenset({5})))
    assert [(step.values["node"], step.values["state"]) for step in found] == [
        (4, "deleted"),
        (2, "deprovisioning"),
    ]
    reusable = replace(nodes[3], reusable=True, pool="metal")
    (dropped,) = steps(observe(reusable, pools=(replace(METAL, fill_level=0),)))
    assert states(dropped) == {4: "unused"}
    assert steps(observe(*nodes, pools=(replace(CLOUD, fill_level=None),))) == []


def test_a_pool_has_been_below_its_level_since_a_worker_first_saw_that() -> None:
    full = (node(1, NodeState.READY), node(2, NodeState.READY))
    (fallen,) = steps(observe(full[0], node(2, NodeState.PROVISIONING), pools=(CLOUD,), filling=KNOWN, now=70))
    assert fallen.change.filling["cloud"].below_since == 70
    (filled,) = steps(observe(*full, pools=(CLOUD,), filling=dict(fallen.change.filling), now=90))
    assert filled.change.filling["cloud"].below_since is None


def test_a_host_that_a_pool_may_lease_becomes_a_node_once() -> None:
    hosts = tuple(
        Host(Identity(name, f"{name}.lan", "spare"), address="192.0.2.1", idle_role=role)
        for name, role in (("h1", "spare"), ("h2", "db"), ("h3", "spare"), ("h4", None))
    )
    found = steps(observe(pools=(WEB,), hosts=hosts, known_hosts={"h3": 4}))
    (step,) = found
    (new,) = step.new
    assert (step.event, new.host, new.hostname, new.ipaddr, new.reusable, new.state) == (
        "host-added",
        "h1",
        "h1.lan",
        "192.0.2.1",
        True,
        NodeState.UNUSED,
    )
    (step,) = steps(observe(replace(new, id=4), pools=(WEB,), hosts=hosts[:1], known_hosts={"h1": 4}))
    assert states(step) == {4: "provisioning"}
    (step,) = steps(observe(replace(new, id=4), pools=(WEB,), hosts=hosts[:1]))  # the host's record is damaged
    assert states(step) == {4: "provisioning"}
    assert steps(observe(replace(new, id=4), pools=(WEB,), known_hosts={"h1": 4})) == []  # absent
    for other in (replace(hosts[0], idle_role=None), replace(hosts[0], identity=Identity("h1", "h1.lan", "ci"))):
        assert steps(observe(replace(new, id=4), pools=(WEB,), hosts=(other,), known_hosts={"h1": 4})) == []


def test_a_host_in_maintenance_is_not_leased_and_keeps_its_role() -> None:
    host = Host(Identity("h1", "h1.lan", "spare"), idle_role="spare")
    spare = node(4, NodeState.UNUSED, None, host="h1", reusable=True)
    given: dict[str, Any] = {"pools": (WEB,), "hosts": (host,), "known_hosts": {"h1": 4}}
    assert [states(step) for step in steps(observe(spare, **given))] == [{4: "provisioning"}]
    assert steps(observe(spare, **given, maintenance={"h1"})) == []
    for state in (NodeState.PROVISIONING, NodeState.DEPROVISIONING):
        waiting = node(4, state, "web", host="h1")
        (task,) = next_tasks(observe(waiting, **given), ())
        assert task.kind.state is state
        assert list(next_tasks(observe(waiting, **given, maintenance={"h1"}), ())) == []


def test_the_keys_of_a_tenant_are_removed_from_a_host_in_maintenance() -> None:
    leased = node(4, NodeState.DEPROVISIONING, "web", host="h1", data={"nodes_spec": {}})
    assert leased.has_key
    (task,) = next_tasks(observe(leased, pools=(WEB,), maintenance={"h1"}), ())
    assert task.kind is TaskKind.REVOKE


def test_tasks_are_for_nodes_without_a_worker_one_by_one_or_together() -> None:
    nodes = tuple(node(number, NodeState.PROVISIONING) for number in (1, 2, 3, 4))
    together = observe(*nodes, pools=(replace(CLOUD, run_parallel=False),), claimed=frozenset({1}))
    assert [task.ids for task in next_tasks(together, {4})] == [{2, 3}]
    single = observe(*nodes, pools=(CLOUD,), claimed=frozenset({1}))
    assert [task.ids for task in next_tasks(single, {4})] == [{2}, {3}]


def test_a_run_for_all_nodes_has_at_most_two_hundred_nodes() -> None:
    nodes = tuple(node(number, NodeState.PROVISIONING) for number in range(1, 251))
    found = list(next_tasks(observe(*nodes, pools=(replace(CLOUD, run_parallel=False),)), ()))
    assert [len(task.nodes) for task in found] == [200, 50]


def test_the_nodes_of_a_session_are_prepared_together_with_the_keys_of_the_session_or_its_tenant() -> None:
    nodes = (
        node(1, NodeState.CONTEXTUALIZING, session=9),
        node(2, NodeState.CONTEXTUALIZING, "metal", session=9),
        node(3, NodeState.CONTEXTUALIZING, session=8),
        node(4, NodeState.CONTEXTUALIZING, session=8),
    )
    sessions = (session(9, 1, 2), session(8, 3, 4))
    given: dict[str, Any] = {"pools": (CLOUD, METAL), "sessions": sessions, "claimed": frozenset({4})}
    (task,) = next_tasks(observe(*nodes, **given), ())
    assert (task.session, task.ids, task.keys) == (9, {1, 2}, ("ssh-ed25519 AAAA",))
    assert task.pools == {1: CLOUD, 2: METAL}
    (task,) = next_tasks(observe(*nodes, **given, tenant=replace(TENANT, id=1)), ())
    assert task.keys == ()
    several = replace(TENANT, ssh_key="ssh-ed25519 AAAA\nssh-ed25519 BBBB")
    (task,) = next_tasks(observe(*nodes, **given, tenant=several), ())
    assert task.keys == ("ssh-ed25519 AAAA", "ssh-ed25519 BBBB")
    given["sessions"] = (replace(sessions[0], ssh_key="ssh-ed25519 CCCC"), sessions[1])
    (task,) = next_tasks(observe(*nodes, **given, tenant=several), ())
    assert task.keys == ("ssh-ed25519 CCCC",)


def test_the_next_cycle_is_due_when_the_first_session_expires() -> None:
    sessions = (session(9, expires_at=70), session(8, expires_at=60), session(7, expires_at=50))
    assert next_due(observe(sessions=sessions)) == 60
    assert next_due(observe()) is None
