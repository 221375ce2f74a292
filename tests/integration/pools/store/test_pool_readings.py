"""The pools in the cached fleet, on a real ZooKeeper: their content, their events and their cost."""

from __future__ import annotations

from dataclasses import replace

from integration.fleet.feed.test_feed import following
from support.builders import make_user
from support.pools.builders import make_node
from support.waiting import wait_until
from support.zookeeper import sent_requests, write_node
from zkdeployment.pools.feed import ended_sessions, pools_of
from zkdeployment.pools.rules.node import NodeEvent, NodeState, fail
from zkdeployment.pools.rules.queue import Reservation, SessionRequest, reserve
from zkdeployment.pools.rules.snapshot import NodesSpec, PoolChange, retire
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
    request = SessionRequest(store.take_ids(1)[0], tenant, (NodesSpec("web", 1),), 0, "ci")
    given = reserve(request, pools_of(feed).configuration, tuple(read.nodes.values()), 100.0)
    assert isinstance(given, Reservation)
    store.commit(PoolChange(nodes=given.nodes, sessions=(given.session,)), read)
    return given


def seen(feed):
    return pools_of(feed).snapshot


def read_from(store):
    """Return the records that the store reads, without the parts that only writers need."""
    return replace(store.read(), tenants={}, own_claims=frozenset(), hosts={})


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
            wait_until(lambda: event in pool_events(feed), f"the event {event}")
            assert seen(feed) == read_from(store)

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


def test_a_damaged_document_has_no_pools_and_does_not_stop_the_feed(zookeeper, client):
    client.create("/zkdeployment/documents/pools/:", b"\x1f\x8b nonsense", makepath=True)
    with following(zookeeper) as feed:
        assert pools_of(feed).configuration.pools == {}
        write_node(client, "/zkdeployment/documents/pools/:", DOCUMENT)
        wait_until(lambda: "web" in pools_of(feed).configuration.pools, "the mended document")
