"""A host that is frozen while it should admit a tenant: its lease loses the keys, wherever a worker is killed."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.pools.builders import make_node
from support.pools.workers import KEY, PoolFleet, TestWorker
from support.waiting import ManualClock, wait_until
from zkdeployment.base.host import Host, Identity
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.snapshot import PoolChange, PoolSnapshot, retire
from zkdeployment.pools.store.leases import ZooKeeperLeases
from zkdeployment.pools.store.store import ZooKeeperPools
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.agent.rules.lease import Lease

POOL = "{web: {mechanism: {type: role, role: {idle: spare, leased: ci}}}}"
OTHER = "{web: {mechanism: {type: ansible, ansible: {topdir: /srv, provision: {playbook: p}}}}}"
DOCUMENT = "{{defaults: {{session-lifetime: 90000}}, nodepools: {{concrete: {}}}}}"
HOST = "/zkdeployment/hosts/h1"


class Killed(SystemExit):
    """The end of a worker; a thread that it is raised in ends quietly."""


class Case:
    """A pool with one ready host, which is frozen; a worker is killed at the point with number ``kill_at``."""

    def __init__(self, zookeeper: str, kill_at: int) -> None:
        self.clock, self.kill_at, self.reached = ManualClock(), kill_at, 0
        self.is_dead = self.is_late = False
        self.fleet = PoolFleet(f"{zookeeper}/frozen{kill_at}", self.clock)
        self.session = Session(self.fleet.connection, create_chroot=True)
        self.leases = ZooKeeperLeases(self.session)

    def point(self) -> None:
        """Kill the worker here if it is time, and prevent all further effects of a dead worker."""
        self.reached += 1
        self.is_dead = self.is_dead or self.reached == self.kill_at
        if self.is_dead:
            raise Killed

    def pass_a_minute(self) -> None:
        """Let a minute pass, and wake the worker that waits for the host."""
        self.clock.time += 61
        self.session.commit(Set(HOST, self.host))

    def prepare(self) -> None:
        """Make the host a ready node of the pool."""
        self.fleet.publish(DOCUMENT.format(POOL))
        lease = self.leases.give("h1", "ci", ())
        shown = Host(Identity("h1", "h1.example.com", "ci"), idle_role="spare", leased=lease.reached)
        self.host = json.dumps(shown.properties()).encode()
        self.session.ensure(HOST, self.host)
        node = make_node(1, NodeState.READY, changed=0.0, pool="web", reusable=True, host="h1")
        (number,) = self.fleet.store.take_ids(1)
        self.fleet.store.commit(PoolChange(nodes=(replace(node, id=number),)), PoolSnapshot())

    def run_worker(self) -> None:
        """Run the cycles of a worker until it is killed, or until the session is gone and its node is at rest."""

        class Store(ZooKeeperPools):
            def commit(store, change: PoolChange, read: PoolSnapshot) -> None:  # noqa: N805
                self.is_late |= bool(change.dropped and self.keys())  # the lease comes first
                self.point()
                super().commit(change, read)
                self.point()

        class Leases(ZooKeeperLeases):
            def give(leases, *given: Any) -> Lease:  # noqa: N805
                self.point()
                lease = super().give(*given)
                self.point()
                return lease

        self.is_dead = False
        worker = TestWorker(
            str(self.fleet.connection), _NO_MACHINES, self.clock, make_store=Store, make_leases=Leases
        )
        with worker:
            for _ in range(_CYCLES):
                if self.is_dead or self.is_settled():
                    return
                with suppress(Killed):
                    worker.worker.run_cycle()
                    wait_until(lambda: not worker.tasks.busy or self.pass_a_minute(), "the end of all tasks")
        raise AssertionError(f"not settled: {self.fleet.store.read()}")

    def is_settled(self) -> bool:
        read = self.fleet.store.read()
        states = {node.state for node in read.nodes.values()}
        return not read.sessions and not read.claimed and states <= {NodeState.FAILED, NodeState.UNUSED}

    def keys(self) -> Sequence[str]:
        lease = self.leases.observe("h1").lease
        assert lease is not None
        return lease.keys


_NO_MACHINES: Any = None

#: The most cycles of a worker; a few are enough.
_CYCLES = 60


def end_session(case: Case) -> None:
    read = case.fleet.store.read()
    for session in read.sessions.values():
        ended, released = retire(session, read.nodes.values(), case.clock.now())
        case.fleet.store.commit(PoolChange(nodes=released, sessions=(ended,)), read)


def nothing(_case: Case) -> None:
    """Let the next worker continue."""


def end_session_and_change_pool(case: Case) -> None:
    end_session(case)
    case.fleet.publish(DOCUMENT.format(OTHER))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # a task was killed
@pytest.mark.parametrize(
    "then",
    [
        pytest.param(nothing, marks=pytest.mark.nightly),
        pytest.param(end_session, marks=pytest.mark.nightly),
        end_session_and_change_pool,
    ],
)
def test_a_host_that_was_frozen_when_its_session_ended_finds_no_key_in_its_lease(
    zookeeper: str, then: Any
) -> None:
    number, reached = 0, 1
    while number <= reached:
        case = Case(f"{zookeeper}/{then.__name__}", number)
        with case.session, case.fleet:
            case.prepare()
            assert case.fleet.request(case.fleet.add_tenant(1, KEY), web=1) is not None
            case.run_worker()
            if case.is_dead:
                then(case)
                case.run_worker()
            assert (case.keys(), case.is_late) == ((), False), number
        reached, number = reached if number else case.reached, number + 1
    assert reached >= 8
