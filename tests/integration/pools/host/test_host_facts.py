"""Facts about a host: accounts of a directory, listeners of this machine, and files of packages."""

import os
import socket
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.machine import process
from zkdeployment.pools.host import leases as module
from zkdeployment.pools.host.leases import host_facts


def test_accounts_groups_and_passwords_are_facts_and_passwords_are_not_shown(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("eve:x:0:0:Eve:/root:/bin/sh\n")
    (tmp_path / "etc/group").write_text("wheel:x:10:eve\n")
    (tmp_path / "etc/shadow").write_text("eve:$6$secret:19000:0:::::\n")
    facts = host_facts(tmp_path, verifies=False)
    assert {"account eve:x:0:0:/root:/bin/sh", "group wheel:10:eve"} < facts
    assert "secret" not in str(facts)
    (tmp_path / "etc/shadow").write_text("eve:$6$other:19000:0:::::\n")
    assert len(host_facts(tmp_path, verifies=False) - facts) == 1
    (tmp_path / "etc/passwd").unlink()
    (tmp_path / "etc/passwd").symlink_to("group")
    with pytest.raises(HostFilesError, match="etc/passwd"):
        host_facts(tmp_path, verifies=False)


@pytest.mark.parametrize(("port", "shown"), [(1054, "1054"), (0, "any port")])
def test_a_listener_is_a_fact_of_the_machine_without_a_port_that_the_next_boot_changes(port, shown):
    address = str(IPv4Address("127.0.0.0") + os.getpid())  # no other test of this machine has it
    fact = f"listener tcp {address} {shown} ("
    with socket.create_server((address, port)):
        assert any(found.startswith(fact) for found in host_facts(Path("/"), verifies=False))
    assert not any(found.startswith(fact) for found in host_facts(Path("/"), verifies=False))


@pytest.mark.parametrize(
    ("port", "is_connected", "is_fact"),
    [(1053, False, True), (1053, True, False), (0, False, False)],
    ids=["a server's port", "connected", "a client's port"],
)
def test_an_unconnected_udp_socket_below_the_ports_of_clients_is_a_fact(port, is_connected, is_fact):
    address = str(IPv4Address("127.0.0.0") + os.getpid())  # no other test of this machine has it
    with socket.socket(type=socket.SOCK_DGRAM) as bound:
        bound.bind((address, port))
        if is_connected:
            bound.connect(bound.getsockname())
        fact = f"listener udp {address} {bound.getsockname()[1]} ("
        assert any(found.startswith(fact) for found in host_facts(Path("/"), verifies=False)) == is_fact


def test_changed_files_of_packages_are_facts_and_a_failure_is_an_error(tmp_path, monkeypatch):
    def run(argv, **_limits):
        assert argv[:3] == ["rpm", "--root", str(tmp_path)]
        return process.Completed(tuple(argv), status, "S.5....T.  c /etc/sudoers\nmissing     /bin/su\n", "")

    monkeypatch.setattr(module.process, "run", run)
    status = 1
    assert host_facts(tmp_path, verifies=True) == {"file S.5....T. c /etc/sudoers", "file missing /bin/su"}
    status = 2
    with pytest.raises(HostFilesError, match="cannot compare this host with its state before the lease"):
        host_facts(tmp_path, verifies=True)
