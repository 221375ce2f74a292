"""The contract of ZooKeeper, as far as zkdeployment relies on it, for a real server and the simulated ensemble."""

import time
from random import Random

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from simulation.green import Process
from simulation.network import Network
from support.waiting import wait_until
from support.zookeeper import expire_session
from zkdeployment.base.errors import UnreachableError
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Check, Create, Delete, Set, TransactionError


class RealArena:
    """Runs a test on a real server, through a proxy that can drop connections."""

    def __init__(self, zookeeper, proxy) -> None:
        self._address = zookeeper
        self._proxy = proxy
        self._through = f"{proxy.address}/{zookeeper.partition('/')[2]}"

    def run(self, body):
        body()

    def session(self):
        return Session(self._through)

    def bare(self):
        client = KazooClient(self._address)
        client.start()
        return client

    def expire(self, session):
        expire_session(self._address, session._client.client_id)

    def drop(self, _session):
        self._proxy.drop()

    def wait_until(self, condition):
        wait_until(condition, "the condition of the contract")

    def sleep(self, seconds):
        time.sleep(seconds)


class SimulatedArena:
    """Runs a test in a green thread on the simulated ensemble."""

    def __init__(self) -> None:
        self._network = Network(Random(7))

    def run(self, body):
        with self._network.installed():
            process = Process("test")
            ended = []
            self._network.scheduler.spawn(process, lambda: ended.append(body()))
            self._network.scheduler.run(10_000.0, lambda: bool(ended))
            self._network.scheduler.end_all([process])
        for _, error in self._network.scheduler.errors:
            raise error
        assert ended

    def session(self):
        return Session("simulated:2181", session_timeout=6)

    def bare(self):
        client = self._network.make_client()
        client.start_async()
        self.wait_until(lambda: client.connected)
        return client

    def expire(self, session):
        self._network.ensemble.end_session(session._client.server_session)

    def drop(self, session):
        session._client.lose_connection()

    def wait_until(self, condition):
        while not condition():
            self.sleep(0.05)

    def sleep(self, seconds):
        self._network.scheduler.sleep(seconds)


@pytest.fixture(params=["real", "simulated"])
def arena(request):
    if request.param == "simulated":
        return SimulatedArena()
    return RealArena(request.getfixturevalue("zookeeper"), request.getfixturevalue("proxy"))


def test_nodes_have_versions_owners_and_numbered_children(arena):
    def body():
        client = arena.bare()
        assert client.create("/a", b"one") == "/a"
        data, stat = client.get("/a")
        assert (data, stat.version, stat.ephemeralOwner, stat.numChildren) == (b"one", 0, 0, 0)
        assert client.set("/a", b"two", version=0).version == 1
        with pytest.raises(BadVersionError):
            client.set("/a", b"three", version=0)
        with pytest.raises(NodeExistsError):
            client.create("/a", b"")
        with pytest.raises(NoNodeError):
            client.create("/none/b", b"")
        names = [client.create("/a/n-", b"", sequence=True) for _ in range(2)]
        client.delete(names[1])
        names.append(client.create("/a/n-", b"", ephemeral=True, sequence=True))
        assert names == ["/a/n-0000000000", "/a/n-0000000001", "/a/n-0000000002"]
        assert client.get(names[2])[1].ephemeralOwner == client.client_id[0]
        with pytest.raises(NotEmptyError):
            client.delete("/a")
        assert sorted(client.get_children("/a")) == ["n-0000000000", "n-0000000002"]
        assert client.exists("/none") is None
        changed = client.get("/a")[1]
        assert changed.mzxid > stat.mzxid
        assert changed.czxid == stat.czxid
        client.stop()
        client.close()

    arena.run(body)


def test_a_transaction_is_executed_whole_or_not_at_all(arena):
    def body():
        with arena.session() as session:
            session.commit(Create("/a", b"1"), Create("/a/b"), Set("/a", b"2", 0), Check("/a", 1))
            assert session.get("/a").data == b"2"
            with pytest.raises(TransactionError) as refused:
                session.commit(Create("/c"), Delete("/a/b"), Set("/a", b"3", 0), Delete("/a"))
            assert refused.value.path == "/a"
            assert session.get("/c") is None
            assert (session.get("/a").data, session.children("/a")) == (b"2", ["b"])
            session.commit(Create("/e", ephemeral=True))
            with pytest.raises(TransactionError):
                session.commit(Create("/e/below"))
            first, second = session.enqueue("/a/q-", b""), session.enqueue("/a/q-", b"")
            assert first < second
            third = session.enqueue_lasting("/a/q-", b"3", 1)
            assert (second < third, session.get(third).data, session.get(third).owner) == (True, b"3", 0)
            with pytest.raises(TransactionError) as refused:
                session.enqueue_lasting("/a/q-", b"", 0)
            assert refused.value.path == "/a"
            assert [node and node.data for node in session.get_many(["/a", "/none", "/a/b"])] == [b"2", None, b""]

    arena.run(body)


def test_each_watch_is_called_once_and_before_later_answers(arena):
    def body():
        with arena.session() as watcher, arena.session() as writer:
            writer.commit(Create("/a"))
            events = []
            watcher.get("/a", lambda event: events.append(("data", event.type)))
            watcher.children("/a", lambda event: events.append(("children", event.type)))
            watcher.exists("/b", lambda event: events.append(("exists", event.type)))
            writer.commit(Set("/a", b"1"), Create("/a/x"), Create("/b"))
            writer.commit(Set("/a", b"2"), Create("/a/y"), Set("/b", b"1"))
            watcher.sync()
            assert watcher.get("/a").data == b"2"
            watcher.last_transaction()
            expected = [("children", "CHILD"), ("data", "CHANGED"), ("exists", "CREATED")]
            assert sorted(events) == expected

    arena.run(body)


def test_ephemeral_nodes_end_with_their_session_and_not_with_a_connection(arena):
    def body():
        with arena.session() as other:
            with arena.session() as closed:
                closed.commit(Create("/closed", ephemeral=True))
            arena.wait_until(lambda: other.get("/closed") is None)
            with arena.session() as session:
                session.commit(Create("/mine", ephemeral=True))
                before = session.id
                events = []
                session.get("/mine", events.append)
                arena.drop(session)
                arena.wait_until(lambda: session.link.connections > 1 and session.connected)
                arena.wait_until(lambda: [event.type for event in events] == ["NONE"])
                assert session.id == before
                assert session.get("/mine").owner == before
                arena.expire(session)
                arena.wait_until(lambda: session.link.sessions > 1 and session.connected)
                assert session.id not in {None, before}
                arena.wait_until(lambda: other.get("/mine") is None)
                assert session.link.sessions == 2

    arena.run(body)


def test_a_write_whose_connection_is_lost_has_an_unknown_outcome(arena):
    def body():
        with arena.session() as session:
            outcomes = set()
            for number in range(20):
                finish = session.begin(Create(f"/n{number}"))
                arena.drop(session)
                try:
                    finish()
                except UnreachableError:
                    outcomes.add("lost")
                else:
                    outcomes.add("answered")
                arena.wait_until(lambda: session.connected)
                session.sync()
                if "lost" in outcomes:
                    break
            assert "lost" in outcomes
            made = [number for number in range(20) if session.get(f"/n{number}") is not None]
            assert made == sorted(made)

    arena.run(body)
