import fcntl
import socket

import pytest

from zkdeployment.base.errors import ConfigurationError, ProgramError, RefusedError
from zkdeployment.sandbox import fleet, zookeeper
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.layout import Layout, SandboxDescription, numbered
from zkdeployment.sandbox.zookeeper import servers, start_ensemble


@pytest.fixture
def taken(monkeypatch):
    """A port on which another socket listens; servers wait for it only for a moment."""
    monkeypatch.setattr(zookeeper, "_PORT_LIMIT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_server_whose_port_was_taken_meanwhile_gets_another_port(tmp_path, taken, monkeypatch):
    free = zookeeper.free_port
    ports = iter([taken])
    monkeypatch.setattr(zookeeper, "free_port", lambda given: next(ports, None) or free(given))
    layout = Layout(tmp_path)
    result = start_ensemble(layout, 1)
    (server,) = servers(layout, result)
    assert server.serving()
    assert result[1][0] != taken
    server.kill()


def test_without_a_free_port_the_error_has_the_servers_log(tmp_path, taken, monkeypatch):
    monkeypatch.setattr(zookeeper, "free_port", lambda _: taken)
    with pytest.raises(ProgramError, match=f"ZooKeeper cannot listen on 127.0.0.1:{taken}"):
        start_ensemble(Layout(tmp_path), 1)


def test_only_one_command_changes_a_sandbox_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet, "_LOCK_TIMEOUT", 0.1)
    sandbox = Sandbox(tmp_path)
    SandboxDescription(numbered(1), {}, syncer=True).save(sandbox.layout.description)
    with sandbox.layout.lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RefusedError, match="another command is changing"):
            sandbox.push(tmp_path, "mine")


def test_a_directory_that_rpm_does_not_support_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="contains blanks"):
        Sandbox(tmp_path / "my fleet").up(numbered(1))


def test_a_directory_that_cannot_be_created_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot create"):
        Sandbox(tmp_path / "file" / "sandbox").up(numbered(1))
