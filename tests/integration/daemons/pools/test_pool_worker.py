"""Workers of host pools on a real ZooKeeper, with simulated machines."""

from __future__ import annotations

import pytest

from support.clocks import ManualClock
from support.pool_workers import KEY, PoolFleet, TestWorker
from support.simulated_nodes import SimulatedNodes

BOOKS = "mechanism: {type: ansible, ansible: {topdir: /srv, provision: {playbook: p}, deprovision: {playbook: d}}}"
DOCUMENT = f"""
  defaults: {{session-lifetime: 100, session-lifetime-max: 200, node-quota: 5}}
  nodepools:
    abstract: {{any: {{{BOOKS}}}}}
    concrete:
      metal: {{extends: any, fill-level: 2, reuse-nodes: {{kind: metal}}}}
      cloud: {{extends: any, fill-level: 2, run-parallel: false}}
"""


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def fleet(zookeeper, clock):
    with PoolFleet(zookeeper, clock) as opened:
        yield opened


@pytest.fixture
def machines():
    return SimulatedNodes()


@pytest.fixture
def worker(zookeeper, machines, clock, fleet):
    fleet.publish(DOCUMENT)
    with TestWorker(zookeeper, machines, clock) as running:
        yield running


def test_a_session_goes_from_filled_pools_to_its_expiry_and_the_pools_are_filled_again(
    worker, fleet, machines, clock
):
    fleet.add_nodes(3, kind="metal")
    worker.settle()
    assert fleet.states("metal") == fleet.states("cloud") == ["ready", "ready"]
    assert sorted(map(len, machines.made)) == [1, 1, 2]
    session = fleet.request(fleet.add_tenant(1), metal=1, cloud=1)
    worker.settle()
    read = fleet.store.read()
    assert {read.nodes[number].state.value for number in session.nodes} == {"deployed"}
    assert [machines.machines[number] for number in session.nodes] == [KEY, KEY]
    assert fleet.states("metal").count("ready") == fleet.states("cloud").count("ready") == 2
    clock.time += 101
    worker.settle()
    read = fleet.store.read()
    assert (read.sessions, read.claimed) == ({}, frozenset())
    assert fleet.store.session(session.id).retired_at == clock.time
    assert sorted(fleet.states()) == ["ready"] * 4 + ["unused"]
    assert set(machines.machines.values()) == {None}
    assert len(machines.machines) == 4
    assert [node.state.value for node in fleet.store.history(0).nodes] == ["done"]
