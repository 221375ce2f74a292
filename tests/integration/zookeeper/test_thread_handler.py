"""The wait for sockets, of which each request to ZooKeeper needs several."""

import os
import resource
import socket

import pytest

from zkdeployment.zookeeper.connection import ThreadHandler
from zkdeployment.zookeeper.servers import Access


@pytest.fixture
def pair():
    near, far = socket.socketpair()
    with near, far:
        yield near, far


@pytest.fixture(scope="module")
def handler():
    return ThreadHandler(Access())


def test_sockets_are_ready_for_reading_and_for_writing_on_their_own(handler, pair):
    near, far = pair
    assert handler.select([near, far], [], [], 0) == ([], [], [])
    far.send(b"x")
    assert handler.select([near, far], [], [], None) == ([near], [], [])
    readable, writable, _ = handler.select([near], [near, far], [], 1)
    assert (readable, set(writable)) == ([near], {near, far})


def test_a_socket_that_was_closed_at_the_other_end_is_ready(handler, pair):
    near, far = pair
    far.close()
    assert handler.select([near], [], [], 1)[0] == [near]


def test_a_closed_socket_is_an_error(handler, pair):
    near, _ = pair
    near.close()
    with pytest.raises(ValueError, match="negative"):
        handler.select([near], [], [], 0)


def test_sockets_of_processes_with_many_open_files_are_waited_for(handler, pair):
    near, far = pair
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    number = os.dup2(near.fileno(), 2000)  # select(2) takes numbers below 1024 only
    try:
        with socket.socket(fileno=number) as high:
            far.send(b"x")
            assert handler.select([high], [], [], 1)[0] == [high]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
