"""An agent on three servers: the leader dies, the majority dies, and both come back."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from support.agents import AgentHost, Fleet, put_script
from support.waiting import wait_until
from support.zookeeper import connected, ensemble_addresses
from zkdeployment.sandbox.zookeeper import ZooKeeperServer, find_installation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOO_0 = ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0"]
FOO_1 = ["h1 start /who/myfoo 1", "h1 end /who/myfoo 1"]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ZooKeeperServer]]:
    ensemble = ensemble_addresses(3)
    installation = find_installation()
    made = [
        ZooKeeperServer(installation, tmp_path / f"zookeeper{number}", number=number, ensemble=ensemble)
        for number in ensemble
    ]
    for server in made:
        server.start(wait=False)
    for server in made:
        server.wait()
    yield made
    for server in made:
        server.kill()


def leads(server: ZooKeeperServer) -> bool:
    with socket.create_connection(("127.0.0.1", server.port), timeout=2) as connection:
        connection.sendall(b"srvr")
        return b"Mode: leader" in connection.makefile("rb").read()


@pytest.fixture
def fleet(tmp_path: Path, servers: list[ZooKeeperServer]) -> Iterator[Fleet]:
    """A fleet on the three servers, whose host h1 has two deployments."""
    addresses = ",".join(server.address for server in servers)
    with connected(addresses) as client:
        fleet = Fleet(tmp_path, addresses, client)
        fleet.service("/who/myfoo", "foo", "1.0", h1=2)
        fleet.set_version("r1")
        yield fleet


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    host = fleet.host("h1")
    put_script(host.root, "foo")
    return host


def assert_nothing_is_locked(fleet: Fleet) -> None:
    assert fleet.client.retry(fleet.client.get_children, "/agent-locks/who,myfoo") == []
    assert fleet.client.retry(fleet.client.get_children, "/zkdeployment/busy") == []


@pytest.mark.nightly
def test_a_deployment_survives_the_loss_of_the_leader(fleet, host, servers):
    block = host.block()
    with host.process():
        wait_until(fleet.calls, "the first script")
        leader = next(server for server in servers if leads(server))
        leader.kill()
        rest = [server for server in servers if server is not leader]
        wait_until(lambda: any(server.serving() for server in rest), "a new leader")
        block.unlink()
        host.wait_for_version("r1")
    assert fleet.calls() == [*FOO_0, *FOO_1]
    assert_nothing_is_locked(fleet)


@pytest.mark.nightly  # test_process.py has an outage of all servers
def test_a_deployment_pauses_without_a_majority(fleet, host, servers):
    block = host.block()
    with host.process():
        wait_until(fleet.calls, "the first script")
        for server in servers[:2]:
            server.kill()
        block.unlink()
        wait_until(lambda: len(fleet.calls()) == 2, "the step ends")
        # The release of the lock and the read of the cluster version each have a time limit.
        wait_until(lambda: "waiting-for-zookeeper" in host.log.read_text(), "nothing starts without a majority")
        assert fleet.calls() == FOO_0
        wait_until(lambda: host.status == "wait for ZooKeeper", "the status file says so")
        for server in servers:
            server.start(wait=False)
        host.wait_for_version("r1")
    assert fleet.calls() == [*FOO_0, *FOO_1]
    assert_nothing_is_locked(fleet)
