"""The pools in the cached fleet, on a real ZooKeeper: their content, their events and their cost."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from integration.fleet.feed.test_feed import following
from support.builders import make_user
from support.pools.builders import make_node, make_request
from support.waiting import wait_until
from support.zookeeper import sent_requests, write_node
from zkdeployment.pools.feed import ended_sessions, pools_of
from zkdeployment.pools.rules.node import NodeEvent, NodeState, fail
from zkdeployment.pools.rules.queue import LendingFacts, Reservation, reserve
from zkdeployment.pools.rules.snapshot import FillingRecord, NodesSpec, PoolChange, TenantSession, retire
from zkdeployment.pools.store.store import ZooKeeperPools
from zkdeployment.service.users.user import Role

DOCUMENT = {
    "schema": "zkdeployment/Pools/v1",
    "metadata": {"name": "pools"},
    "data": {
        "nodepools": {
            "concrete": {
                "web": {"fill-level": 2, "mechanism": {"type": "role", "role": {"idle": "a", "leased": "b"}}}
            }
        }
    },
}


def publish(client, document):
    write_node(client, "/zkdeployment/documents/pools/:", document)


def lease(store, feed, tenant):
    read = store.read()
    request = make_request(store.take_ids(1)[0], tenant, NodesSpec("web", 1))
    given = reserve(request, LendingFacts(read, pools_of(feed).configuration, {tenant.id: tenant}, 100.0))
    assert isinstance(given, Reservation)
    store.commit(PoolChange(nodes=given.nodes, sessions=(given.session,)), read)
    return given


def seen(feed):
    return pools_of(feed).snapshot


def read_from(store):
    """Return the records that the store reads, without the parts that only writers need."""
    return replace(store.read(), tenants={}, own_claims=frozenset(), hosts={}, waiting={})


def pool_events(feed):
    """Return the events of sessions and nodes: kind, id and the happening."""
    return [
        (event.kind.value, int(event.subject), event.body.get("step") or event.body["state"])
        for batch in feed.recent_events().batches
        for event in batch.events
        if event.kind.value in {"session", "node"}
    ]


def test_the_feed_has_what_the_store_reads_and_reports_each_step(zookeeper, client, session, monkeypatch):
    store, tenant = ZooKeeperPools(session), make_user("ci", Role.TENANT, id=4)
    publish(client, DOCUMENT)
    write_node(client, "/zkdeployment/users/ci", {"id": 4})
    first, second = store.take_ids(2)
    nodes = [make_node(id_, pool="web") for id_ in (first, second)]
    store.commit(PoolChange(nodes=tuple(nodes)), store.read())

    with following(zookeeper) as feed:

        def awaits(*event):
            # The feed may read the changes of one transaction in two readings.
            wait_until(lambda: event in pool_events(feed) and seen(feed) == read_from(store), f"the event {event}")

        assert seen(feed) == read_from(store)
        assert pools_of(feed).configuration.pools["web"].fill_level == 2
        assert pools_of(feed).tenants == {4: "ci"}
        given = lease(store, feed, tenant)
        number, leased = given.session.id, given.nodes[0]
        awaits("session", number, "requested")
        awaits("node", leased.id, "contextualizing")
        read = store.read()
        leased = read.nodes[leased.id].after(NodeEvent.CONTEXTUALIZED, 101.0)
        store.commit(PoolChange(nodes=(leased,)), read)
        awaits("session", number, "begun")
        read = store.read()
        warned = replace(read.sessions[number], warned_expiry=read.sessions[number].expires_at)
        store.commit(PoolChange(sessions=(warned,), claimed=frozenset({second})), read)
        awaits("session", number, "expiring")
        store.announce("worker on adm1")
        wait_until(lambda: seen(feed).workers == ("worker on adm1",), "the worker")
        read = store.read()
        ended, released = retire(read.sessions[number], read.nodes.values(), 200.0, "ci")
        assert ended_sessions(feed) == ()
        store.commit(PoolChange(sessions=(ended,), nodes=released), read)
        awaits("session", number, "retired")
        wait_until(lambda: ended_sessions(feed) == (ended,), "the session among those that have ended")
        read = store.read()
        store.commit(PoolChange(nodes=(fail(read.nodes[leased.id], "no route to host", 201.0),)), read)
        awaits("node", leased.id, "failed")

        sent = sent_requests(feed._session, monkeypatch)
        for _ in range(50):
            assert len(ended_sessions(feed)) == 1
            assert pools_of(feed).snapshot.nodes[leased.id].state is NodeState.FAILED
        read = store.read()
        store.commit(PoolChange(nodes=(read.nodes[leased.id].after(NodeEvent.FORGIVEN, 202.0),)), read)
        wait_until(lambda: seen(feed) == read_from(store), "the forgiven node")
    assert [request for request in sent if "/pools/ended" in getattr(request, "path", "")] == []
    read_nodes = [request.path for request in sent if "/pools/nodes/" in getattr(request, "path", "")]
    assert [path.rpartition("/")[2] for path in read_nodes] == [str(leased.id)]


def make_lease(number):
    specs = (NodesSpec("web", 1),)
    return TenantSession(id=number, tenant=4, specs=specs, nodes=(number,), created_at=1.0, expires_at=900.0)


def write_random_pools(random, store, client):
    """Make one to five random changes: of nodes, sessions, filling and claims, some of them damaged."""
    for _ in range(random.randint(1, 5)):
        read, number = store.read(), random.randint(1, 6)
        node, session = read.nodes.get(number), read.sessions.get(number)
        match random.choice(["node", "session", "filling", "claim", "damage"]):
            case "node" if node is None:
                store.commit(PoolChange(nodes=(make_node(number, pool="web", host=f"h{number}"),)), read)
            case "node":
                store.commit(PoolChange(nodes=(replace(node, comment=str(random.random())),)), read)
            case "session" if session is None and store.session(number) is None:
                store.commit(PoolChange(sessions=(make_lease(number),)), read)
            case "session" if session is not None:
                ended, _ = retire(session, (), 200.0)
                store.commit(PoolChange(sessions=(ended,)), read)
            case "filling":
                record = read.filling.get("web", FillingRecord())
                store.commit(PoolChange(filling={"web": record.after_failure("no room", 1.0, 2.0)}), read)
            case "claim" if number in read.own_claims:
                store.commit(PoolChange(released=frozenset({number})), read)
            case "claim" if node is not None:
                store.commit(PoolChange(claimed=frozenset({number})), read)
            case "damage":
                above = random.choice(["nodes/9", "nodes/x", "sessions/9", "filling/db", "waiting/3", "claims/y"])
                write_node(client, f"/zkdeployment/pools/{above}", {"id": random.choice(["x", -1])})


def test_the_feed_and_the_store_have_equal_snapshots_of_random_pools(zookeeper, client, session):
    store, random = ZooKeeperPools(session), Random(7)
    publish(client, DOCUMENT)
    with following(zookeeper) as feed:
        for round_ in range(40):
            write_random_pools(random, store, client)
            wait_until(lambda: seen(feed) == read_from(store), f"the pools of round {round_}")
    assert store.read().nodes
    assert store.read().filling


def test_a_damaged_document_has_no_pools_and_does_not_stop_the_feed(zookeeper, client):
    client.create("/zkdeployment/documents/pools/:", b"\x1f\x8b nonsense", makepath=True)
    with following(zookeeper) as feed:
        assert pools_of(feed).configuration.pools == {}
        write_node(client, "/zkdeployment/documents/pools/:", DOCUMENT)
        wait_until(lambda: "web" in pools_of(feed).configuration.pools, "the mended document")
