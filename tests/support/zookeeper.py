"""A real ZooKeeper for tests: one server for the whole run, a chroot of its own for each test."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from support.proxy import Proxy
from support.waiting import UNLIMITED, wait_until
from zkdeployment.sandbox.zookeeper import ZooKeeperServer, find_installation, free_ports
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Sessions last as long as their clients ask for by default, because the machine may become busy later.
_SESSIONS = ("maxSessionTimeout=30000",)


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server for all tests, which no test stops. Sessions last 30 s at most."""
    server = ZooKeeperServer(find_installation(), tmp_path_factory.mktemp("zookeeper"), more=_SESSIONS)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def own_zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server for one test, which may stop, kill and start it. Sessions last 30 s at most."""
    server = ZooKeeperServer(find_installation(), tmp_path_factory.mktemp("own-zookeeper"), more=_SESSIONS)
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def _root_client(zookeeper_server: ZooKeeperServer) -> Iterator[KazooClient]:
    with connected(zookeeper_server.address) as client:
        yield client


@pytest.fixture
def zookeeper(zookeeper_server: ZooKeeperServer, _root_client: KazooClient) -> str:
    """A connection string with an empty chroot for this test: ``127.0.0.1:PORT/test-xyz``."""
    chroot = f"/test-{uuid.uuid4().hex[:12]}"
    _root_client.create(chroot)
    return f"{zookeeper_server.address}{chroot}"


@pytest.fixture
def client(zookeeper: str) -> Iterator[KazooClient]:
    """A bare kazoo client in this test's chroot, to change and inspect nodes without the code under test."""
    with connected(zookeeper) as bare:
        yield bare


@pytest.fixture
def proxy(zookeeper_server: ZooKeeperServer) -> Iterator[Proxy]:
    """A proxy to the server; combine with ``through``."""
    with Proxy("127.0.0.1", zookeeper_server.port) as running:
        yield running


class connected:  # noqa: N801  reads as a verb: with connected(...) as client
    """A context manager: a bare kazoo client, connected and stopped again."""

    def __init__(self, connection: str, **options: object) -> None:
        self._client = KazooClient(hosts=connection, **options)

    def __enter__(self) -> KazooClient:
        try:
            self._client.start(timeout=UNLIMITED)
        except ConnectionLoss:
            self.__exit__()
            raise
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()


class CountedSession(Session):
    """A session that counts its requests by path; ``sessions`` are all of them."""

    sessions: ClassVar[list[CountedSession]] = []

    def _make_client(self) -> Any:
        client = super()._make_client()
        self.sent: Counter[str] = Counter()
        send = client._call

        def call(request: Any, result: Any) -> Any:
            self.sent[getattr(request, "path", type(request).__name__)] += 1
            return send(request, result)

        client._call = call
        self.sessions.append(self)
        return client


def sent_requests(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that collects the requests of a session's client from now on."""
    sent, send = [], session._client._call

    def call(request: Any, result: Any) -> Any:
        sent.append(request)
        return send(request, result)

    monkeypatch.setattr(session._client, "_call", call)
    return sent


def through(proxy: Proxy, connection: str) -> str:
    """Return ``connection`` with the proxy's address and the same chroot."""
    _, slash, chroot = connection.partition("/")
    return f"{proxy.address}{slash}{chroot}"


def renew_session(session: Session) -> None:
    """Make the server expire a session; wait for the new session."""
    before = session.id
    expire_session(session.connection, session._client.client_id)
    wait_until(lambda: session.connected and session.id not in {before, None}, "a new session")


def expire_session(connection: str, session: tuple[int, bytes]) -> None:
    """Make the server expire a session by taking it over (id and password) and closing it.

    The owner may take it back before it is closed. It is over when another session comes in its place.
    """
    given = session
    while given == session:
        with suppress(ConnectionLoss), connected(connection, client_id=session) as client:
            given = client.client_id


def expire_owner(client: KazooClient, connection: str, path: str) -> None:
    """Make the server expire the session of an ephemeral node, of which the client may be killed or frozen."""
    if (stat := client.exists(path)) is None:
        return  # it has expired already
    owner = stat.ephemeralOwner
    expire_session(connection, (owner, _session_password(owner)))
    assert not client.exists(path), f"the session {owner:x} of {path} has ended"


def _session_password(session: int) -> bytes:
    """Return the password that ZooKeeper's servers make of a session's id, with the random numbers of Java."""
    state = (session ^ 0xB3415C00 ^ 0x5DEECE66D) % 2**48
    password = b""
    while len(password) < 16:
        state = (state * 0x5DEECE66D + 0xB) % 2**48
        password += (state >> 16).to_bytes(4, "little")
    return password


def write_node(client: KazooClient, path: str, properties: object, *, ephemeral: bool = False) -> None:
    """Write a node with properties as JSON; create it, and the nodes above it, if necessary."""
    data = json.dumps(properties).encode()
    if client.exists(path):
        client.set(path, data)
    else:
        client.create(path, data, ephemeral=ephemeral, makepath=True)


def ensemble_addresses(count: int) -> dict[int, str]:
    """Return the addresses of the servers of an ensemble, by number, each with the ports for the other servers."""
    ports = free_ports(2 * count)
    return {number: f"127.0.0.1:{ports.pop()}:{ports.pop()}" for number in range(1, count + 1)}
