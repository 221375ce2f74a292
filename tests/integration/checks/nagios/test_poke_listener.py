"""The listener for pokes: accepted and refused requests."""

import json
import socket

import httpx
import pytest

from zkdeployment.checks.nagios.service import PokeListener
from zkdeployment.service.serving.listener import open_listener

INSTANCE = "01234567-89ab-5cde-8f01-23456789abcd"


@pytest.fixture
def pokes():
    """Yield the URL of a listener and the instances that it has received."""
    received = []
    opened = open_listener("127.0.0.1", 0)
    listener = PokeListener(opened, received.append)
    listener.start()
    yield f"http://127.0.0.1:{opened.getsockname()[1]}/poke", received
    listener.close()


def test_a_poke_names_its_instance(pokes):
    url, received = pokes
    answer = httpx.post(url, json={"uuid": INSTANCE, "path": "/deployments/id"}, timeout=None)
    assert (answer.status_code, answer.content) == (204, b"")
    assert received == [INSTANCE]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"uuid": 1}',
        b'{"uuid": "../x"}',
        b"[" * 4000,
        json.dumps({"x": "y" * 5000}).encode(),
    ],
)
def test_other_requests_are_refused(pokes, body):
    url, received = pokes
    assert httpx.post(url, content=body, timeout=None).status_code == 400
    assert httpx.get(url, timeout=None).status_code == 501
    assert received == []


def test_a_length_that_is_not_a_number_is_refused(pokes):
    url, received = pokes
    port = int(url.rpartition(":")[2].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"POST / HTTP/1.0\r\nContent-Length: -5\r\n\r\n")
        assert connection.makefile("rb").readline().split()[1] == b"400"
    assert received == []


def test_a_listener_that_was_not_started_can_be_closed():
    opened = open_listener("127.0.0.1", 0)
    PokeListener(opened, print).close()
    assert opened.fileno() == -1
