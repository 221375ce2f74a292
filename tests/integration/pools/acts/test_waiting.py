"""Requests that wait, on a real ZooKeeper with workers and simulated machines."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from support.pools.simulated_nodes import SimulatedNodes
from support.pools.workers import PoolFleet, TestWorker
from support.waiting import ManualClock
from zkdeployment.base.errors import ForbiddenError, NotFoundError, RefusedError, RetiredError, UnreachableError
from zkdeployment.pools.acts.sessions import (
    SessionActor,
    SessionDetails,
    await_request,
    cancel_request,
    find_request,
    queue_request,
    request_session,
    waiting_requests,
)
from zkdeployment.pools.opening import pool_adapters
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.queue import RequestProblem, RequestRefusal
from zkdeployment.pools.rules.snapshot import NodesSpec, SessionRequest
from zkdeployment.zookeeper.session import Session

BOOKS = "mechanism: {type: ansible, ansible: {topdir: /srv, provision: {playbook: p}, deprovision: {playbook: d}}}"
POOLS = f"metal: {{{BOOKS}, fill-level: 2, reuse-nodes: {{kind: metal}}, node-quota: 3}}"
DOCUMENT = f"{{defaults: {{session-lifetime: 100, node-quota: 4}}, nodepools: {{concrete: {{{POOLS}}}}}}}"
ONE, TWO = (NodesSpec("metal", 1),), (NodesSpec("metal", 2),)
OPERATOR = SessionActor("ann@console")


class Site:
    """A pool with two nodes, a worker whose cycles a test runs, and two tenants."""

    def __init__(self, fleet, worker, machines, adapters, clock) -> None:
        self.fleet, self.worker, self.machines, self.adapters, self.clock = (
            fleet,
            worker,
            machines,
            adapters,
            clock,
        )
        self.one, self.two = fleet.add_tenant(1), fleet.add_tenant(2)

    def queue(self, tenant, specs, wait=60.0):
        given = queue_request(tenant, specs, self.adapters, wait=wait, by=tenant.name)
        assert isinstance(given, SessionRequest), given
        return given.id

    def session(self, number):
        found = find_request(number, self.adapters, OPERATOR).session
        assert found is not None
        return found

    def outcome(self, number):
        found = find_request(number, self.adapters, OPERATOR).request
        return None if found is None else found.outcome


@pytest.fixture
def site(zookeeper):
    clock, machines = ManualClock(), SimulatedNodes()
    with PoolFleet(zookeeper, clock) as fleet, Session(zookeeper) as session:
        fleet.publish(DOCUMENT)
        fleet.add_nodes(2, kind="metal")
        with TestWorker(zookeeper, machines, clock) as worker:
            worker.settle()
            real = pool_adapters(session)
            adapters = replace(real, clock=clock, wait=lambda _: threading.Event().wait(0.01))
            yield Site(fleet, worker, machines, adapters, clock)


def test_a_request_shows_its_place_while_it_waits_and_ends_at_its_limit(site):
    first = site.queue(site.one, TWO)
    site.worker.settle()
    assert site.session(first).session.nodes
    second = site.queue(site.two, TWO)
    site.worker.settle()
    place = find_request(second, site.adapters, SessionActor("tenant2", 2)).place
    assert str(place) == "waiting: 1st of 1 for pool metal; 0 nodes ready of 2 wanted"
    assert [place.request.id for place in waiting_requests(site.adapters, OPERATOR)] == [second]
    assert waiting_requests(site.adapters, SessionActor("tenant1", 1)) == ()
    site.clock.time += 60
    site.worker.settle()
    assert "did not become ready within 60 s" in site.outcome(second)


def test_a_session_that_ends_serves_the_next_request_under_the_id_of_the_request(site):
    first = site.queue(site.one, TWO)
    site.worker.settle()
    second = site.queue(site.two, TWO, wait=1000)
    site.clock.time += 101
    site.worker.settle()
    found = site.session(second)
    assert {node.state for node in found.nodes} == {NodeState.DEPLOYED}
    assert (found.session.id, found.session.tenant, first in site.fleet.store.read().sessions) == (
        second,
        2,
        False,
    )
    assert site.fleet.store.read().waiting == {}


def test_a_request_that_does_not_wait_is_refused_at_once_if_the_queue_gives_its_nodes_to_an_older_one(site):
    site.queue(site.one, ONE)
    refused = request_session(site.two, ONE, site.adapters, by="tenant2")
    assert isinstance(refused, RequestRefusal)
    assert refused.problem is RequestProblem.TOO_FEW
    assert refused.message == "can't reserve nodes: other requests wait for nodes of metal; wait, too"
    assert site.fleet.states() == ["ready", "ready"]


def test_a_cancelled_request_reserves_nothing_and_only_its_tenant_may_cancel(site):
    number = site.queue(site.one, TWO)
    with pytest.raises(ForbiddenError, match=f"request {number} belongs to another tenant"):
        cancel_request(number, site.adapters, SessionActor("tenant2", 2))
    assert cancel_request(number, site.adapters, SessionActor("tenant1", 1)).outcome == "tenant1 cancelled it"
    site.worker.settle()
    assert site.fleet.states() == ["ready", "ready"]
    with pytest.raises(RetiredError, match="ended without a session: tenant1 cancelled it"):
        cancel_request(number, site.adapters, OPERATOR)
    refused = await_request(number, site.adapters, OPERATOR, lambda _: None)
    assert isinstance(refused, RequestRefusal)
    assert refused.problem is RequestProblem.NOT_SERVED
    site.clock.time += 3601
    site.worker.settle()
    with pytest.raises(NotFoundError, match=f"there is no request {number}"):
        find_request(number, site.adapters, OPERATOR)


def test_a_request_that_has_a_session_cannot_be_cancelled(site):
    number = site.queue(site.one, ONE)
    site.worker.settle()
    with pytest.raises(RefusedError, match=f"session {number} has its nodes; retire the session"):
        cancel_request(number, site.adapters, OPERATOR)


def test_requests_that_wait_for_a_quota_end_at_their_limit_also_without_a_worker(site):
    site.queue(site.one, TWO, wait=1000)
    site.worker.settle()
    over = site.queue(site.one, TWO, wait=50)
    seen = []

    def progress(found):
        seen.append(str(found.place))
        site.clock.time += 30

    refused = await_request(over, site.adapters, OPERATOR, progress)
    assert isinstance(refused, RequestRefusal)
    assert "no worker of the pools gave it nodes in time" in refused.message
    assert "the pool metal: requested nodes (2) + current allocation (2) = 4 > 3" in seen[0]


def test_a_request_keeps_waiting_after_nodes_that_could_not_be_prepared(site):
    site.machines.unreachable = {min(site.fleet.store.read().nodes)}
    number = site.queue(site.one, TWO, wait=1000)
    site.worker.settle()
    again = find_request(number, site.adapters, OPERATOR).request
    assert (again.failures, again.is_waiting, again.created_at) == (1, True, site.clock.time)
    site.fleet.add_nodes(1, kind="metal")
    site.worker.settle()
    assert {node.state for node in site.session(number).nodes} == {NodeState.DEPLOYED}


def test_several_workers_serve_one_queue_and_no_node_has_two_tenants(site, zookeeper):
    site.fleet.publish(DOCUMENT.replace("fill-level: 2", "fill-level: 8"))
    site.fleet.add_nodes(6, kind="metal")
    site.worker.settle()
    tenants = [site.fleet.add_tenant(number) for number in range(11, 19)]
    with TestWorker(zookeeper, site.machines, site.clock, name="w2") as other, ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda tenant: site.queue(tenant, ONE), tenants))
        list(pool.map(_settle, (site.worker, other)))
    read = site.fleet.store.read()
    assert sorted(read.sessions) == sorted(numbers)
    assert len({node for session in read.sessions.values() for node in session.nodes}) == 8


def _settle(worker):
    """Run cycles beside those of another worker until no request waits."""
    while worker.store.read().waiting:
        worker.worker.run_cycle()


def test_a_request_is_in_the_queue_once_if_the_answer_of_zookeeper_is_lost(site, monkeypatch):
    commit, failures = site.adapters.store.commit, [UnreachableError("lost")]

    def losing(change, read):
        commit(change, read)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(site.adapters.store, "commit", losing)
    number = site.queue(site.one, ONE)
    assert list(site.fleet.store.read().waiting) == [number]


def test_a_waiting_client_gets_its_session_when_the_nodes_are_prepared(site):
    number = site.queue(site.one, ONE)
    seen = []

    def progress(found):
        seen.append(found)
        site.worker.settle()

    given = await_request(number, site.adapters, OPERATOR, progress)
    assert isinstance(given, SessionDetails)
    assert [node.state for node in given.nodes] == [NodeState.DEPLOYED]
    assert seen[0].place is not None
