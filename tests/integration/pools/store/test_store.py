"""Nodes and sessions of pools, on a real ZooKeeper."""

from __future__ import annotations

import random
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest
from kazoo.protocol.states import Callback

from support.builders import make_user
from support.pools.builders import make_node, make_request
from support.pools.workers import PoolFleet
from zkdeployment.base.act import Maintenance
from zkdeployment.base.errors import ConflictError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism
from zkdeployment.pools.rules.node import NodeEvent, NodeState
from zkdeployment.pools.rules.queue import LendingFacts, Reservation, reserve
from zkdeployment.pools.rules.snapshot import FillingRecord, NodesSpec, PoolChange, retire
from zkdeployment.pools.store.leases import ZooKeeperLeases
from zkdeployment.pools.store.sources import ZooKeeperPoolSources
from zkdeployment.pools.store.store import ZooKeeperPools, available_hosts, remove_ownerless
from zkdeployment.service.users.user import Role, TenantLimits
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create, Set

QUOTA = 2
POOLS = PoolConfiguration({"web": NodePool("web", RoleMechanism("spare", "ci"))}, TenantLimits(node_quota=QUOTA))


@pytest.fixture
def store(session):
    return ZooKeeperPools(session)


def tenant(number):
    return make_user(f"t{number}", Role.TENANT, id=number)


def fill(store, count):
    nodes = tuple(make_node(number, pool="web", reusable=True) for number in store.take_ids(count))
    store.commit(PoolChange(nodes=nodes), store.read())
    return nodes


def request(store, number, quantity, offset=0):
    read = store.read()
    wanted = make_request(store.take_ids(1)[0], tenant(number), NodesSpec("web", quantity))
    return read, reserve(wanted, LendingFacts(read, POOLS, {number: tenant(number)}, 5), offset=offset)


def lease(store, number, quantity, offset=0):
    read, given = request(store, number, quantity, offset)
    if isinstance(given, Reservation):
        store.commit(PoolChange(nodes=given.nodes, sessions=(given.session,)), read)
    return given


def test_hosts_in_maintenance_are_not_available_until_it_ends(zookeeper, session):
    role = "mechanism: {type: role, role: {idle: spare, leased: ci}}"
    woken = threading.Event()
    with PoolFleet(zookeeper, SystemClock()) as fleet:
        fleet.publish(f"{{nodepools: {{concrete: {{web: {{{role}}}}}}}}}")
        for path in (*(f"{paths.HOSTS}/{name}" for name in ("h1", "h2", "h3")), paths.MAINTENANCE):
            session.ensure(path)
        sources = ZooKeeperPoolSources(session, woken.set)
        assert sources.read().available.keys() == available_hosts(session) == {"h1", "h2", "h3"}
        woken.clear()
        for host, until in (("h1", None), ("h2", 1.0)):
            record = Maintenance(host, "ann", "new disk", 0.0, until)
            session.commit(Create(paths.maintenance_path(host), encode(record.to_json())))
        assert woken.wait()
        assert sources.read().available.keys() == available_hosts(session) == {"h2", "h3"}
        assert sources.read().hosts.keys() == {"h1", "h2", "h3"}


@contextmanager
def late_watches(session):
    """Let the watches of a session be called only when a thread waits for them, or at the end."""
    goes_on, settle = threading.Event(), session.settle_watches
    session._client.handler.dispatch_callback(Callback("watch", goes_on.wait, ()))

    def settle_now():
        goes_on.set()
        settle()

    try:
        with mock.patch.object(session, "settle_watches", settle_now):
            yield
    finally:
        goes_on.set()


def test_the_tenant_of_each_session_that_was_read_is_known(zookeeper, store, session):
    with PoolFleet(zookeeper, SystemClock()) as fleet:
        fleet.add_tenant(1)
        sources = ZooKeeperPoolSources(session, lambda: None)
        assert sources.read().tenants.keys() == {1}
        fill(store, 1)
        with late_watches(session):
            fleet.add_tenant(2)
            lease(store, 2, 1)
            assert {found.tenant for found in store.read().sessions.values()} == {2}
            assert sources.read().tenants.keys() == {1, 2}


def test_a_written_record_is_read_with_its_stamp(store):
    nodes = fill(store, 3)
    given = lease(store, 7, 2)
    read = store.read()
    assert read.sessions == {given.session.id: given.session}
    assert [read.nodes[node.id].state for node in given.nodes] == [NodeState.CONTEXTUALIZING] * 2
    assert read.held(7) == 2
    assert read.nodes[nodes[2].id] == nodes[2]
    assert store.session(given.session.id) == given.session
    assert (store.node(99), store.session(99)) == (None, None)


def test_the_published_document_is_the_configuration(store, publishing):
    assert store.configuration() == PoolConfiguration()
    document = "schema: zkdeployment/Pools/v1\nmetadata: {name: pools}\ndata: {nodepools: {concrete: {web: "
    role = "{fill-level: 2, mechanism: {type: role, role: {idle: spare, leased: ci}}}}}}"
    publishing.push("/a\n", pools_yaml=document + role)
    publishing.sync()
    pool = store.configuration().pools["web"]
    assert (pool.fill_level, pool.mechanism) == (2, RoleMechanism("spare", "ci"))


def test_ids_never_repeat_among_several_workers(store, other):
    assert list(store.take_ids(2)) == [1, 2]
    assert list(ZooKeeperPools(other).take_ids(3)) == [3, 4, 5]


def test_of_two_requests_for_the_same_node_one_is_overtaken(store):
    fill(store, 1)
    (first_read, first), (second_read, second) = request(store, 1, 1), request(store, 2, 1)
    store.commit(PoolChange(nodes=first.nodes, sessions=(first.session,)), first_read)
    with pytest.raises(ConflictError):
        store.commit(PoolChange(nodes=second.nodes, sessions=(second.session,)), second_read)
    assert list(store.read().sessions) == [first.session.id]


def test_of_two_requests_of_one_tenant_one_is_overtaken_though_the_nodes_differ(store):
    fill(store, 4)
    (first_read, first), (second_read, second) = request(store, 1, 2), request(store, 1, 2, offset=2)
    assert not {node.id for node in first.nodes} & {node.id for node in second.nodes}
    store.commit(PoolChange(nodes=first.nodes, sessions=(first.session,)), first_read)
    with pytest.raises(ConflictError):
        store.commit(PoolChange(nodes=second.nodes, sessions=(second.session,)), second_read)
    assert store.read().held(1) == QUOTA


def test_a_session_that_ended_is_kept_and_its_nodes_are_read_until_they_are_done(store):
    fill(store, 1)
    lease(store, 1, 1)
    read = store.read()
    (session,), nodes = read.sessions.values(), read.nodes.values()
    ended, released = retire(session, nodes, 9)
    store.commit(PoolChange(nodes=released, sessions=(ended,)), read)
    read = store.read()
    assert (read.sessions, read.held(1)) == ({}, 0)
    assert store.session(session.id) == ended
    node = replace(read.nodes[1], reusable=False).after(NodeEvent.REMOVED, 10)
    store.commit(PoolChange(nodes=(node,)), read)
    assert store.read().nodes == {}
    assert store.node(1) == node


def test_a_session_that_did_not_begin_leaves_nothing(store):
    fill(store, 1)
    lease(store, 1, 1)
    read = store.read()
    (session,), (node,) = read.sessions.values(), read.nodes.values()
    store.commit(PoolChange(nodes=(node.after(NodeEvent.CLEANED, 9),), dropped=(session,)), read)
    read = store.read()
    assert (read.sessions, read.held(1), read.nodes[1].state) == ({}, 0, NodeState.READY)
    store.commit(PoolChange(deleted=(read.nodes[1],)), read)
    assert store.read().nodes == {}


def test_a_claim_excludes_others_and_ends_with_its_process(store, zookeeper):
    fill(store, 1)
    with Session(zookeeper) as worker:
        claiming = ZooKeeperPools(worker)
        claiming.commit(PoolChange(claimed=frozenset({1})), claiming.read())
        assert store.read().claimed == {1}
        with pytest.raises(ConflictError):
            store.commit(PoolChange(claimed=frozenset({1})), store.read())
    assert store.read().claimed == frozenset()
    store.commit(PoolChange(claimed=frozenset({1})), store.read())
    store.commit(PoolChange(released=frozenset({1})), store.read())
    assert store.read().claimed == frozenset()


def test_a_claim_changes_the_node_so_that_a_worker_that_lost_it_cannot_write_the_node(store, zookeeper):
    fill(store, 1)
    with Session(zookeeper) as late:
        loser = ZooKeeperPools(late)
        loser.commit(PoolChange(claimed=frozenset({1})), loser.read())
        held = loser.read()
        assert held.own_claims == {1}
        assert store.read().own_claims == frozenset()
        store.commit(PoolChange(released=frozenset({1})), store.read())
        store.commit(PoolChange(claimed=frozenset({1})), store.read())
        late_write = PoolChange(nodes=(held.nodes[1].after(NodeEvent.RELEASED, 9),), released=frozenset({1}))
        with pytest.raises(ConflictError):
            loser.commit(late_write, held)
    assert store.read().own_claims == {1}


def test_of_two_workers_that_fill_a_pool_one_is_overtaken(store):
    read = store.read()
    record = FillingRecord(1, 5.0, "the cloud is full", {"name": "web", "fill-level": 2})
    store.commit(PoolChange(filling={"web": record}), read)
    with pytest.raises(ConflictError):
        store.commit(PoolChange(filling={"web": FillingRecord()}), read)
    read = store.read()
    assert read.filling == {"web": record}
    store.commit(PoolChange(filling={"web": read.filling["web"].after_success()}), read)
    assert store.read().filling["web"].failures == 0
    with pytest.raises(ConflictError):
        store.commit(PoolChange(filling={"web": record}), read)


def test_a_damaged_record_of_filling_is_written_anew(store, session):
    store.commit(PoolChange(filling={"web": FillingRecord()}), store.read())
    session.commit(Set(f"{pool_paths.FILLING}/web", b'{"unknown": 1}'))
    record = FillingRecord(values={"fill-level": 2})
    read = store.read()
    store.commit(PoolChange(filling={"web": replace(record, stamp=read.filling["web"].stamp)}), read)
    assert store.read().filling == {"web": record}


def test_waiting_processes_notice_a_change_at_once(store, other):
    waiting, seen = ZooKeeperPools(other), []
    assert not waiting.wait_for_change(0.01)
    threads = [threading.Thread(target=lambda: seen.append(waiting.wait_for_change(60))) for _ in range(5)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):  # a thread may begin to wait after a change
        fill(store, 1)
    assert seen == [True] * 5


def test_workers_are_listed_while_they_are_connected(store, zookeeper):
    with Session(zookeeper) as session:
        worker = ZooKeeperPools(session)
        worker.announce("host1:4 a/b")
        worker.announce("host1:4 a/b")
        assert store.read().workers == ("host1:4 a/b",)
        store.announce("host1:4 a/b")  # by a new session of the same process
        assert store.read().workers == ("host1:4 a/b",)
    assert store.read().workers == ("host1:4 a/b",)


def test_a_worker_that_is_gone_is_not_listed(store, zookeeper):
    with Session(zookeeper) as session:
        ZooKeeperPools(session).announce("host1:5")
        assert store.read().workers == ("host1:5",)
    assert store.read().workers == ()


def test_a_host_of_the_fleet_has_one_node_also_after_that_is_done(store, client):
    (number,) = store.take_ids(1)
    node = make_node(number, NodeState.UNUSED, host="h/1", reusable=True)
    read = store.read()
    store.commit(PoolChange(nodes=(node,)), read)
    with pytest.raises(ConflictError):
        store.commit(PoolChange(nodes=(replace(node, id=99),)), read)
    read = store.read()
    store.commit(PoolChange(nodes=(read.nodes[number].after(NodeEvent.RETIRED, 2),)), read)
    read = store.read()
    assert (read.nodes, read.hosts) == ({}, {"h/1": number})
    store.commit(PoolChange(nodes=(replace(node, id=99),)), read)
    assert store.read().hosts == {"h/1": 99}
    client.set("/zkdeployment/pools/hosts/h%2F1", b"damaged")
    read = store.read()
    assert read.hosts == {}
    store.commit(PoolChange(nodes=(replace(node, id=100),)), read)  # the record is written anew
    assert store.read().hosts == {"h/1": 100}


def test_ended_sessions_are_history_until_they_are_pruned(store):
    fill(store, 2)
    sessions = []
    for ended_at in (10, 20):
        given = lease(store, 1, 1)
        read = store.read()
        ended, released = retire(read.sessions[given.session.id], read.nodes.values(), ended_at)
        store.commit(PoolChange(nodes=released, sessions=(ended,)), read)
        sessions.append(ended)
        read = store.read()
        node = replace(read.nodes[released[0].id], reusable=False).after(NodeEvent.REMOVED, ended_at)
        store.commit(PoolChange(nodes=(node,)), read)
    assert store.history(15) == (sessions[1],)
    assert [store.node(*ended.nodes).retired_at for ended in sessions] == [10, 20]
    assert store.prune(15) == 2
    assert store.history(0) == (sessions[1],)
    assert (store.session(sessions[0].id), store.session(sessions[1].id)) == (None, sessions[1])
    assert (store.prune(99), store.node(*sessions[1].nodes)) == (2, None)


def test_records_of_hosts_and_pools_that_are_gone_are_pruned(store, session, client):
    fill(store, 1)  # of the pool web
    read, later = store.read(), time.time() + 60
    node = make_node(store.take_ids(1)[0], NodeState.UNUSED, host="h/1")
    records = dict.fromkeys(("web", "described", "gone"), FillingRecord())
    store.commit(PoolChange(nodes=(node,), filling=records), read)
    client.create("/hosts/h2", makepath=True)
    for host in ("h/1", "h2", "h/3"):
        ZooKeeperLeases(session).give(host, "ci", ())
    assert store.prune(99) == 0
    assert remove_ownerless(session, store.read(), {"described"}, later) == 2
    assert store.read().filling.keys() == {"web", "described"}
    assert session.children(pool_paths.LEASES) == ["h%2F1", "h2"]
    assert (store.prune(later), store.read().filling.keys()) == (1, {"web"})


def test_a_damaged_record_hides_no_other(store, client):
    fill(store, 2)
    client.set("/zkdeployment/pools/nodes/1", b"damaged")
    assert list(store.read().nodes) == [2]


def test_fifty_tenants_who_request_at_once_share_no_node_and_exceed_no_quota(store, zookeeper):
    fill(store, 30)
    outcomes = []

    def ask(number):
        with Session(zookeeper) as session:
            own, chance = ZooKeeperPools(session), random.Random(number)
            for quantity in (1, 2):
                for _ in range(40):
                    try:
                        outcomes.append(lease(own, number % 25, quantity, chance.randrange(100)))
                    except ConflictError:
                        continue
                    break

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read = store.read()
    taken = [node for session in read.sessions.values() for node in session.nodes]
    assert len(taken) == len(set(taken)) <= 30
    assert all(read.held(number) <= QUOTA for number in range(25))
    leased = {node.id for node in read.nodes.values() if node.state is NodeState.CONTEXTUALIZING}
    assert leased == set(taken)
    assert len(read.nodes) == 30
    assert sum(isinstance(outcome, Reservation) for outcome in outcomes) == len(read.sessions)
