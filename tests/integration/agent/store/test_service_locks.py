"""Locks of service nodes: the record of work under a lock, and the lock delay after the holder's session ended."""

from __future__ import annotations

import json
import re
import threading
import time

import pytest

from support.waiting import wait_until
from support.zookeeper import expire_session, renew_session, sent_requests, through
from zkdeployment.agent.files.run_directory import JoinedQueues
from zkdeployment.agent.store import service_locks
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.agent.store.service_locks import LockDelay, ZooKeeperServiceLock
from zkdeployment.base.act import Act
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.errors import ConflictError, LockLostError, UnreachableError
from zkdeployment.base.host import Host, Identity
from zkdeployment.fleet.store.cluster_control import ZooKeeperMaintenance
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.views.maintenance import HostSelection
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Delete, make_skeleton

NAME = "web,shop"
LOCK = f"/agent-locks/{NAME}"
RECORD = f"/zkdeployment/busy/{NAME}"
ONE = Identity("1", "one.example.com")
TWO = Identity("2", "two.example.com")


@pytest.fixture(autouse=True)
def bootstrapped(session):
    make_skeleton(session)


def lock(session, identity=ONE, *, delay: float | LockDelay = 60.0):
    return ZooKeeperServiceLock(
        session, NAME, identity, delay if isinstance(delay, LockDelay) else LockDelay(delay)
    )


def lose_session_during_step(session, identity=ONE):
    """Return a lock whose session was lost during a step."""
    held = lock(session, identity)
    assert held.try_acquire()
    held.begin("deploy /web/shop 0")
    renew_session(session)
    return held


def test_a_queue_is_recorded_before_its_contender_exists(session, monkeypatch):
    queues, recorded = JoinedQueues(None), []
    send = session.begin_enqueue

    def note(path, data):
        recorded.append((path, [*queues._joined]))
        return send(path, data)

    monkeypatch.setattr(session, "begin_enqueue", note)
    mine = ZooKeeperServiceLock(session, NAME, ONE, LockDelay(60.0), queues)
    assert mine.try_acquire()
    assert recorded == [(f"{LOCK}/{prefix}", [prefix]) for prefix in queues._joined] * 2  # the lock node is new
    mine.release()
    assert not queues._joined


def test_work_is_recorded_beside_the_lock_until_the_release(session, client):
    mine = lock(session)
    assert mine.try_acquire()
    assert not client.exists(RECORD)
    before = time.time()
    mine.begin("deploy /web/shop 0")
    record = json.loads(client.get(RECORD)[0])
    assert before - 1 < record.pop("since") < time.time() + 1
    assert record == {"host": "1", "name": "one.example.com", "step": "deploy /web/shop 0"}
    assert client.get(RECORD)[1].ephemeralOwner == 0
    assert len(client.get_children(LOCK)) == 1
    mine.release()
    assert client.get_children(LOCK) == []
    assert not client.exists(RECORD)


def test_begin_and_release_take_one_request_each(session, monkeypatch):
    sent = []
    for name in ("get", "children", "commit", "exists", "begin_enqueue"):
        call = getattr(session, name)
        monkeypatch.setattr(session, name, lambda *args, call=call, name=name: (sent.append(name), call(*args))[1])
    mine = lock(session)
    assert mine.try_acquire()
    sent.clear()
    mine.begin("deploy /web/shop 0")
    mine.release()
    assert sent == ["commit", "commit"]


def test_a_step_begins_only_if_the_cluster_version_was_not_written_since_it_was_checked(session, client):
    ZooKeeperFleet(session).register(Host(TWO))
    checked = ZooKeeperFleet(session).cluster(ONE)
    client.set("/hosts", b'{"version": null}')
    mine = lock(session)
    assert mine.try_acquire()
    with pytest.raises(ConflictError, match="the cluster version changed before the step began"):
        mine.begin("deploy", checked.stamp)
    assert not client.exists(RECORD)
    mine.begin("deploy", ZooKeeperFleet(session).cluster(ONE).stamp)
    mine.begin("deploy again", ZooKeeperFleet(session).cluster(ONE).stamp)
    client.set("/hosts", b'{"version": "r1"}')
    with pytest.raises(ConflictError, match="the cluster version changed before the step began"):
        mine.begin("deploy a third time", checked.stamp)
    assert json.loads(client.get(RECORD)[0])["step"] == "deploy again"
    mine.release()
    assert (client.get_children(LOCK), client.exists(RECORD)) == ([], None)


def test_a_step_begins_only_if_no_maintenance_began_since_the_check(session, client):
    fleet = ZooKeeperFleet(session)
    fleet.register(Host(ONE))
    checked = fleet.cluster(ONE)
    maintenance = ZooKeeperMaintenance(session, ZooKeeperFleetReader(session))
    maintenance.begin(HostSelection(("1",)), Act("ann", "cordon 1", "new disk", 1.0))
    mine = lock(session)
    assert mine.try_acquire()
    with pytest.raises(ConflictError, match="a maintenance of a host began before the step began"):
        mine.begin("deploy", checked.stamp, checked.maintenance_stamp)
    assert not client.exists(RECORD)
    assert fleet.cluster(ONE).mandate("1") is None
    assert fleet.cluster(TWO).mandate("2") is not None
    again = fleet.cluster(TWO)
    mine.begin("deploy", again.stamp, again.maintenance_stamp)


@pytest.mark.parametrize(("left", "may_deploy"), [(3600.0, False), (-1.0, True)])
def test_an_agent_may_deploy_again_when_the_end_of_its_maintenance_has_passed(session, left, may_deploy):
    fleet = ZooKeeperFleet(session)
    fleet.register(Host(ONE))
    maintenance = ZooKeeperMaintenance(session, ZooKeeperFleetReader(session))
    act = Act("ann", "cordon 1", "new disk", 1.0)
    maintenance.begin(HostSelection(("1",)), act, until=time.time() + left)
    assert (fleet.cluster(ONE).mandate("1") is not None) == may_deploy


def test_a_free_lock_takes_three_requests_at_first_sight_and_two_in_the_queue(session, other, monkeypatch):
    first, second = lock(session), lock(session)
    session.ensure(LOCK)
    sent = sent_requests(session, monkeypatch)
    assert first.try_acquire()
    assert len(sent) == 3
    first.release()
    sent.clear()
    assert second.acquire(0)
    assert len(sent) == 2
    theirs = lock(other, TWO)
    assert not theirs.acquire(0)
    second.begin("deploy /web/shop 0")
    sent = sent_requests(other, monkeypatch)
    second.release()
    assert theirs.acquire(60)
    assert len(sent) == 1


def test_no_step_begins_under_a_lock_that_was_lost_or_never_acquired(session, client):
    mine = lock(session)
    with pytest.raises(LockLostError):
        mine.begin("deploy")
    assert mine.try_acquire()
    (name,) = client.get_children(LOCK)
    session.commit(Delete(f"{LOCK}/{name}"))
    with pytest.raises(LockLostError):
        mine.begin("deploy")
    expired = lock(session)
    assert expired.try_acquire()
    renew_session(session)
    with pytest.raises(LockLostError):
        expired.begin("deploy")
    assert not client.exists(RECORD)


def test_the_lease_of_a_lock_expires(session, monkeypatch):
    mine = lock(session)
    with pytest.raises(LockLostError, match="may be lost"):
        mine.check_lease()
    assert mine.try_acquire()
    mine.begin("deploy /web/shop 0")
    mine.check_lease()
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    # The host was suspended.
    monkeypatch.setattr(time, "clock_gettime", lambda _: now + session.session_timeout / 3)
    with pytest.raises(LockLostError, match="this host was suspended"):
        mine.check_lease()


def test_a_host_waits_for_the_lock_delay_after_the_holders_session_ended_during_work(session, other, client):
    lose_session_during_step(session)
    delay = LockDelay(10.0)
    started = time.monotonic()
    theirs = lock(other, TWO, delay=delay)
    assert not theirs.try_acquire()
    assert client.get_children(LOCK) == []
    ended = r"one.example.com \(1\) at deploy /web/shop 0 whose session has ended \(lock delay: \d+ s\)"
    assert re.fullmatch(ended, theirs.holder())
    assert not theirs.acquire(0.1)
    assert len(client.get_children(LOCK)) == 1
    assert theirs.acquire(60)
    assert time.monotonic() - started >= 10.0
    theirs.begin("deploy /web/shop 0")
    assert json.loads(client.get(RECORD)[0])["host"] == "2"
    theirs.release()
    assert not client.exists(RECORD)


def test_the_lock_delay_starts_after_the_holders_session_ended(session, other):
    delay = LockDelay(1.0)
    held = lock(session)
    assert held.try_acquire()
    held.begin("deploy /web/shop 0")
    theirs = lock(other, TWO, delay=delay)
    assert not theirs.acquire(1.1)
    assert theirs.holder() == "one.example.com (1)"
    renew_session(session)
    asked = time.monotonic()
    assert theirs.acquire(60)
    assert time.monotonic() - asked >= 0.9
    theirs.release()


def test_the_lock_delay_continues_between_attempts(session, other):
    lose_session_during_step(session)
    delay = LockDelay(0.5)
    assert not lock(other, TWO, delay=delay).try_acquire()
    wait_until(lambda: lock(other, TWO, delay=delay).try_acquire(), "the end of the delay")


def test_without_a_lock_delay_the_lock_is_free_immediately(session, other):
    lose_session_during_step(session)
    assert lock(other, TWO, delay=0).try_acquire()


def test_a_hosts_own_record_does_not_block_it(session, other, client):
    lose_session_during_step(session)
    mine = lock(other, ONE)
    assert mine.try_acquire()
    mine.begin("deploy /web/shop 1")
    assert json.loads(client.get(RECORD)[0])["step"] == "deploy /web/shop 1"


def test_a_late_release_ends_the_lock_delay_of_the_waiting_host(session, other, client):
    lost = lose_session_during_step(session)
    theirs = lock(other, TWO)
    got = []
    waiting = threading.Thread(target=lambda: got.append(theirs.acquire(60)))
    waiting.start()
    wait_until(lambda: len(client.get_children(LOCK)) == 1, "the other host keeps its place in the queue")
    lost.release()
    waiting.join()
    assert got == [True]
    theirs.begin("deploy")


def test_the_record_of_the_step_before_is_removed_when_the_next_step_finds_the_lock_lost(session, other, client):
    mine, theirs = lock(session), lock(other, TWO)
    assert mine.try_acquire()
    mine.begin("undeploy /web/shop 0")
    client.delete(mine.path)
    with pytest.raises(LockLostError):
        mine.begin("change packages")
    assert not theirs.acquire(0)
    mine.release()
    assert not client.exists(RECORD)
    assert theirs.acquire(0)


def test_a_late_release_keeps_the_next_holders_record(session, other, client):
    lost = lose_session_during_step(session)
    theirs = lock(other, TWO, delay=0)
    assert theirs.acquire(60)
    theirs.begin("deploy")
    lost.release()
    assert json.loads(client.get(RECORD)[0])["host"] == "2"
    assert len(client.get_children(LOCK)) == 1


def test_a_record_whose_removal_was_not_answered_is_removed_later(zookeeper, proxy, client):
    with Session(through(proxy, zookeeper)) as session:
        mine = lock(session)
        assert mine.try_acquire()
        mine.begin("deploy")
        session.call_timeout = 0.5
        proxy.cut()
        mine.release()
        proxy.heal()
        wait_until(lambda: client.get_children(LOCK) == [] and not client.exists(RECORD), "both are gone")


def test_an_unanswered_begin_is_an_error_and_its_record_is_removed(session, client, monkeypatch):
    mine = lock(session)
    assert mine.try_acquire()
    commit = session.commit

    def lose_the_answer(*operations):
        monkeypatch.setattr(session, "commit", commit)
        commit(*operations)
        raise UnreachableError("the answer got lost")

    monkeypatch.setattr(session, "commit", lose_the_answer)
    with pytest.raises(UnreachableError):
        mine.begin("deploy")
    mine.release()
    assert client.get_children(LOCK) == []
    assert not client.exists(RECORD)


@pytest.mark.parametrize("failing", ["try", "begin"])
def test_a_lost_answer_while_the_record_is_read_leaves_no_contender(session, client, monkeypatch, failing):
    session.ensure(LOCK)
    client.create(RECORD, b'{"host": "2"}')
    name = "children_and_node" if failing == "try" else "get"
    read = getattr(session, name)

    def fail(*paths):
        if RECORD not in paths:
            return read(*paths)
        monkeypatch.setattr(session, name, read)
        raise UnreachableError("the answer got lost")

    mine = lock(session, delay=0)
    if failing == "begin":
        assert mine.try_acquire()
    monkeypatch.setattr(session, name, fail)
    with pytest.raises(UnreachableError):
        mine.try_acquire() if failing == "try" else mine.begin("deploy")
    mine.release()
    assert client.get_children(LOCK) == []


def test_the_stale_contenders_of_a_killed_agent_are_removed_and_its_work_is_kept(session, other, client):
    ZooKeeperFleet(other).register(Host(ONE))
    killed = lock(other, ONE)
    assert killed.try_acquire()
    killed.begin("deploy")
    theirs = lock(session, TWO)
    assert not theirs.acquire(0)
    client.create("/zkdeployment/busy/b", b'{"host": "2"}')
    fleet = ZooKeeperFleet(session, memory=Queues(session=other.id))
    fleet.clear_stale_nodes()
    assert len(client.get_children(LOCK)) == 2
    fleet.register(Host(ONE))
    fleet.clear_stale_nodes()
    assert len(client.get_children(LOCK)) == 1
    assert not theirs.acquire(0)
    assert not fleet.hand_on_work(ONE, pending=[Deployment("/web/shop", 0)])
    assert not theirs.acquire(0)
    assert fleet.hand_on_work(ONE)
    assert client.get_children("/zkdeployment/busy") == ["b"]
    assert theirs.acquire(60)
    assert not fleet.hand_on_work(ONE)
    theirs.release()


class Queues:
    """A ``SessionFile`` of the session of an agent, and the queues that it has joined."""

    def __init__(self, queues: dict[str, str] | None = None, session: int | None = None) -> None:
        self.queues = queues
        self.session = session

    def read_session(self) -> int | None:
        return self.session

    def write_session(self, session: int) -> None:
        self.session = session

    def read_queues(self) -> dict[str, str] | None:
        return self.queues

    def write_queues(self, queues) -> None:
        self.queues = dict(queues)


def test_the_successor_of_a_killed_agent_reads_only_the_queues_that_agent_had_joined(
    session, other, client, monkeypatch
):
    memory = Queues({})
    killed = ZooKeeperFleet(other, memory=memory)
    killed.register(Host(ONE))
    held, left = (killed.node_lock(Deployment(path, 0), ONE) for path in ("/shop/web", "/shop/left"))
    assert left.try_acquire()
    left.release()
    assert held.try_acquire()
    held.begin("deploy")
    assert list(memory.queues.values()) == ["shop,web"]
    for number in range(30):
        client.create(f"/agent-locks/other,{number}/{number:032}__lock__0000000000", makepath=True)
        client.create(f"/zkdeployment/busy/other,{number}", b'{"host": "2"}')
    successor = ZooKeeperFleet(session, memory=memory)
    sent = sent_requests(session, monkeypatch)
    successor.register(Host(ONE))
    successor.clear_stale_nodes()
    assert len(sent) <= 10
    assert not client.get_children("/agent-locks/shop,web")
    assert len(client.get_children("/zkdeployment/busy")) == 31
    assert memory.queues == {"shop,web": "shop,web"}, "the work is kept for the host, which has to complete it"
    assert successor.hand_on_work(ONE)
    assert len(client.get_children("/zkdeployment/busy")) == 30


def test_without_a_record_of_the_killed_agent_all_queues_are_searched_once(session, other, client):
    killed = ZooKeeperFleet(other)
    killed.register(Host(ONE))
    lock = killed.node_lock(Deployment("/shop/web", 0), ONE)
    assert lock.try_acquire()
    lock.begin("deploy")
    memory = Queues(session=other.id)
    successor = ZooKeeperFleet(session, memory=memory)
    successor.register(Host(ONE))
    successor.clear_stale_nodes()
    assert not client.get_children("/agent-locks/shop,web")
    assert json.loads(client.get("/zkdeployment/busy/shop,web")[0])["kept"]
    assert memory.queues == {"shop,web": "shop,web"}


def test_a_search_for_a_free_lock_takes_few_requests_with_any_number_of_locks(session, other, client, monkeypatch):
    services = [Deployment(f"/many/s{number}", 0) for number in range(20)]
    fleet = ZooKeeperFleet(session)
    for service in services:
        assert fleet.node_lock(service, ONE).try_acquire()
    theirs = ZooKeeperFleet(other)
    sent = sent_requests(other, monkeypatch)
    assert not theirs.any_free(services, TWO)
    assert len(sent) <= 2
    client.delete("/agent-locks/many,s7", recursive=True)
    assert theirs.any_free(services, TWO)
    client.create("/zkdeployment/busy/many,s7", b'{"host": "1"}')
    assert not theirs.any_free(services, TWO), "the lock delay of the one that was there runs"
    assert ZooKeeperFleet(session).any_free(services, ONE), "its own work is not in its way"
    assert not theirs.any_free([], TWO)


def test_no_queue_is_searched_after_a_regular_end_of_the_previous_agent(session, other, monkeypatch):
    before = ZooKeeperFleet(other)
    before.register(Host(ONE))
    before.unregister()
    fleet = ZooKeeperFleet(session, memory=Queues(session=other.id))
    fleet.register(Host(ONE))
    sent = sent_requests(session, monkeypatch)
    fleet.clear_stale_nodes()
    assert sent == []


def interrupted(zookeeper):
    """End the agent of a host in the middle of a step; return the knowledge of the host's next agent."""
    memory = Queues({})
    with Session(zookeeper) as session:
        fleet = ZooKeeperFleet(session, memory=memory)
        fleet.register(Host(ONE))
        held = fleet.node_lock(SHOP, ONE)
        assert held.try_acquire()
        held.begin("deploy /web/shop 0")
        held.keep()
        fleet.unregister()
    return memory


SHOP = Deployment("/web/shop", 0)


def test_an_interrupted_step_keeps_the_lock_for_its_host_even_after_the_lock_delay(zookeeper, session, client):
    interrupted(zookeeper)
    assert client.get_children(LOCK) == []
    assert json.loads(client.get(RECORD)[0])["kept"] is True
    theirs = lock(session, TWO, delay=0)
    assert not theirs.try_acquire()
    assert not theirs.acquire(0.2)
    assert theirs.holder() == "one.example.com (1), which has to complete deploy /web/shop 0"
    assert not ZooKeeperFleet(session, lock_delay=0).any_free([SHOP], TWO)
    theirs.release()


def test_an_interrupted_host_resumes_at_once_even_if_other_hosts_wait(zookeeper, session, other, client):
    memory = interrupted(zookeeper)
    theirs = lock(session, TWO)
    assert not theirs.acquire(0)
    fleet = ZooKeeperFleet(other, memory=memory)
    fleet.register(Host(ONE))
    fleet.clear_stale_nodes()
    assert fleet.any_free([SHOP], ONE)
    mine = fleet.node_lock(SHOP, ONE)
    assert mine.acquire(0)
    mine.check()
    mine.begin("deploy /web/shop 0", ZooKeeperFleet(other).cluster(ONE).stamp)
    mine.check_lease()
    mine.begin("deploy /web/shop 1")
    record = json.loads(client.get(RECORD)[0])
    assert (record["step"], record["kept"]) == ("deploy /web/shop 1", True)
    assert not theirs.acquire(0)
    mine.release()
    assert not client.exists(RECORD)
    assert theirs.acquire(60)
    theirs.release()


def test_a_host_whose_step_is_cut_off_again_keeps_the_lock(zookeeper, session, other, client):
    memory = interrupted(zookeeper)
    fleet = ZooKeeperFleet(other, memory=memory)
    fleet.register(Host(ONE))
    for step in ("not begun", "not run", "cut off"):
        mine = fleet.node_lock(SHOP, ONE)
        assert mine.try_acquire()
        if step != "not begun":
            mine.begin("deploy /web/shop 0")
        mine.keep() if step == "cut off" else mine.give_back()
        assert json.loads(client.get(RECORD)[0])["kept"] is True
        assert not lock(session, TWO, delay=0).try_acquire()


def test_an_operator_takes_a_kept_lock_from_the_host_that_resumes(zookeeper, session, other, client):
    memory = interrupted(zookeeper)
    fleet = ZooKeeperFleet(other, memory=memory)
    fleet.register(Host(ONE))
    mine = fleet.node_lock(SHOP, ONE)
    assert mine.try_acquire()
    client.delete(RECORD)
    theirs = lock(session, TWO)
    assert theirs.try_acquire()
    theirs.begin("deploy /web/shop 0")
    for act in (mine.check, lambda: mine.begin("deploy /web/shop 0")):
        with pytest.raises(LockLostError, match="not kept for this host any more"):
            act()
    mine.release()
    assert json.loads(client.get(RECORD)[0])["host"] == "2"
    assert not fleet.node_lock(SHOP, ONE).try_acquire()


def test_the_work_of_a_host_with_a_new_session_is_kept_until_its_script_ends(session, other):
    fleet = ZooKeeperFleet(session)
    fleet.register(Host(ONE))
    mine = fleet.node_lock(SHOP, ONE)
    assert mine.try_acquire()
    mine.begin("deploy /web/shop 0")
    renew_session(session)
    theirs = lock(other, TWO, delay=0.2)
    assert not theirs.acquire(0)
    fleet.update_host(Host(ONE), patient=False)
    assert not theirs.acquire(0.5), "the script runs, and its agent lives"
    with pytest.raises(LockLostError):
        mine.begin("deploy /web/shop 1")
    mine.release()
    assert theirs.acquire(60)
    theirs.release()


def test_a_host_that_lost_its_session_during_the_first_of_two_steps_keeps_the_lock_for_the_second(
    session, other, client
):
    fleet = ZooKeeperFleet(session)
    fleet.register(Host(ONE))
    mine = fleet.node_lock(SHOP, ONE)
    assert mine.try_acquire()
    mine.begin("undeploy /web/shop 0")
    renew_session(session)
    fleet.update_host(Host(ONE), patient=False)
    with pytest.raises(LockLostError):
        mine.begin("deploy /web/shop 0")
    mine.give_back()
    assert client.get_children(LOCK) == []
    assert not lock(other, TWO, delay=0).try_acquire()
    resumed = fleet.node_lock(SHOP, ONE)
    assert resumed.try_acquire()
    resumed.begin("deploy /web/shop 0")
    resumed.release()
    assert not client.exists(RECORD)
    assert lock(other, TWO).try_acquire()


def test_kept_work_that_could_not_be_removed_is_known_to_the_successor_of_the_agent(
    session, other, client, monkeypatch
):
    memory = Queues({})
    fleet = ZooKeeperFleet(session, memory=memory)
    fleet.register(Host(ONE))
    mine = fleet.node_lock(SHOP, ONE)
    assert mine.try_acquire()
    mine.begin("deploy /web/shop 0")
    renew_session(session)
    fleet.update_host(Host(ONE), patient=False)
    mine.give_back()
    resumed = fleet.node_lock(SHOP, ONE)
    assert resumed.try_acquire()
    resumed.begin("deploy /web/shop 0")

    def fail(*_arguments):
        raise UnreachableError("ZooKeeper does not answer")

    with monkeypatch.context() as outage:
        outage.setattr(service_locks, "remove_work", fail)
        resumed.release()
    assert fleet.node_lock(Deployment("/web/other", 0), ONE).try_acquire()
    assert NAME in memory.queues.values()
    successor = ZooKeeperFleet(other, memory=memory)
    client.delete("/hosts/1")
    successor.register(Host(ONE))
    assert successor.hand_on_work(ONE)
    assert not client.exists(RECORD)


def test_a_host_whose_lock_delay_is_over_does_not_begin_after_the_other_came_back(session, other, client):
    fleet = ZooKeeperFleet(session)
    fleet.register(Host(ONE))
    mine = fleet.node_lock(SHOP, ONE)
    assert mine.try_acquire()
    mine.begin("deploy /web/shop 0")
    renew_session(session)
    theirs = lock(other, TWO, delay=0)
    assert theirs.acquire(60)
    fleet.update_host(Host(ONE))
    with pytest.raises(LockLostError, match=r"is kept for one\.example\.com"):
        theirs.begin("deploy /web/shop 0")
    theirs.release()
    assert json.loads(client.get(RECORD)[0])["host"] == "1"


def test_work_that_another_host_took_over_is_not_kept(session, other, client):
    fleet = ZooKeeperFleet(session)
    fleet.register(Host(ONE))
    mine = fleet.node_lock(SHOP, ONE)
    assert mine.try_acquire()
    mine.begin("deploy /web/shop 0")
    renew_session(session)
    theirs = lock(other, TWO, delay=0)
    assert theirs.acquire(60)
    theirs.begin("deploy /web/shop 0")
    fleet.update_host(Host(ONE))
    mine.keep()
    record = json.loads(client.get(RECORD)[0])
    assert (record["host"], "kept" in record) == ("2", False)


def test_a_lock_without_work_is_released_also_if_its_agent_has_to_end(session, client):
    mine = lock(session)
    assert mine.try_acquire()
    mine.keep()
    assert (client.get_children(LOCK), client.exists(RECORD)) == ([], None)


def test_without_zookeeper_the_lock_delay_protects_the_step_that_was_cut_off(zookeeper, proxy, client):
    with Session(through(proxy, zookeeper)) as session:
        mine = lock(session)
        assert mine.try_acquire()
        mine.begin("deploy")
        session.call_timeout = 0.5
        proxy.cut()
        mine.keep()
        proxy.heal()
        wait_until(lambda: client.get_children(LOCK) == [], "the contender is removed")
        assert json.loads(client.get(RECORD)[0])["host"] == "1"


def test_two_racing_hosts_never_act_at_the_same_time(zookeeper, client):
    acting: list[str] = []
    overlaps: list[list[str]] = []
    turns: list[str] = []
    delay = LockDelay(0)
    expired = threading.Event()

    def race(identity: Identity) -> None:
        with Session(zookeeper, call_timeout=5) as session:
            while len(turns) < 1000:
                mine = lock(session, identity, delay=delay)
                try:
                    if not (mine.try_acquire() if len(turns) % 3 else mine.acquire(0.5)):
                        continue
                    mine.begin("act")
                    acting.append(identity.id)
                    if len(acting) != 1:
                        overlaps.append(list(acting))
                    turns.append(identity.id)
                    acting.remove(identity.id)
                    if len(turns) > 500 and not expired.is_set():
                        expired.set()
                        expire_session(zookeeper, session._client.client_id)
                except (LockLostError, UnreachableError):
                    continue
                finally:
                    mine.release()

    threads = [threading.Thread(target=race, args=(identity,)) for identity in (ONE, TWO)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == []
    assert len(turns) >= 1000
    assert set(turns) == {"1", "2"}
    wait_until(lambda: client.get_children(LOCK) == [], "no contender is left")
    wait_until(lambda: client.get_children("/zkdeployment/busy") == [], "no record is left")
