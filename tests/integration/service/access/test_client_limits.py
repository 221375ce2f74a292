"""The limits of one client of the service: connections, unfinished requests and event streams."""

from __future__ import annotations

import base64
import contextlib
import socket
import subprocess
import sys
from ipaddress import ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from support.service import running_service
from support.waiting import wait_until
from zkdeployment.service.api import events
from zkdeployment.service.serving import http_server
from zkdeployment.service.settings import ServerSettings
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.service import RunningService

#: Enough for one browser in these tests, and few enough to be used up.
FEW = ServerSettings(connections_per_address=20, streams_per_user=3)


@contextlib.contextmanager
def connections(service: RunningService, count: int, text: bytes) -> Iterator[list[socket.socket]]:
    """Open connections, send the same text through each, and yield the connections."""
    place = urlsplit(service.url)
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection((place.hostname, place.port), timeout=60))
            for _ in range(count)
        ]
        for connection in opened:
            with contextlib.suppress(ConnectionError):  # one connection too many
                connection.sendall(text)
        yield opened


def is_closed(connection: socket.socket) -> bool:
    """Wait for the end of a connection; return whether it came."""
    try:
        while connection.recv(4096):
            continue
    except ConnectionError:
        return True
    return True


def stream_request(login: tuple[str, str], **headers: str) -> bytes:
    token = base64.b64encode(":".join(login).encode()).decode()
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {token}\r\n{more}\r\n".encode()


def begins_with(connection: socket.socket) -> bytes:
    return connection.recv(12)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"GET /login HT",
        b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nname=",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nna",
    ],
)
def test_a_request_that_is_not_sent_completely_ends_with_its_connection(
    zookeeper: str, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    with running_service(zookeeper) as service, monkeypatch.context() as short:
        short.setattr(http_server, "HEAD_LIMIT", 0.5)
        short.setattr(http_server, "BODY_LIMIT", 0.5)
        with connections(service, 5, text) as opened:
            assert all(is_closed(connection) for connection in opened)
            short.undo()
            assert service.client.get("/login").status_code == 200


def test_a_time_limit_does_not_begin_again_with_each_byte(zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_LIMIT", 1.0)
    with running_service(zookeeper) as service, connections(service, 1, b"GET /login HTTP/1.1\r\n") as (slow,):
        slow.settimeout(0.1)

        def ends() -> bool:
            try:
                slow.sendall(b"x")
                return slow.recv(100) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        wait_until(ends, "the end of the connection")


def test_an_address_with_too_many_connections_gets_no_more(zookeeper: str) -> None:
    settings = FEW
    with (
        running_service(zookeeper, settings=settings) as service,
        connections(service, FEW.connections_per_address, b"") as opened,
    ):
        with connections(service, 1, b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as (refused,):
            assert is_closed(refused)
        opened[0].close()
        wait_until(lambda: answers(service), "the place of the closed connection")


def answers(service: RunningService) -> bool:
    with connections(service, 1, b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as (connection,):
        try:
            return begins_with(connection) == b"HTTP/1.1 200"
        except ConnectionError:
            return False


def test_the_address_with_the_most_connections_loses_one_to_a_new_client(
    zookeeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "most_connections", lambda: 30)
    with running_service(zookeeper) as service, connections(service, 30, b"GET ") as opened:
        assert service.client.get("/login").status_code == 200
        assert is_closed(opened[0])


def test_connections_leave_open_files_for_everything_else() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300));"
        "from zkdeployment.service.serving.http_server import most_connections; print(most_connections())"
    )
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert shown.stdout == "225\n"


def test_a_user_with_too_many_event_streams_gets_no_more_and_others_do(zookeeper: str) -> None:
    with running_service(zookeeper, settings=FEW) as service:
        viewer, ann = service.add_user(Role.VIEWER), service.add_user(Role.OPERATOR, "ann")
        wait_until(lambda: service.client.get("/healthz").status_code == 200, "the service")
        with connections(service, 3, stream_request(viewer)) as opened:
            assert {begins_with(each) for each in opened} == {b"HTTP/1.1 200"}
            refused = service.client.get("/api/v1/events", auth=viewer)
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
            assert "too many event streams" in refused.json()["detail"]
            with connections(service, 1, stream_request(ann)) as (other,):
                assert begins_with(other) == b"HTTP/1.1 200"


def test_behind_a_proxy_the_event_streams_of_each_client_are_limited(zookeeper: str) -> None:
    settings = ServerSettings(connections_per_address=2, proxies=(ip_network("127.0.0.0/8"),))
    with running_service(zookeeper, settings=settings) as service:
        viewer = service.add_user(Role.VIEWER)
        wait_until(lambda: service.client.get("/healthz").status_code == 200, "the service")
        with connections(service, 2, stream_request(viewer, X_Forwarded_For="192.0.2.1")) as opened:
            assert {begins_with(each) for each in opened} == {b"HTTP/1.1 200"}
            for address, answer in (("192.0.2.1", b"HTTP/1.1 503"), ("192.0.2.2", b"HTTP/1.1 200")):
                with connections(service, 1, stream_request(viewer, X_Forwarded_For=address)) as (another,):
                    assert begins_with(another) == answer


def test_event_streams_of_others_leave_room_for_operators(zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_OTHERS", 4)
    with running_service(zookeeper) as service:
        viewer, ann = service.add_user(Role.VIEWER), service.add_user(Role.OPERATOR, "ann")
        wait_until(lambda: service.client.get("/healthz").status_code == 200, "the service")
        with connections(service, 4, stream_request(viewer)) as opened:
            assert {begins_with(each) for each in opened} == {b"HTTP/1.1 200"}
            assert service.client.get("/api/v1/events", auth=viewer).status_code == 503
            with connections(service, 1, stream_request(ann)) as (operator,):
                assert begins_with(operator) == b"HTTP/1.1 200"
