"""Acts of operators on nodes and pools, on a real ZooKeeper, while other writers change the same nodes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from support.pools.builders import POOLS, add_ready_nodes
from support.waiting import ManualClock
from zkdeployment.base.act import Act
from zkdeployment.base.errors import RefusedError
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.acts.nodes import BEGINNING, add_node, change_node, fill_pool
from zkdeployment.pools.opening import pool_adapters
from zkdeployment.pools.rules.listing import ShortageCause
from zkdeployment.pools.rules.node import NewPoolNode, NodeEvent, NodeState, drained, retired
from zkdeployment.pools.rules.snapshot import PoolChange
from zkdeployment.pools.store.store import ZooKeeperPools
from zkdeployment.zookeeper.session import Session

ACT = Act("ann@console", "a test", "", 1.0)


@pytest.fixture
def adapters(zookeeper, monkeypatch):
    with Session(zookeeper) as session:
        real = pool_adapters(session)
        monkeypatch.setattr(real.store, "configuration", lambda: POOLS)
        yield replace(real, clock=ManualClock())


def test_a_host_becomes_one_node_however_many_operators_add_it(adapters, zookeeper):
    new = NewPoolNode(hostname="app1.example.com", ipaddr="192.0.2.5", host="h1")

    def add(time):
        try:
            return add_node(new, adapters, replace(ACT, time=time)).id
        except RefusedError as error:
            return str(error)

    for begun in (10.0, 20.0):  # the second time, the host was a node before
        with ThreadPoolExecutor(4) as threads:
            outcomes = [*threads.map(add, [begun + number for number in range(4)])]
        (number,) = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert outcomes.count(f"host h1 is node {number} already (unused)") == 3
        assert [*adapters.store.read().nodes] == [number]
        assert adapters.store.read().hosts == {"h1": number}
        assert change_node(number, adapters, replace(ACT, time=begun + 5), retired).state is NodeState.DONE
    with Session(zookeeper) as session:
        assert len(read_acts(session)) == 4


def test_a_host_is_not_added_again_if_another_operator_adds_it_between_two_reads(adapters, zookeeper):
    new = NewPoolNode(hostname="app1.example.com", ipaddr="192.0.2.5", host="h1")
    former = add_node(new, adapters, ACT)
    change_node(former.id, adapters, ACT, retired)
    overtaking = []

    class Overtaken:
        """A session in which another operator adds the host after the nodes are listed for the first time."""

        def __getattr__(self, name) -> object:
            return getattr(session, name)

        def look(self, paths, listed):
            found = session.look(paths, listed)
            if pool_paths.NODES in listed and not overtaking:
                overtaking.append(add_node(new, adapters, ACT).id)
            return found

    with Session(zookeeper) as session:
        late = replace(adapters, store=ZooKeeperPools(Overtaken()))
        with pytest.raises(RefusedError, match=r"host h1 is node \d+ already"):
            add_node(new, late, ACT)
    assert [*adapters.store.read().nodes] == overtaking


def test_an_act_decides_again_when_the_node_has_changed_meanwhile(adapters):
    (number,) = add_ready_nodes(adapters.store, 1)
    store = adapters.store

    class Overtaken:
        """A store in which a session reserves the node right before each first write."""

        def __getattr__(self, name) -> object:
            return getattr(store, name)

        def commit(self, change, read):
            node = store.node(number)
            if node.state is NodeState.READY:
                reserved = node.after(NodeEvent.RESERVED, 5, session=9)
                store.commit(PoolChange(nodes=(reserved,)), store.read())
            store.commit(change, read)

    with pytest.raises(RefusedError, match=f"cannot drain node {number}: it is contextualizing; try again"):
        change_node(number, replace(adapters, store=Overtaken()), ACT, drained)
    assert store.node(number).state is NodeState.CONTEXTUALIZING


def test_filling_ends_when_no_worker_begins(adapters):
    seen = []
    clock = adapters.clock

    def wait(seconds):
        clock.time += seconds

    pool = fill_pool("web", replace(adapters, wait=wait), ACT, timeout=3600, progress=seen.append)
    assert pool.shortage.cause is ShortageCause.NO_WORKER
    assert len(seen) == BEGINNING

    adapters.store.announce("w1")
    pool = fill_pool("web", replace(adapters, wait=wait), ACT, timeout=3600)
    assert (pool.shortage.cause, pool.shortage.reason) == (
        ShortageCause.NO_NODES,
        "no unused host with the role spare can be taken",
    )
