"""The event stream of a real service on a real ZooKeeper."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import httpx
import pytest

from support.certificates import CERTIFICATES
from support.service import RunningService, running_service
from support.waiting import wait_until
from support.zookeeper import through, write_node
from zkdeployment.base.act import Act
from zkdeployment.service.api import events
from zkdeployment.service.users.user import Role, User

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kazoo.client import KazooClient

    from support.proxy import Proxy


@dataclass(frozen=True)
class ReceivedEvent:
    """An event as a client received it: its kind, and its data."""

    kind: str
    data: Mapping[str, Any] = field(hash=False)


class EventClient:
    """A context manager: the events of one stream, as they arrive; ``ended`` is set at the end of the stream."""

    def __init__(
        self,
        url: str,
        login: tuple[str, str],
        *,
        resume: str | None = None,
        query: str = "",
        client: httpx.Client | None = None,
    ) -> None:
        self.events: list[ReceivedEvent] = []
        self.comments = 0
        self.last_id: str | None = resume
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.ended = threading.Event()
        self._socket: socket.socket | None = None
        self._client = client or httpx.Client(base_url=url, auth=login, timeout=None, verify=CERTIFICATES)
        self._path = f"/api/v1/events{query}"
        self._resume = {} if resume is None else {"Last-Event-ID": resume}
        self._thread = threading.Thread(target=self._read, name="event-client", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:  # to close it would not wake the thread that reads
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._client.close()

    def wait_for(self, kind: str, *, after: ReceivedEvent | None = None, **data: object) -> ReceivedEvent:
        """Wait for an event of this kind with these data, perhaps only among those after another one."""

        def matches() -> list[ReceivedEvent]:
            events = self.events[:]
            return [
                event
                for event in (events if after is None else events[events.index(after) + 1 :])
                if event.kind == kind and all(event.data.get(name) == value for name, value in data.items())
            ]

        wait_until(matches, f"the event {kind} {data}")
        return matches()[0]

    def _read(self) -> None:
        try:
            with self._client.stream("GET", self._path, headers=self._resume) as response:
                self._socket = response.extensions["network_stream"].get_extra_info("socket")
                self.headers, self.status = response.headers, response.status_code
                kind, data = "", ""
                for line in response.iter_lines():
                    name, _, value = line.partition(": ")
                    match name:
                        case "event":
                            kind = value
                        case "data":
                            data = value
                        case "id":
                            self.last_id = value
                        case "":
                            self.comments += line.startswith(":")
                            if data:
                                self.events.append(ReceivedEvent(kind, json.loads(data)))
                            kind, data = "", ""
        except (httpx.HTTPError, httpx.StreamError, OSError):
            pass
        finally:
            self.ended.set()


ACT = Act("tests", "user", "a test", 0.0)


@pytest.fixture
def fleet_nodes(client: KazooClient) -> KazooClient:
    write_node(client, "/hosts", {"version": "r1"})
    write_node(client, "/hosts/h1", {"name": "h1.example", "version": "r1"})
    write_node(client, "/zkdeployment/targets", {"version": "r1", "sequence": 7, "ordered": "r1"})
    return client


def read_once(service: RunningService) -> None:
    """Wait until the service has read the fleet."""
    wait_until(lambda: _is_read(service), "the first reading")


def _is_read(service: RunningService) -> bool:
    feed = service.adapters.feed
    return feed.recent_events().last > 0 and feed.snapshot().connected


def test_changes_are_sent_as_events_with_ids(zookeeper: str, fleet_nodes: KazooClient):
    with running_service(zookeeper) as service:
        read_once(service)
        with EventClient(service.url, service.add_user(Role.VIEWER)) as stream:
            hello = stream.wait_for("feed")
            write_node(fleet_nodes, "/hosts/h1", {"name": "h1.example", "version": "r0", "error": "a\nb <script>"})
            host = stream.wait_for("host", id="h1")
            write_node(fleet_nodes, "/hosts", {"version": None})
            stream.wait_for("stop", id="stopped")
            stream.wait_for("publication", cluster="stopped")
    assert stream.status == 200
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    assert stream.headers["Cache-Control"] == "no-store"
    assert hello.data["connected"] is True
    assert (host.data["state"], host.data["error"]) == ("failed", "a\nb <script>")
    assert int(stream.last_id or 0) > 0


def test_only_the_wanted_kinds_are_sent(zookeeper: str, fleet_nodes: KazooClient):
    with running_service(zookeeper) as service:
        read_once(service)
        with EventClient(service.url, service.add_user(Role.VIEWER), query="?kinds=stop&kinds=rollout") as stream:
            stream.wait_for("feed")
            write_node(fleet_nodes, "/hosts/h1", {"version": "r0"})
            write_node(fleet_nodes, "/hosts", {"version": False})
            stream.wait_for("stop", id="held")
    assert {event.kind for event in stream.events} == {"feed", "stop"}


def test_a_client_resumes_at_a_second_service_without_losing_an_event(zookeeper: str, fleet_nodes: KazooClient):
    with running_service(zookeeper) as first, running_service(zookeeper) as second:
        read_once(first)
        read_once(second)
        login = first.add_user(Role.VIEWER)
        with EventClient(first.url, login) as stream:
            stream.wait_for("feed")
            write_node(fleet_nodes, "/hosts/h1", {"version": "r2"})
            stream.wait_for("host", id="h1")
        write_node(fleet_nodes, "/hosts/h2", {"version": "r2"})
        write_node(fleet_nodes, "/hosts/h3", {"version": "r2"})
        with EventClient(second.url, login, resume=stream.last_id) as resumed:
            resumed.wait_for("host", id="h2")
            resumed.wait_for("host", id="h3")
        assert "reset" not in {event.kind for event in resumed.events}
        for unknown in ("1", "-5", "nonsense", "9" * 30):
            with EventClient(second.url, login, query=f"?after={unknown}") as late:
                late.wait_for("feed")
                if unknown != "9" * 30:  # an id ahead of this service may still be reached
                    late.wait_for("reset")


def test_an_id_of_another_ensemble_is_reset_at_the_first_heartbeat(
    zookeeper: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(events, "HEARTBEAT", 0.5)
    with running_service(zookeeper) as service:
        read_once(service)
        with EventClient(service.url, service.add_user(Role.VIEWER), resume="9" * 18) as stream:
            stream.wait_for("reset")
            wait_until(lambda: stream.comments, "a heartbeat")
    assert int(stream.last_id or 0) < 10**17


def test_a_lost_connection_to_zookeeper_and_its_recovery_are_events(
    zookeeper: str, fleet_nodes: KazooClient, proxy: Proxy
):
    with running_service(through(proxy, zookeeper)) as service:
        read_once(service)
        with EventClient(service.url, service.add_user(Role.VIEWER)) as stream:
            stream.wait_for("feed", connected=True)
            proxy.cut()
            away = stream.wait_for("feed", connected=False)
            write_node(fleet_nodes, "/hosts/h1", {"version": "r9"})
            proxy.heal()
            stream.wait_for("host", id="h1")
            back = stream.wait_for("feed", after=away, connected=True)
    assert away.data["read_at"] < back.data["read_at"]


def test_streams_end_when_the_user_leaves_and_when_the_service_ends(zookeeper: str):
    with running_service(zookeeper) as service:
        read_once(service)
        users = service.adapters.users
        retired, other, stays = (service.add_user(Role.VIEWER, name) for name in ("retired", "other", "stays"))
        login = service.add_user(Role.VIEWER, "person")
        with (
            EventClient(service.url, retired) as first,
            EventClient(service.url, other) as second,
            EventClient(service.url, stays) as third,
            service.browser(login) as browser,
            EventClient(service.url, login, client=browser) as person,
        ):
            for stream in (first, second, third, person):
                stream.wait_for("feed")
            users.retire("retired", ACT)
            users.reset_key("other", ACT)
            users.reset_key("person", ACT)
            for stream in (first, second, person):
                assert stream.ended.wait()
            assert not third.ended.is_set()
            service.adapters.feed.close()
            assert third.ended.wait()


def test_streams_end_when_the_role_of_their_user_changes(zookeeper: str):
    def tenant(user: User) -> User:
        return replace(user, role=Role.TENANT)

    with running_service(zookeeper) as service:
        read_once(service)
        users, login = service.adapters.users, service.add_user(Role.ADMIN, "ann")
        with (
            EventClient(service.url, login) as program,
            service.browser(login) as browser,
            EventClient(service.url, login, client=browser) as person,
        ):
            for stream in (program, person):
                stream.wait_for("feed")
            users.update("ann", tenant, ACT)
            for stream in (program, person):
                assert stream.ended.wait()


def test_tenants_get_events_of_pools_and_of_their_own_sessions_only(zookeeper: str, fleet_nodes: KazooClient):
    def put_session(number: int, tenant: int) -> None:
        times = {"created_at": 1.0, "expires_at": 2.0}
        session = {"id": number, "tenant": tenant, "specs": [], "nodes": [], "leased": [], **times}
        write_node(fleet_nodes, f"/zkdeployment/pools/sessions/{number}", session)

    with running_service(zookeeper) as service:
        read_once(service)
        login = service.add_user(Role.TENANT)
        tenant = service.adapters.users.user(login[0])
        assert tenant is not None
        with EventClient(service.url, login) as stream:
            stream.wait_for("feed")
            write_node(fleet_nodes, "/hosts/h1", {"version": "r2"})
            put_session(8, tenant.id + 1)
            put_session(9, tenant.id)
            session = stream.wait_for("session", id="9")
        monitoring = service.client.get("/api/v1/events", auth=service.add_user(Role.MONITORING))
        stranger = service.client.get("/api/v1/events")
    assert (session.data["step"], session.data["name"]) == ("begun", "tenant")
    assert {(event.kind, event.data.get("id")) for event in stream.events} <= {
        ("session", "9"),
        ("feed", "zookeeper"),
    }
    assert (monitoring.status_code, stranger.status_code) == (403, 401)
