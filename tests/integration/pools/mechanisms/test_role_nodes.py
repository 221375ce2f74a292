"""Pools of hosts of the fleet: a real worker, real agents, a real ZooKeeper."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from support.agents import AgentHost, Fleet, called
from support.pools.builders import make_node
from support.pools.workers import KEY, PoolFleet, TestWorker
from support.waiting import ManualClock, wait_until
from zkdeployment.agent.rules.lease import TENANT_MARKER
from zkdeployment.base.errors import ProgramError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.pools.documents import AnsibleMechanism, NodePool, Playbook, RoleMechanism
from zkdeployment.pools.mechanisms.role_nodes import RoleNodes
from zkdeployment.pools.rules.node import NodeEvent, NodeState
from zkdeployment.pools.rules.results import MechanismOutcome
from zkdeployment.pools.rules.snapshot import PoolChange, retire
from zkdeployment.pools.store.leases import ZooKeeperLeases
from zkdeployment.zookeeper.session import Session

MECHANISM = "{type: role, role: {idle: spare, leased: ci}}"
DOCUMENT = f"{{nodepools: {{concrete: {{web: {{fill-level: 1, mechanism: {MECHANISM}}}}}}}}}"
NO_PLAYBOOKS: Any = None
POOL = NodePool("web", RoleMechanism("spare", "ci"), fill_level=1)
NODE = make_node(3, NodeState.PROVISIONING, changed=0.0, pool="web", reusable=True, host="h1")


@pytest.fixture
def pools(zookeeper: str) -> Iterator[PoolFleet]:
    with PoolFleet(zookeeper, SystemClock()) as fleet:
        yield fleet


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    """A host that can be leased; hosts of the role ci run foo."""
    fleet.service("/who/myfoo", "foo", "1.0", ci=1)
    fleet.set_version("r1")
    return fleet.host("h1", role="lease:spare", address="192.0.2.7")


def end(pools: PoolFleet, number: int) -> None:
    """End a session, as its tenant does."""
    read = pools.store.read()
    ended, released = retire(read.sessions[number], read.nodes.values(), pools.clock.now())
    pools.store.commit(PoolChange(nodes=released, sessions=(ended,)), read)


def test_a_host_is_filled_into_its_pool_lent_to_a_tenant_undeployed_and_used_again(fleet, host, pools, zookeeper):
    file = host.root / "root/.ssh/authorized_keys"
    with host.agent(), TestWorker(zookeeper, NO_PLAYBOOKS, pools.clock) as worker:
        worker.begin()
        host.wait_for_version("r1")
        pools.publish(DOCUMENT)
        wait_until(lambda: pools.states("web") == ["ready"], "the pool is full")
        (node,) = pools.store.read().nodes.values()
        assert (node.host, node.hostname, node.ipaddr) == ("h1", "h1.example.com", "192.0.2.7")
        assert fleet.calls() == called("/who/myfoo 0")
        session = pools.request(pools.add_tenant(5), web=1)
        wait_until(lambda: pools.states("web") == ["deployed"], "the session begins")
        assert file.read_text() == f"{TENANT_MARKER}\n{KEY}\n"
        host.fail("/who/myfoo 0")  # it is not filled again
        end(pools, session.id)
        wait_until(
            lambda: pools.states() == ["unused"] and pools.store.read().filling["web"].failures, "it is back"
        )
        assert (file.parent.exists(), host.markers) == (False, [])
        assert fleet.calls()[2:4] == called("-u /who/myfoo 0")
        record = pools.store.read().filling["web"]
        assert "host h1, did not take the role ci: " in record.reason
        assert "/who/myfoo 0 failed with exit status 3" in record.reason
        wait_until(lambda: host.node.get("role") == "spare" and "leased" in host.node, "the host is idle again")
    assert fleet.version == "r1"


class Worker:
    """A mechanism whose calls run in threads, with a clock that the test sets."""

    def __init__(self, session: Session) -> None:
        self.clock = ManualClock()
        self.stopped = threading.Event()
        self.leases = ZooKeeperLeases(session)
        self.looks = 0
        self.mechanism = RoleNodes(self.leases, self.clock, self._counted, NO_PLAYBOOKS)
        self.results: list[object] = []

    def _counted(self) -> bool:
        """Answer whether the worker has to end, which it asks at each check."""
        self.looks += 1
        return self.stopped.is_set()

    def run(self, call: Callable[..., object], *arguments: object) -> threading.Thread:
        """Begin a call; its result, or its error, is added to ``results``."""

        def keep() -> None:
            try:
                self.results.append(call(*arguments))
            except ProgramError as error:
                self.results.append(error)

        thread = threading.Thread(target=keep)
        thread.start()
        return thread

    def outcome(self, call: Callable[..., object], *arguments: object, after: float = 0.0) -> Any:
        """Return the result of a call that waits for its host until this many seconds have passed."""
        before = self.leases.observe("h1").lease
        thread = self.run(call, *arguments)
        wait_until(lambda: self.leases.observe("h1").lease != before, "the lease is written")
        while thread.is_alive():
            self.clock.time += after
            thread.join(0.1)
        return self.results[-1]


@pytest.fixture
def worker(zookeeper: str) -> Iterator[Worker]:
    with Session(zookeeper, create_chroot=True) as session:
        yield Worker(session)


def states(outcome: MechanismOutcome) -> list[str]:
    return [node.state.value for node in outcome.nodes]


def test_a_host_that_does_not_reach_its_lease_in_time_is_given_back(fleet, host, worker):
    failed = worker.outcome(worker.mechanism.provision, POOL, [NODE], after=301)
    assert (states(failed), worker.leases.observe("h1").lease.role) == (["unused"], "spare")
    assert "the host is not registered: its agent does not run" in failed.problems[0]
    fleet.set_version(None)
    with host.agent():
        wait_until(lambda: host.node.get("lease") == "spare", "it is registered")
        # The time of a stop does not count.
        thread = worker.run(worker.mechanism.provision, POOL, [NODE])
        wait_until(lambda: worker.leases.observe("h1").lease.role == "ci", "the lease is written")
        worker.clock.time += 7200
        looks = worker.looks
        wait_until(lambda: worker.looks > looks + 1, "the worker has looked since")
        fleet.set_version("r1")
        thread.join()
        assert states(worker.results[-1]) == ["ready"]
    worker.leases.give("h1", "ci", ())
    releasing = replace(NODE, state=NodeState.DEPROVISIONING)
    failed = worker.outcome(worker.mechanism.deprovision, POOL, [releasing], after=301)
    assert states(failed) == ["failed"]
    assert "the host did not take its idle role spare: not within" in failed.nodes[0].data["error"]["detail"]
    error = worker.outcome(worker.mechanism.write_keys, NODE, (KEY,), after=61)
    assert "host h1 did not confirm its keys: not within" in str(error)
    assert worker.leases.observe("h1").lease.keys == ()  # the host never admits them, whenever it continues


def test_a_worker_that_was_frozen_gives_no_keys_of_a_session_that_has_ended(worker):
    worker.leases.give("h1", "ci", ())
    with pytest.raises(ProgramError, match="the host h1 gets no keys: session 4 has ended"):
        worker.leases.give("h1", None, (KEY,), 4)
    assert worker.leases.observe("h1").lease.keys == ()


def test_a_successor_continues_with_the_same_lease_and_a_worker_that_ends_gives_up(fleet, host, worker):
    thread = worker.run(worker.mechanism.provision, POOL, [NODE])
    wait_until(lambda: worker.leases.observe("h1").lease is not None, "the lease is written")
    worker.stopped.set()
    thread.join()
    assert str(worker.results[-1]) == "the worker ends"
    worker.stopped.clear()
    with host.agent():
        ready = worker.mechanism.provision(POOL, [NODE])
        assert (states(ready), host.node["leased"]) == (["ready"], {"role": "ci", "number": 1})
        fleet.remove("/zkdeployment/pools/leases/h1")
        wait_until(lambda: host.node.get("leased") == {"role": "spare", "number": 0}, "idle")
        assert worker.leases.give("h1", "ci", ()).number == 1


def test_a_worker_that_must_end_takes_no_keys_from_a_host(worker):
    worker.leases.give("h1", "ci", [KEY])
    worker.stopped.set()
    with pytest.raises(ProgramError, match="the worker ends"):
        worker.mechanism.remove_keys(NODE)
    assert worker.leases.observe("h1").lease.keys == (KEY,)


def test_a_host_whose_undeployment_failed_tries_again_when_its_node_is_forgiven(host, worker):
    releasing = replace(NODE, state=NodeState.DEPROVISIONING)
    with host.agent():
        assert states(worker.mechanism.provision(POOL, [NODE])) == ["ready"]
        failing = host.fail("-u /who/myfoo 0")
        failed = worker.mechanism.deprovision(POOL, [releasing])
        assert states(failed) == ["failed"]
        assert "failed with exit status 3" in failed.nodes[0].data["error"]["detail"]
        failing.unlink()
        forgiven = worker.mechanism.deprovision(POOL, [failed.nodes[0].after(NodeEvent.FORGIVEN, 9)])
        assert (states(forgiven), host.node["role"], host.markers) == (["unused"], "spare", [])


def test_a_malformed_lease_concerns_its_own_host_only(host, worker, client):
    malformed = "/zkdeployment/pools/leases/h2"
    client.create(malformed, b"[]", makepath=True)
    other = replace(NODE, id=4, host="h2")
    with host.agent():
        outcome = worker.mechanism.provision(POOL, [NODE, other])
        assert (states(outcome), host.node["role"]) == (["ready", "unused"], "ci")
        assert outcome.problems[0].startswith(
            f"node 4, host h2, did not take the role ci: {malformed} is not a lease"
        )
        with pytest.raises(ProgramError, match=r"host h2 cannot get its keys: .* is not a lease"):
            worker.mechanism.write_keys(other, (KEY,))
        # The host returns to the idle role of its own configuration, whatever the pool says now.
        changed = replace(POOL, mechanism=RoleMechanism("another", "ci"))
        releasing = [replace(node, state=NodeState.DEPROVISIONING) for node in (NODE, other)]
        outcome = worker.mechanism.deprovision(changed, releasing)
        assert (states(outcome), host.node["role"]) == (["unused", "failed"], "spare")
        assert f"{malformed} is not a lease" in outcome.nodes[1].data["error"]["detail"]
        client.set("/zkdeployment/pools/leases/h1", b"{}")
        failed = worker.mechanism.provision(POOL, [NODE])
        assert (states(failed), len(failed.problems)) == (["unused"], 1)
        assert (
            "its idle role cannot be given back: /zkdeployment/pools/leases/h1 is not a lease"
            in failed.problems[0]
        )


def test_concurrent_changes_of_a_lease_get_different_numbers(worker):
    threads = [worker.run(worker.leases.give, "h1", f"role{number}", ()) for number in range(8)]
    for thread in threads:
        thread.join()
    assert sorted(lease.number for lease in worker.results) == list(range(1, 9))


class Reset:
    """A playbook that resets hosts: it records what it gets and the lease of the host, and returns an output."""

    def __init__(self, leases: ZooKeeperLeases, output: object) -> None:
        self._leases, self._output = leases, output
        self.seen: list[Any] = []

    def run(self, mechanism: Any, playbook: Any, values: Any, nodes: Any) -> object:
        lease = self._leases.observe("h1").lease
        self.seen.append((mechanism.topdir, playbook.playbook, values, nodes[0]["data"], lease and lease.role))
        return self._output


@pytest.mark.parametrize("is_reset", [True, False], ids=["reset", "not in the result"])
def test_a_host_is_reset_by_a_playbook_after_it_got_its_idle_role_and_before_it_counts_as_clean(
    fleet, host, zookeeper, is_reset
):
    result = {"ipaddr": "192.0.2.7"}
    pool = replace(POOL, mechanism=replace(POOL.mechanism, reset=AnsibleMechanism("/srv", Playbook("reset.yml"))))
    node = replace(NODE, state=NodeState.DEPROVISIONING, data={"provision": result})
    with host.agent(), Session(zookeeper) as session:
        host.wait_for_version("r1")
        leases = ZooKeeperLeases(session)
        playbooks: Any = Reset(leases, {"nodes": [result] if is_reset else []})
        mechanism = RoleNodes(leases, SystemClock(), lambda: False, playbooks)
        fleet.lease("h1", "ci", 1)
        wait_until(lambda: host.node.get("leased") == {"role": "ci", "number": 1}, "the role")
        outcome = mechanism.deprovision(pool, [node])
    assert playbooks.seen == [("/srv", "reset.yml", {}, {"provision": result}, "spare")]
    assert [ended.state for ended in outcome.nodes] == [NodeState.UNUSED if is_reset else NodeState.FAILED]
    assert bool(outcome.problems) != is_reset
