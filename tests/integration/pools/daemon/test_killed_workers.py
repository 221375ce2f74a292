"""Workers that are killed at each of their writes: every node and session is accounted for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pytest

from support.pools.simulated_nodes import SimulatedNodes
from support.pools.workers import PoolFleet, TestWorker
from support.waiting import ManualClock, wait_until
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.store.store import ZooKeeperPools

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.pools.rules.snapshot import PoolChange, PoolSnapshot
    from zkdeployment.zookeeper.session import Session

BOOKS = "mechanism: {type: ansible, ansible: {topdir: /srv, provision: {playbook: p}, deprovision: {playbook: d}}}"
DOCUMENT = f"""
  defaults: {{session-lifetime: 100, node-quota: 5}}
  nodepools:
    concrete:
      metal: {{{BOOKS}, fill-level: 1, reuse-nodes: {{kind: metal}}}}
      cloud: {{{BOOKS}, fill-level: 1}}
"""
REUSABLE = 2

#: The points at which workers are killed: one of so many parts in every commit, the others at night.
PARTS = 4


class Killed(SystemExit):
    """The end of a worker; a thread that it is raised in ends quietly."""


class Case:
    """One set of pools in a chroot of its own, whose worker is killed at the point with number ``kill_at``.

    There is a point before each write of the worker, and one after each claim: between a claim and the write of
    the result a worker changes machines.
    """

    def __init__(self, zookeeper: str, kill_at: int) -> None:
        self.clock, self.machines = ManualClock(), SimulatedNodes()
        self.kill_at, self.reached, self.is_dead = kill_at, 0, False
        self.fleet = PoolFleet(f"{zookeeper}/case{kill_at}", self.clock)

    def __enter__(self) -> Self:
        self.fleet.__enter__()
        self.worker = self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.end()
        self.fleet.__exit__()

    def _start(self) -> TestWorker:
        """Start a worker after the end of the previous worker's session."""
        self.is_dead = False

        def make_store(session: Session) -> ZooKeeperPools:
            return _MortalStore(session, self)

        worker = TestWorker(self.fleet.connection, self.machines, self.clock, make_store=make_store)
        worker.session.open()
        return worker

    def point(self) -> None:
        """Kill the worker here if it is time, and prevent all further effects of a dead worker."""
        self.reached += 1
        if self.reached == self.kill_at:
            self.is_dead = True
        if self.is_dead:
            raise Killed

    def drive(self, is_done: Callable[[PoolSnapshot], bool]) -> None:
        """Run cycles, of a new worker after each kill, until all work is done."""
        for _ in range(60):
            try:
                self.worker.worker.run_cycle()
                wait_until(lambda: not self.worker.tasks.busy, "the end of all tasks")
            except Killed:
                pass
            if self.is_dead:
                wait_until(lambda: not self.worker.tasks.busy, "the end of all threads")
                self.worker.end()
                self.worker = self._start()
            read = self.fleet.store.read()
            if not read.claimed and is_done(read):
                return
        raise AssertionError(f"not done: {read}")


class _MortalStore(ZooKeeperPools):
    def __init__(self, session: Session, case: Case) -> None:
        super().__init__(session)
        self._case = case

    def commit(self, change: PoolChange, read: PoolSnapshot) -> None:
        self._case.point()
        super().commit(change, read)
        if change.claimed:
            self._case.point()


def count(read: PoolSnapshot, state: NodeState, pool: str | None = None) -> int:
    return sum(node.state is state and pool in {None, node.pool} for node in read.nodes.values())


def is_full(read: PoolSnapshot) -> bool:
    """Whether both pools are at their level, without remaining work."""
    at_rest = {NodeState.READY, NodeState.UNUSED, NodeState.DEPLOYED, NodeState.FAILED}
    return all(count(read, NodeState.READY, pool) == 1 for pool in ("metal", "cloud")) and all(
        node.state in at_rest for node in read.nodes.values()
    )


def play(case: Case) -> None:
    """Fill the pools, lend nodes, fail to lend some, and let the session expire."""
    case.fleet.publish(DOCUMENT)
    case.fleet.add_nodes(REUSABLE, kind="metal")
    tenant = case.fleet.add_tenant(1)
    case.drive(is_full)
    first = case.fleet.request(tenant, metal=1, cloud=1)
    assert first is not None
    case.drive(is_full)
    read = case.fleet.store.read()
    assert [read.nodes[number].state for number in first.nodes] == [NodeState.DEPLOYED] * 2
    second = case.fleet.request(tenant, metal=1, cloud=1)
    assert second is not None
    case.machines.unreachable = {second.nodes[1]}
    case.drive(lambda read: second.id not in read.sessions and is_full(read))
    case.clock.time += 101
    case.drive(lambda read: not read.sessions and is_full(read))
    served, vain = case.fleet.queue(tenant, 50, metal=1, cloud=1), case.fleet.queue(tenant, 50, metal=2)
    case.drive(lambda read: served.id in read.sessions and count(read, NodeState.DEPLOYED) == 2)
    assert [*case.fleet.store.read().waiting] == [vain.id]
    case.clock.time += 51
    case.drive(lambda read: not read.waiting[vain.id].is_waiting)
    case.clock.time += 3601
    case.drive(lambda read: not read.waiting and not read.sessions and is_full(read))


def check(case: Case) -> None:
    """Check that each node, machine and session is accounted for."""
    read = case.fleet.store.read()
    assert case.machines.overlaps == []
    assert read.sessions == {}
    failed = [node.id for node in read.nodes.values() if node.state is NodeState.FAILED]
    assert failed == sorted(case.machines.unreachable)
    assert sum(node.reusable for node in read.nodes.values()) == REUSABLE
    in_use = {node.id for node in read.nodes.values() if node.state in {NodeState.READY, NodeState.FAILED}}
    assert case.machines.machines.keys() == in_use  # no machine was lost, and none is there for nothing
    assert all(key is None for number, key in case.machines.machines.items() if number not in failed)
    assert [len(session.nodes) for session in case.fleet.store.history(0)] == [2, 2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # a task was killed
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, PARTS))])
def test_workers_killed_at_each_write_neither_lose_nor_repeat_work(zookeeper: str, part: int):
    with Case(zookeeper, 0) as undisturbed:
        play(undisturbed)
        check(undisturbed)
        points = undisturbed.reached
    assert points >= 30
    for number in range(1 + part, points + 1, PARTS):
        with Case(zookeeper, number) as case:
            play(case)
            check(case)
