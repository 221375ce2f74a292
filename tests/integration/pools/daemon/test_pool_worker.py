"""Workers of host pools on a real ZooKeeper, with simulated machines."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from support.pools.simulated_nodes import SimulatedNodes
from support.pools.workers import KEY, PoolFleet, TestWorker
from support.waiting import UNLIMITED, ManualClock, wait_until
from support.zookeeper import renew_session, through
from zkdeployment.base.errors import AbandonedError, ConflictError, ProgramError, TreeError, UnreachableError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.pools.acts.sessions import SessionActor, SessionDetails, request_session, retire_session
from zkdeployment.pools.daemon import NodeProbes
from zkdeployment.pools.opening import pool_adapters
from zkdeployment.pools.rules.snapshot import NodesSpec
from zkdeployment.pools.store.store import ZooKeeperPools
from zkdeployment.zookeeper.session import Session

BOOKS = "mechanism: {type: ansible, ansible: {topdir: /srv, provision: {playbook: p}, deprovision: {playbook: d}}}"
METAL = f"metal: {{{BOOKS}, fill-level: 2, reuse-nodes: {{kind: metal}}}}"
CLOUD = f"cloud: {{{BOOKS}, fill-level: 2, run-parallel: false}}"


def document(*pools: str, quota: int = 5) -> str:
    defaults = f"{{session-lifetime: 100, session-lifetime-max: 200, node-quota: {quota}}}"
    return f"{{defaults: {defaults}, nodepools: {{concrete: {{{', '.join(pools)}}}}}}}"


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
    fleet.publish(document(METAL, CLOUD))
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
    clock.time += 99
    worker.settle()
    assert list(fleet.store.read().sessions) == [session.id]
    clock.time += 1
    worker.settle()
    read = fleet.store.read()
    assert (read.sessions, read.claimed) == ({}, frozenset())
    assert fleet.store.session(session.id).retired_at == clock.time
    assert sorted(fleet.states()) == ["ready"] * 4 + ["unused"]
    assert set(machines.machines.values()) == {None}
    assert len(machines.machines) == 4
    assert [fleet.store.node(number).state.value for number in session.nodes].count("done") == 1


def test_of_a_session_that_cannot_be_prepared_the_good_nodes_are_ready_again(worker, fleet, machines):
    worker.settle()
    good, bad = sorted(machines.machines)
    machines.unreachable = {bad}
    session = fleet.request(fleet.add_tenant(1), cloud=2)
    worker.settle()
    read = fleet.store.read()
    assert (read.sessions, fleet.store.session(session.id)) == ({}, None)
    assert (read.nodes[good].state.value, read.nodes[bad].state.value) == ("ready", "failed")
    assert "no route" in read.nodes[bad].data["error"]["detail"]
    assert machines.machines[good] is None
    assert fleet.states("cloud").count("ready") >= 2  # more, if the pool was filled before the session failed


def test_a_tenant_without_a_key_gets_no_session_and_no_node_fails(worker, fleet):
    worker.settle()
    fleet.request(fleet.add_tenant(1, key=None), cloud=2)
    worker.settle()
    assert fleet.store.read().sessions == {}
    assert set(fleet.states("cloud")) == {"ready"}


def test_failures_of_provisioning_are_tried_again_later_and_later(worker, fleet, machines, clock):
    machines.failing = set(range(1, 99))
    worker.settle()
    assert (fleet.states(), len(machines.made)) == ([], 1)
    record = fleet.store.read().filling["cloud"]
    assert (record.failures, record.last_failure) == (1, clock.time)
    assert "was not provisioned" in record.reason
    clock.time += 59
    worker.settle()
    assert len(machines.made) == 1
    assert worker.worker.run_cycle() == 1
    clock.time += 1
    worker.settle()
    assert (len(machines.made), fleet.store.read().filling["cloud"].failures) == (2, 2)
    machines.failing = set()
    clock.time += 120
    worker.settle()
    assert (fleet.states("cloud"), fleet.store.read().filling["cloud"].failures) == (["ready", "ready"], 0)


def test_nodes_of_a_pool_that_leaves_the_document_are_deprovisioned_with_its_last_values(worker, fleet, machines):
    worker.settle()
    session = fleet.request(fleet.add_tenant(1), cloud=1)
    worker.settle()
    fleet.publish(document(METAL))
    worker.settle()
    assert fleet.states("cloud") == ["deployed"]
    fleet.add_tenant(1, retired_at=5.0)
    worker.settle()
    assert (fleet.states(), machines.machines) == ([], {})
    assert fleet.store.session(session.id).retired_at is not None


def test_a_document_that_cannot_be_read_changes_nothing_and_is_reported(worker, fleet, capsys):
    worker.settle()
    fleet.publish("{later: version}")
    assert [worker.worker.run_cycle(), worker.worker.run_cycle()] == [1, 2]
    assert capsys.readouterr().out.count("pools-cycle-failed") == 1
    assert fleet.states("cloud") == ["ready", "ready"]
    fleet.publish(document(CLOUD))
    wait_until(lambda: worker.worker.run_cycle() == 300, "a cycle with the document that can be read")
    assert "pools-recovered" in capsys.readouterr().out


def test_a_worker_acts_at_once_on_documents_requests_and_retired_tenants(zookeeper, machines, fleet):
    fleet.clock = SystemClock()
    with TestWorker(zookeeper, machines, fleet.clock) as running:
        running.begin()
        wait_until(lambda: fleet.store.read().workers == ("w1",), "the worker")
        fleet.publish(document(CLOUD))
        wait_until(lambda: fleet.states("cloud") == ["ready", "ready"], "a filled pool")
        tenant = fleet.add_tenant(1)
        fleet.request(tenant, cloud=1)
        wait_until(lambda: sorted(fleet.states("cloud")) == ["deployed", "ready", "ready"], "a session")
        fleet.add_tenant(1, retired_at=5.0)
        wait_until(lambda: fleet.states() == ["ready", "ready"], "the end of the session")


def test_a_worker_that_is_asked_to_end_leaves_its_work_to_another(zookeeper, machines, clock, fleet):
    fleet.publish(document(CLOUD))
    machines.working.clear()
    with TestWorker(zookeeper, machines, SystemClock()) as first:
        first.begin()
        wait_until(lambda: first.tasks.busy, "a task")
        machines.must_end.set()
        first.end()
        assert not first.tasks.busy
    assert fleet.states("cloud") == ["provisioning", "provisioning"]
    assert fleet.store.read().filling["cloud"].failures == 0
    machines.must_end.clear()
    machines.working.set()
    with TestWorker(zookeeper, machines, clock, name="w2") as second:
        second.settle()
    assert fleet.states("cloud") == ["ready", "ready"]
    assert machines.made == [[1, 2]]


def test_a_worker_that_lost_its_claims_gives_its_work_up_and_begins_again(worker, fleet, machines):
    machines.working.clear()
    worker.worker.run_cycle()
    worker.worker.run_cycle()
    assert worker.tasks.busy == fleet.store.read().claimed == {1, 2}
    renew_session(worker.session)
    worker.worker.run_cycle()
    assert worker.tasks.must_end
    machines.working.set()
    wait_until(lambda: not worker.tasks.busy, "the end of the abandoned task")
    worker.settle()
    assert fleet.states("cloud") == ["ready", "ready"]
    assert machines.overlaps == []


def test_a_worker_that_lost_its_claims_leaves_the_keys_of_a_session_to_its_successor(
    worker, fleet, machines, monkeypatch
):
    worker.settle()
    good, bad = sorted(machines.machines)
    write, begun, over = machines.write_keys, threading.Event(), threading.Event()

    def hanging(node, keys):
        if node.id == bad:
            begun.set()
            assert over.wait(UNLIMITED)
            raise ProgramError("no route")
        return write(node, keys)

    monkeypatch.setattr(machines, "write_keys", hanging)
    fleet.request(fleet.add_tenant(1), cloud=2)
    worker.worker.run_cycle()
    assert begun.wait(UNLIMITED)
    wait_until(lambda: machines.machines[good] == KEY, "the key of the other node")
    renew_session(worker.session)
    worker.worker.run_cycle()
    assert worker.tasks.must_end
    over.set()
    wait_until(lambda: not worker.tasks.busy, "the end of the abandoned task")
    assert machines.machines[good] == KEY


def test_a_worker_that_is_cut_off_gives_its_work_up_before_others_may_begin_it(zookeeper, proxy, machines, fleet):
    fleet.clock = SystemClock()
    fleet.publish(document(CLOUD))
    machines.working.clear()
    with TestWorker(through(proxy, zookeeper), machines, fleet.clock, session_timeout=20) as worker:
        worker.begin()
        wait_until(lambda: worker.tasks.busy, "a task that hangs")
        proxy.freeze()
        wait_until(lambda: worker.tasks.must_end, "the end of the task")
        assert fleet.store.read().claimed
        proxy.heal()
        machines.working.set()
        wait_until(lambda: fleet.states("cloud") == ["ready", "ready"], "the work is done again")
    assert machines.overlaps == []


def test_a_worker_runs_four_playbooks_of_a_pool_at_once_and_leaves_the_others_to_other_workers(
    worker, fleet, machines
):
    machines.working.clear()
    fleet.publish(document(METAL.replace("fill-level: 2", "fill-level: 6")))
    fleet.add_nodes(6, kind="metal")
    worker.worker.run_cycle()
    worker.worker.run_cycle()
    assert len(worker.tasks.busy) == len(fleet.store.read().claimed) == 4
    with TestWorker(fleet.connection, machines, fleet.clock, name="w2") as other:
        other.worker.run_cycle()
        assert len(other.tasks.busy) == 2
        machines.working.set()
        other.settle()
    worker.settle()
    assert fleet.states("metal") == ["ready"] * 6


def test_hanging_playbooks_of_a_pool_delay_no_key_and_no_other_pool(zookeeper, fleet):
    class Hanging(SimulatedNodes):
        """Machines of the pool ``metal`` are never made, and never removed."""

        def provision(self, pool, nodes):
            return self._stuck(pool) or super().provision(pool, nodes)

        def deprovision(self, pool, nodes):
            return self._stuck(pool) or super().deprovision(pool, nodes)

        def _stuck(self, pool):
            if pool.name == "metal" and self.machines.get(99) is not None:
                self.must_end.wait()
                raise ProgramError("was ended with this program")

    fleet.clock, machines = SystemClock(), Hanging()
    fleet.publish(document(METAL.replace("fill-level: 2", "fill-level: 9"), CLOUD, quota=20))
    fleet.add_nodes(9, kind="metal")
    # A session that a busy machine does not lose: these playbooks do not end when their claims are lost.
    with TestWorker(zookeeper, machines, fleet.clock, session_timeout=60.0) as worker:
        worker.settle()
        held = fleet.request(fleet.add_tenant(1), metal=9, cloud=2)
        worker.settle()
        machines.machines[99] = "hangs"
        fleet.add_nodes(9, kind="metal")
        worker.begin()
        wait_until(lambda: len(worker.tasks.busy) == 4, "four playbooks that hang")
        pools = pool_adapters(worker.session)
        retire_session(held.id, pools, SessionActor("ann"))
        try:
            wait_until(
                lambda: not {*held.nodes} & machines.machines.keys() - {*held.nodes[:9]}, "removed machines"
            )
            wait_until(lambda: fleet.states("cloud") == ["ready", "ready"], "a pool that is filled again")
            assert [machines.machines[number] for number in held.nodes[:9]] == [None] * 9
            wait_until(lambda: len(worker.tasks.busy) == 8, "four more playbooks that hang")
        finally:
            machines.must_end.set()


def test_claims_whose_transaction_had_no_answer_are_released(zookeeper, machines, clock, fleet):
    class Deaf(ZooKeeperPools):
        """A store that loses the answers to the first claims."""

        lost = 0

        def commit(self, change, read):
            super().commit(change, read)
            if change.claimed and self.lost < 2:
                self.lost += 1
                raise UnreachableError("the answer was lost")

    fleet.publish(document(CLOUD))
    with TestWorker(zookeeper, machines, clock, make_store=Deaf) as deaf:
        deaf.settle()
        assert deaf.store.lost == 2
    assert fleet.states("cloud") == ["ready", "ready"]
    assert machines.made == [[1, 2]]


def test_a_worker_whose_results_are_always_overtaken_ends_when_it_is_asked_to(zookeeper, machines, clock, fleet):
    class Overtaken(ZooKeeperPools):
        """A store that writes no result."""

        attempts = 0

        def commit(self, change, read):
            if change.released:
                self.attempts += 1
                raise ConflictError("another process was faster")
            super().commit(change, read)

    fleet.publish(document(CLOUD))
    with TestWorker(zookeeper, machines, clock, make_store=Overtaken) as overtaken:
        overtaken.worker.run_cycle()
        overtaken.worker.run_cycle()
        wait_until(lambda: overtaken.store.attempts > 1, "the result is written again")
        overtaken.control.stop()
        assert overtaken.tasks.join(UNLIMITED)
    assert fleet.states("cloud") == ["provisioning", "provisioning"]


def test_a_change_that_is_too_large_is_reported_and_hinders_no_other(zookeeper, machines, clock, fleet, capsys):
    class Small(ZooKeeperPools):
        """A store that cannot hold the nodes of one pool, nor the claims of some nodes."""

        is_small = True
        names, claims = frozenset({"cloud"}), frozenset({1})

        def commit(self, change, read):
            if self.is_small and (self.names & change.filling.keys() or self.claims & change.claimed):
                raise TreeError("the changes take too many bytes")
            super().commit(change, read)

    fleet.publish(document(CLOUD, METAL))
    fleet.add_nodes(2, kind="metal")
    with TestWorker(zookeeper, machines, clock, make_store=Small) as worker:
        worker.settle()
        assert worker.worker.run_cycle() == 300
        assert (fleet.states("metal"), fleet.states("cloud")) == (["provisioning", "ready"], [])
        written = capsys.readouterr().out
        worker.store.is_small = False
        worker.settle()
    for what in ("pool-filling (pool cloud, ", "pool-task-started (provision, 1 nodes from 1)"):
        assert what in written
    assert "the changes take too many bytes" in written
    assert fleet.states("metal") == fleet.states("cloud") == ["ready", "ready"]
    assert "pools-recovered" in capsys.readouterr().out


def test_three_workers_and_fifty_tenants_share_too_few_nodes_fairly(zookeeper, machines, fleet):
    fleet.clock, nodes = SystemClock(), 12
    fleet.publish(document(METAL.replace("2", str(nodes), 1), quota=2))
    tenants = [fleet.add_tenant(number) for number in range(1, 51)]
    fleet.add_nodes(nodes, kind="metal")
    given: list[SessionDetails] = []
    with ExitStack() as stack:
        for name in ("w1", "w2", "w3"):
            stack.enter_context(TestWorker(zookeeper, machines, fleet.clock, name=name)).begin()
        sessions = [stack.enter_context(Session(zookeeper)) for _ in range(4)]
        pools = [pool_adapters(session) for session in sessions]
        wait_until(lambda: fleet.states() == ["ready"] * nodes, "a full pool")

        def ask(number: int, quantity: int) -> None:
            adapters = pools[number % len(pools)]
            found = request_session(
                tenants[number], (NodesSpec("metal", quantity),), adapters, by=tenants[number].name
            )
            if isinstance(found, SessionDetails):
                given.append(found)

        threads = [threading.Thread(target=ask, args=(number, 1 + number % 2)) for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not any(thread.is_alive() for thread in threads)
        taken = [node for details in given for node in details.session.nodes]
        assert len(taken) == len(set(taken)) >= nodes - 1
        assert all(len(details.session.nodes) <= 2 for details in given)
        read = fleet.store.read()
        assert sorted(read.sessions) == sorted(details.session.id for details in given)
        for details in given:
            retire_session(details.session.id, pools[0], SessionActor("root@adm"))
        wait_until(lambda: fleet.states() == ["ready"] * nodes, "all nodes back in the pool")
    read = fleet.store.read()
    assert (read.sessions, read.claimed, read.workers, machines.overlaps) == ({}, frozenset(), (), [])
    assert sorted(machines.machines.items()) == [(number, None) for number in range(1, nodes + 1)]


def test_a_session_gets_the_key_that_its_tenant_had_when_the_nodes_were_reserved(
    zookeeper, machines, clock, fleet
):
    waiting = []

    class SlowPools(ZooKeeperPools):
        """Requests are written just before they are read."""

        def read(self):
            while waiting:
                waiting.pop()()
            return super().read()

    fleet.publish(document(CLOUD))
    fleet.add_tenant(1, f"{KEY}-lost")
    with TestWorker(zookeeper, machines, clock, make_store=SlowPools) as worker:
        worker.settle()
        waiting.append(lambda: fleet.request(fleet.add_tenant(1), cloud=1))
        worker.worker.run_cycle()
        worker.settle()
        waiting.append(lambda: fleet.request(fleet.add_tenant(2), cloud=1))
        worker.worker.run_cycle()
        worker.settle()
    assert fleet.states("cloud").count("deployed") == 2
    assert list(machines.machines.values()).count(KEY) == 2


def test_ready_nodes_are_probed_by_one_worker_and_silent_nodes_are_not_lent_meanwhile(
    zookeeper, fleet, machines, clock
):
    fleet.publish(document(f"cloud: {{{BOOKS}, fill-level: 2}}"))
    tenant = fleet.add_tenant(1)
    with (
        TestWorker(zookeeper, machines, clock, name="w1") as first,
        TestWorker(zookeeper, machines, clock, name="w2") as second,
    ):
        first.settle()
        second.settle()
        machines.unreachable = {1}
        clock.time += 301

        def is_marked():
            second.worker.run_cycle()
            first.worker.run_cycle()
            return "unreachable" in fleet.store.read().nodes[1].data

        wait_until(is_marked, "the probe")
        assert fleet.store.read().nodes[1].data["unreachable"]["detail"] == "no route to 192.0.2.1"
        assert fleet.request(tenant, cloud=1).nodes == (2,)
        machines.unreachable = set()
        clock.time += 301

        def is_ready():
            first.worker.run_cycle()
            return fleet.store.read().nodes[1].is_ready

        wait_until(is_ready, "the next probe")


def test_a_probe_that_was_abandoned_says_nothing_about_its_node():
    def abandoned():
        raise AbandonedError("this worker must not continue")

    def silent():
        raise ProgramError("no route")

    ended = threading.Event()
    probes = NodeProbes(ended.set)
    probes.begin({1: abandoned, 2: silent, 3: lambda: None})
    assert ended.wait(UNLIMITED)
    assert probes.take() == {2: "no route", 3: ""}
