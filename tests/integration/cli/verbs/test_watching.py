"""``status --watch`` on a real ZooKeeper, in a real terminal and in a pipe."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from support.waiting import wait_until
from support.zookeeper import write_node


@pytest.fixture
def fleet(client):
    """Two hosts that converged to r1, the published revision."""
    client.create("/hosts", b'{"version": "r1"}')
    client.create("/zkdeployment/targets", b'{"version": "r1"}', makepath=True)
    for host in ("h1", "h2"):
        write_node(client, f"/hosts/{host}", {"name": f"{host}.example.com", "version": "r1"})
    return client


@contextmanager
def watching(zookeeper, stdout, **environment):
    child = subprocess.Popen(
        [sys.executable, "-m", "zkdeployment", "status", "--watch", "-z", zookeeper],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "PYTHONUNBUFFERED": "1", **environment},
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def deploy(client):
    properties = {"name": "h2.example.com", "version": "r1", "deploying": "r2", "step": "plan", "steps": [1, 3]}
    client.set("/hosts", b'{"version": "r2"}')
    write_node(client, "/hosts/h2", properties)


def test_a_terminal_shows_bars_until_interrupted(zookeeper, fleet):
    ours, theirs = pty.openpty()
    shown = bytearray()

    def read() -> bytes:
        while select.select([ours], [], [], 0)[0]:
            shown.extend(os.read(ours, 65536))
        return bytes(shown)

    with watching(zookeeper, theirs) as child:
        wait_until(lambda: b"2 hosts: 2 converged at r1" in read(), "the fleet is shown")
        deploy(fleet)
        wait_until(lambda: b"plan" in read() and "━".encode() in read(), "a bar is shown")
        child.send_signal(signal.SIGINT)
        assert child.wait() == 0
        assert child.stderr.read() == b""
    os.close(theirs)
    os.close(ours)


def test_a_pipe_gets_a_line_for_each_change(zookeeper, fleet, tmp_path):
    file = tmp_path / "out"
    with file.open("wb") as out, watching(zookeeper, out) as child:
        wait_until(lambda: file.read_text() == "2 hosts: 2 converged at r1\n", "the fleet is shown")
        deploy(fleet)
        wait_until(lambda: "h2.example.com: deploying 1/3 plan\n" in file.read_text(), "the change is told")
        child.send_signal(signal.SIGINT)
        assert child.wait() == 0
        assert child.stderr.read() == b""
    assert "\x1b" not in file.read_text()
