"""What operators see of pools: counts, why and since when nodes are lacking, sessions and their tenants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.pools.builders import make_node
from zkdeployment.pools.documents import (
    AnsibleMechanism,
    NodePool,
    Playbook,
    PoolConfiguration,
    RoleMechanism,
)
from zkdeployment.pools.rules.listing import (
    PoolShortage,
    ShortageCause,
    failure_of,
    pool_nodes,
    pool_views,
    session_view_to_json,
    session_views,
)
from zkdeployment.pools.rules.node import NodeState, PoolNode, fail
from zkdeployment.pools.rules.snapshot import FillingRecord, LeasedNode, NodesSpec, PoolSnapshot, TenantSession

METAL = NodePool("metal", AnsibleMechanism("/srv", Playbook("up.yml")), fill_level=2)
WEB = NodePool("web", RoleMechanism("spare", "ci"), fill_level=2)
SESSION = TenantSession(
    id=9,
    tenant=5,
    specs=(NodesSpec("metal", 1),),
    nodes=(2, 3),
    created_at=50,
    expires_at=100,
    leased=(LeasedNode(2, "metal", "n2", "192.0.2.2"), LeasedNode(3, "metal", "n3")),
)


def node(number: int, state: NodeState, changed: float = 10, session: int | None = None) -> PoolNode:
    return make_node(number, state, changed=changed, pool="metal", session=session)


def shortage(
    *nodes: PoolNode,
    pool: NodePool = METAL,
    record: FillingRecord | None = None,
    workers: tuple[str, ...] = ("w1",),
) -> PoolShortage | None:
    snapshot = PoolSnapshot(
        {found.id: replace(found, pool=pool.name) for found in nodes},
        {9: SESSION},
        filling={} if record is None else {pool.name: record},
        workers=workers,
    )
    (view,) = pool_views(PoolConfiguration({pool.name: pool}), snapshot)
    return view.shortage


PASSED_OVER = "unused, but absent, in maintenance or of another role"
READY, PROVISIONING, DEPLOYED = NodeState.READY, NodeState.PROVISIONING, NodeState.DEPLOYED


def test_a_pool_at_its_level_and_a_pool_without_a_level_lack_no_nodes() -> None:
    assert shortage(node(1, READY), node(2, READY)) is None
    assert shortage(pool=replace(METAL, fill_level=None)) is None


@pytest.mark.parametrize(
    ("found", "cause", "reason"),
    [
        (shortage(workers=()), ShortageCause.NO_WORKER, "no worker of the pools runs"),
        (
            shortage(node(1, PROVISIONING), record=FillingRecord(2, 40, "the playbook failed")),
            ShortageCause.FAILURES,
            "filling failed 2 times in a row: the playbook failed",
        ),
        (
            shortage(node(1, READY), node(2, PROVISIONING)),
            ShortageCause.FILLING,
            "1 node is being provisioned",
        ),
        (shortage(node(1, PROVISIONING)), ShortageCause.WAITING, "a worker is about to fill the pool"),
        (
            shortage(node(1, READY), node(2, NodeState.DEPROVISIONING), pool=WEB),
            ShortageCause.NO_NODES,
            "no unused host with the role spare can be taken; 1 node is being deprovisioned",
        ),
        (
            shortage(
                make_node(1, NodeState.UNUSED, host="h1", reusable=True),
                make_node(2, NodeState.UNUSED, host="h2", reusable=True),
                make_node(3, NodeState.UNUSED, reusable=True),  # of the pools without hosts of the fleet
                pool=WEB,
            ),
            ShortageCause.NO_NODES,
            f"no unused host with the role spare can be taken; 2 nodes are {PASSED_OVER}",
        ),
        (
            shortage(pool=replace(METAL, reuse={"architecture": "x86_64"})),
            ShortageCause.NO_NODES,
            "no unused node has the values of reuse-nodes",
        ),
    ],
)
def test_the_first_cause_that_applies_is_named(found: PoolShortage, cause: ShortageCause, reason: str) -> None:
    assert (found.cause, found.reason) == (cause, reason)


def test_a_pool_is_below_its_level_since_the_time_on_record_or_else_since_the_last_change() -> None:
    leased = node(2, DEPLOYED, changed=55, session=9)
    nodes = (node(1, READY), leased, node(3, NodeState.FAILED, changed=30), node(4, PROVISIONING))
    for record, since in ((None, 50), (FillingRecord(), 50), (FillingRecord(below_since=45.0), 45)):
        found = shortage(*nodes, record=record)
        assert found is not None
        assert (found.missing, found.since) == (1, since)
    empty = shortage()
    assert empty is not None
    assert empty.since is None


def test_the_nodes_of_a_pool_are_counted_by_state_and_printed_for_programs() -> None:
    failed = fail(node(4, NodeState.DEPROVISIONING), "the disk is full", 70)
    nodes = [node(1, READY), node(2, DEPLOYED, session=9), node(3, NodeState.CONTEXTUALIZING, session=9), failed]
    snapshot = PoolSnapshot(
        {found.id: found for found in nodes},
        {9: SESSION},
        filling={"metal": FillingRecord(1, 40, "no answer")},
        workers=("w1",),
    )
    (pool,) = pool_views(PoolConfiguration({"metal": METAL}), snapshot)
    assert [pool.to_json()] == [
        {
            "name": "metal",
            "mechanism": "ansible",
            "level": 2,
            "node_quota": None,
            "ready": 1,
            "provisioning": 0,
            "leased": 2,
            "deprovisioning": 0,
            "failed": 1,
            "failures": 1,
            "next_filling": 100.0,
            "shortage": {
                "missing": 1,
                "cause": "failures",
                "reason": "filling failed once: no answer",
                "since": 70,
            },
        }
    ]
    assert [*pool_nodes(snapshot, "metal")] == nodes
    assert pool_nodes(snapshot, "web") == ()
    assert [failure_of(found) for found in nodes] == [None, None, None, "the disk is full"]


def test_a_session_has_the_name_of_its_tenant_and_the_nodes_that_it_still_has() -> None:
    snapshot = PoolSnapshot({2: node(2, DEPLOYED, session=9), 3: node(3, READY)}, {9: SESSION})
    known, unknown = session_views([SESSION, replace(SESSION, id=10, tenant=6)], snapshot, {5: "ci"})
    assert (known.tenant, unknown.tenant) == ("ci", "tenant 6")
    assert session_view_to_json(known) == {
        "id": 9,
        "tenant": "ci",
        "active": True,
        "created_at": 50,
        "expires_at": 100,
        "retired_at": None,
        "requested": [{"pool": "metal", "quantity": 1, "properties": []}],
        "nodes": [
            {
                "id": 2,
                "pool": "metal",
                "hostname": "n2",
                "ipaddr": "192.0.2.2",
                "state": "deployed",
                "ssh": "ssh root@192.0.2.2",
            },
            {
                "id": 3,
                "pool": "metal",
                "hostname": "n3",
                "ipaddr": None,
                "state": None,
                "ssh": None,
            },
        ],
    }
    assert unknown.states == {}
