"""A real ZooKeeper server is started, stopped, killed and rediscovered."""

from __future__ import annotations

import gc
import os
import socket

import pytest

from support.zookeeper import connected, ensemble_addresses
from zkdeployment.base.errors import ProgramError
from zkdeployment.sandbox.zookeeper import (
    ZooKeeperInstallation,
    ZooKeeperServer,
    find_installation,
)


def test_data_and_port_survive_a_crash(own_zookeeper_server):
    server = own_zookeeper_server
    port = server.port
    with connected(server.address) as client:
        client.create("/kept", b"yes")
    server.kill()
    assert not server.alive
    again = ZooKeeperServer(find_installation(), server.directory)
    again.start()
    assert again.port == port
    with connected(again.address) as client:
        assert client.get("/kept")[0] == b"yes"


def test_a_later_command_finds_and_stops_the_server(own_zookeeper_server):
    later = ZooKeeperServer(find_installation(), own_zookeeper_server.directory)
    assert later.pid == own_zookeeper_server.pid
    later.stop()
    assert not own_zookeeper_server.alive
    assert not own_zookeeper_server.serving()


def test_a_second_start_keeps_the_running_server(own_zookeeper_server):
    pid = own_zookeeper_server.pid
    own_zookeeper_server.start()
    assert own_zookeeper_server.pid == pid


def test_listens_on_the_loopback_interface_only(own_zookeeper_server):
    others = [
        address[4][0]
        for address in socket.getaddrinfo(socket.gethostname(), own_zookeeper_server.port, socket.AF_INET)
        if not str(address[4][0]).startswith("127.")
    ]
    for address in others:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((address, own_zookeeper_server.port), timeout=2)
    assert own_zookeeper_server.serving()


def test_a_taken_port_is_an_error(own_zookeeper_server, tmp_path):
    second = ZooKeeperServer(find_installation(), tmp_path / "second", port=own_zookeeper_server.port)
    with pytest.raises(ProgramError, match=r"cannot listen on .*Address already in use"):
        second.start()
    assert not second.alive


def test_a_server_that_cannot_start_is_an_error(tmp_path):
    broken = ZooKeeperServer(ZooKeeperInstallation("java", ("/nowhere.jar",), "test"), tmp_path / "broken")
    with pytest.raises(ProgramError, match=r"(?s)did not start.*QuorumPeerMain"):
        broken.start()


def test_three_servers_form_an_ensemble(tmp_path):
    ensemble = ensemble_addresses(3)
    servers = [
        ZooKeeperServer(find_installation(), tmp_path / str(number), number=number, ensemble=ensemble)
        for number in ensemble
    ]
    try:
        for server in servers:
            server.start(wait=False)
        for server in servers:
            server.wait()
        with connected(servers[0].address) as writer, connected(servers[2].address) as reader:
            writer.create("/shared")
            reader.sync("/")
            assert reader.exists("/shared")
    finally:
        for server in servers:
            server.kill()


def test_zookeeper_home_comes_first(tmp_path):
    (tmp_path / "lib").mkdir()
    jar = tmp_path / "lib" / "zookeeper-3.9.2.jar"
    jar.touch()
    installation = find_installation({**os.environ, "ZOOKEEPER_HOME": str(tmp_path)})
    assert (installation.classpath, installation.origin) == ((str(jar),), str(tmp_path))


def test_a_wrong_zookeeper_home_is_an_error(tmp_path):
    with pytest.raises(ProgramError, match=f"in ZOOKEEPER_HOME, found none in {tmp_path}"):
        find_installation({**os.environ, "ZOOKEEPER_HOME": str(tmp_path)})


def test_without_java_the_error_explains_the_installation(tmp_path):
    with pytest.raises(ProgramError, match=r"needs java.*apt-get install default-jre-headless"):
        find_installation({"PATH": str(tmp_path)})


@pytest.fixture
def no_docker(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-docker.sock")
    yield
    gc.collect()  # Docker's library does not close its sockets; collect them here, where the warning is expected


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("no_docker")
def test_without_any_zookeeper_the_error_names_the_searched_places():
    with pytest.raises(ProgramError, match=r"none at /opt/x/\*.jar, and no container: .*ZOOKEEPER_HOME"):
        find_installation({}, ("/opt/x/*.jar",))


def test_a_container_is_the_last_choice(tmp_path, monkeypatch):
    monkeypatch.setattr("zkdeployment.sandbox.zookeeper.docker_problem", lambda: None)
    installation = find_installation({}, (f"{tmp_path}/*.jar",))
    assert (installation.java, installation.origin) == (None, "container image zookeeper:3.9")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("no_docker")
def test_a_container_that_cannot_be_started_is_an_error(tmp_path):
    server = ZooKeeperServer(ZooKeeperInstallation(None, (), "test"), tmp_path / "server")
    with pytest.raises(ProgramError, match=r"cannot start zookeeper:3.9 in a container"):
        server.start()
