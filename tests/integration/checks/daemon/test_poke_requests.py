"""Pokes to real HTTP servers, also to one that sends its answer byte by byte."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from support.checks.fleet import PokedSystem
from zkdeployment.checks.daemon.pokes import HttpPokeSender

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def dripping() -> Iterator[str]:
    """Yield the URL of a server that sends a byte of a status line every half second, without an end."""
    ended = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    connection.sendall(b"HTTP/1.1 200 O")
                    while not ended.wait(0.5):
                        connection.sendall(b"O")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/poke"
        ended.set()
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (200, None),
        (204, None),
        (302, "expected a status between 200 and 299, found 302"),
        (500, "expected a status between 200 and 299, found 500"),
        (0, "it cannot be reached: ProtocolError"),
    ],
)
def test_only_a_success_is_a_delivered_poke(status: int, problem: str | None):
    with PokedSystem(lambda: status) as system:
        assert HttpPokeSender().send(system.url, "id-1") == problem
        assert system.attempts == 1
        assert system.pokes == ([] if problem else [{"uuid": "id-1", "path": "/deployments/id"}])


def test_a_callback_that_cannot_be_used_is_a_problem_without_the_url():
    for url in ("http://127.0.0.1:1/secret", "nonsense:/secret", "http://[::1"):
        problem = HttpPokeSender().send(url, "id-1")
        assert problem is not None
        assert "secret" not in problem


def test_an_answer_byte_by_byte_takes_no_more_than_five_seconds_and_one_thread(dripping: str):
    sender = HttpPokeSender()
    begun = time.monotonic()
    assert sender.send(dripping, "id-1") == "it did not answer within 5 seconds"
    assert time.monotonic() - begun < 60
    assert sender.send(dripping, "id-1") == "it has not completed its answer to an earlier request"
    assert [thread.name for thread in threading.enumerate()].count("check-poke") == 1
