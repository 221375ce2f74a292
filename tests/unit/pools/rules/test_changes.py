"""Changes of nodes and sessions between two readings."""

from dataclasses import replace

import pytest

from support.pools.builders import make_node
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism
from zkdeployment.pools.rules.listing import SessionStep, level_changes, node_changes, session_changes
from zkdeployment.pools.rules.node import NodeState, fail
from zkdeployment.pools.rules.snapshot import NodesSpec, PoolReading, PoolSnapshot, TenantSession

READY = make_node(1, changed=2.0, pool="metal", hostname="n1.example")
PREPARED = replace(READY, state=NodeState.CONTEXTUALIZING, session=9)
LEASED = replace(PREPARED, state=NodeState.DEPLOYED)
SESSION = TenantSession(
    id=9, tenant=4, specs=(NodesSpec("metal", 1),), nodes=(1,), created_at=100.0, expires_at=200.0
)
WARNED = replace(SESSION, warned_expiry=200.0)


def reading(node=None, session=None, ended=None):
    return PoolReading(
        snapshot=PoolSnapshot(
            {} if node is None else {node.id: node}, {} if session is None else {session.id: session}
        ),
        ended={} if ended is None else {ended.id: ended},
        tenants={4: "ci"},
    )


@pytest.mark.parametrize(
    ("before", "after", "step"),
    [
        (reading(READY), reading(PREPARED, SESSION), SessionStep.REQUESTED),
        (reading(PREPARED, SESSION), reading(LEASED, SESSION), SessionStep.BEGUN),
        (reading(READY), reading(LEASED, SESSION), SessionStep.BEGUN),
        (reading(PREPARED, SESSION), reading(READY), SessionStep.FAILED),
        (reading(LEASED, SESSION), reading(LEASED, replace(SESSION, expires_at=300.0)), SessionStep.EXTENDED),
        (reading(LEASED, SESSION), reading(LEASED, replace(SESSION, expires_at=150.0)), SessionStep.SHORTENED),
        (reading(LEASED, SESSION), reading(LEASED, WARNED), SessionStep.EXPIRING),
        (reading(LEASED, WARNED), reading(LEASED, replace(WARNED, expires_at=300.0)), SessionStep.EXTENDED),
        (
            reading(LEASED, WARNED),
            reading(LEASED, replace(SESSION, expires_at=300.0, warned_expiry=300.0)),
            SessionStep.EXPIRING,
        ),
        (
            reading(LEASED, SESSION),
            reading(ended=replace(SESSION, retired_at=150.0, retired_by="ci")),
            SessionStep.RETIRED,
        ),
        (reading(LEASED, SESSION), reading(ended=replace(SESSION, retired_at=200.0)), SessionStep.EXPIRED),
        (reading(LEASED, SESSION), reading(LEASED, SESSION), None),
        (reading(PREPARED, SESSION), reading(PREPARED, SESSION), None),
    ],
)
def test_the_step_of_a_session(before, after, step):
    assert [change.step for change in session_changes(before, after)] == ([] if step is None else [step])


def test_the_event_of_a_session_names_the_tenant_the_nodes_and_the_end():
    session = replace(SESSION, specs=(NodesSpec("metal", 1), NodesSpec("web", 2), NodesSpec("metal", 3)))
    (change,) = session_changes(reading(LEASED), reading(LEASED, session))
    assert change.to_json() == {
        "step": "begun",
        "tenant": 4,
        "name": "ci",
        "pools": {"metal": 4, "web": 2},
        "expires_at": 200.0,
    }


def test_nodes_that_come_into_another_state_appear_or_vanish():
    failed = fail(PREPARED, "no route to host", 5.0)
    (change,) = node_changes(reading(PREPARED), reading(failed))
    assert change.to_json() == {
        "pool": "metal",
        "hostname": "n1.example",
        "former": "contextualizing",
        "state": "failed",
        "error": "no route to host",
    }
    (added,) = node_changes(reading(), reading(READY))
    (gone,) = node_changes(reading(READY), reading())
    assert (added.former, added.state) == (None, NodeState.READY)
    assert (gone.former, gone.state) == (NodeState.READY, None)
    assert list(node_changes(reading(READY), reading(replace(READY, comment="slow disk")))) == []


METAL = PoolConfiguration({"metal": NodePool("metal", RoleMechanism("spare", "ci"), fill_level=1)})


def test_a_pool_that_falls_below_its_level_is_an_event_with_the_reason():
    before, after = replace(reading(READY), configuration=METAL), replace(reading(LEASED), configuration=METAL)
    (change,) = level_changes(before, after)
    assert change.name == "metal"
    assert change.to_json() == {
        "level": 1,
        "ready": 0,
        "provisioning": 0,
        "leased": 1,
        "deprovisioning": 0,
        "failed": 0,
        "former_missing": 0,
        "missing": 1,
        "reason": "no worker of the pools runs",
    }
    assert list(level_changes(before, before)) == []
    (removed,) = level_changes(after, reading(LEASED))
    assert removed.to_json() == {"level": None, "former_missing": 1, "missing": 0, "reason": None}
