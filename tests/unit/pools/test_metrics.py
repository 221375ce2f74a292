"""The metrics of host pools."""

from support.pools.builders import make_node
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism
from zkdeployment.pools.feed import pool_metrics
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.snapshot import FillingRecord, PoolReading, PoolSnapshot

ROLES = RoleMechanism("spare", "ci")
POOLS = PoolConfiguration({"web": NodePool("web", ROLES, fill_level=3), "attic": NodePool("attic", ROLES)})


def node(number, state):
    pool = None if state is NodeState.UNUSED else "web"
    return make_node(number, state, pool=pool)


def test_pools_are_counted_by_pool_and_state():
    states = (NodeState.READY, NodeState.FAILED, NodeState.FAILED, NodeState.UNUSED)
    nodes = {number: node(number, state) for number, state in enumerate(states)}
    snapshot = PoolSnapshot(nodes, filling={"web": FillingRecord(2, 5.0, "boom")}, workers=("w",))
    found = {
        metric.name.removeprefix("zkdeployment_pool_"): metric
        for metric in pool_metrics(PoolReading(POOLS, snapshot))
    }
    assert found["level"].samples == {("web",): 3}
    assert found["missing_nodes"].samples == {("web",): 2, ("attic",): 0}
    assert found["filling_failures"].samples == {("web",): 2, ("attic",): 0}
    assert found["nodes"].labels == ("pool", "state")
    assert found["nodes"].samples["web", "failed"] == 2
    assert found["nodes"].samples["attic", "ready"] == 0
    assert [found[name].samples for name in ("unused_nodes", "sessions", "workers")] == [{(): 1}, {(): 0}, {(): 1}]
