"""Keys of tenants on real SSH servers."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

import psutil
import pytest

from support.pools.ssh_nodes import make_key, running_ssh_nodes
from support.waiting import wait_until
from zkdeployment.agent.rules.lease import TENANT_MARKER as MARKER
from zkdeployment.base.errors import AbandonedError, ProgramError
from zkdeployment.pools.mechanisms.ansible import SshTenantKeys

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    with running_ssh_nodes(tmp_path_factory.mktemp("pools") / "machines", 2) as running:
        yield running


@pytest.fixture
def keys(machines):
    return SshTenantKeys(machines.key, machines.configuration, timeout=60)


def test_a_tenant_logs_in_while_its_key_is_there_and_all_other_keys_stay(machines, keys, tmp_path):
    node = machines.nodes[0]
    before = node.authorized_keys.read_text()
    public = make_key(tmp_path / "tenant")
    assert machines.login(node, tmp_path / "tenant", "true").status != 0
    keys.write(node.address, [public])
    assert node.authorized_keys.read_text() == f"{before}{MARKER}\n{public}\n"
    assert machines.login(node, tmp_path / "tenant", "cat", "/root/.ssh/authorized_keys").stdout.endswith(
        f"{public}\n"
    )
    keys.remove(node.address, ())
    assert node.authorized_keys.read_text() == before
    assert machines.login(node, tmp_path / "tenant", "true").status != 0
    keys.remove(node.address, ())
    assert node.authorized_keys.read_text() == before


def test_a_key_is_removed_wherever_a_program_has_moved_it_and_a_key_of_others_stays(machines, keys, tmp_path):
    node = machines.nodes[0]
    before = node.authorized_keys.read_text()
    public, other = make_key(tmp_path / "tenant"), make_key(tmp_path / "other")
    assert keys.write(node.address, [public])
    kind, blob, _ = public.split()
    node.authorized_keys.write_text(f"no-pty {kind} {blob}\n{kind} {blob} moved\n{before}{other}\n")
    assert machines.login(node, tmp_path / "tenant", "true").status == 0
    keys.remove(node.address, (public,))
    assert node.authorized_keys.read_text() == f"{before}{other}\n"
    assert not keys.write(node.address, [other])  # which is on the node for another reason, too
    keys.remove(node.address, ())
    assert node.authorized_keys.read_text() == f"{before}{other}\n"
    node.authorized_keys.write_text(before)


def test_all_keys_of_a_session_are_admitted_and_only_the_keys_that_it_added_are_removed(machines, keys, tmp_path):
    node = machines.nodes[0]
    before = node.authorized_keys.read_text()
    first, second, other = (make_key(tmp_path / name) for name in ("first", "second", "other"))
    node.authorized_keys.write_text(f"{before}{other}\n")
    assert keys.write(node.address, [first, other, second]) == (first, second)
    for name in ("first", "second"):
        assert machines.login(node, tmp_path / name, "true").status == 0
    node.authorized_keys.write_text(node.authorized_keys.read_text().replace(MARKER, "# moved"))
    node.authorized_keys.write_text(
        node.authorized_keys.read_text().replace(f"# moved\n{first}\n{other}\n", f"{first}\n")
    )
    keys.remove(node.address, (first, second))
    assert node.authorized_keys.read_text() == f"{before}{other}\n"
    node.authorized_keys.write_text(before)


def test_the_key_of_an_earlier_tenant_is_replaced(machines, keys, tmp_path):
    node = machines.nodes[0]
    first, second = make_key(tmp_path / "first"), make_key(tmp_path / "second")
    keys.write(node.address, [first])
    keys.write(node.address, [second])
    assert machines.login(node, tmp_path / "first", "true").status != 0
    assert machines.login(node, tmp_path / "second", "true").status == 0
    assert node.authorized_keys.read_text().count(MARKER) == 1
    keys.remove(node.address, ())


def test_a_last_line_without_its_end_keeps_its_key(machines, keys, tmp_path):
    node = machines.nodes[0]
    before = node.authorized_keys.read_text()
    node.authorized_keys.write_text(before.rstrip("\n"))
    keys.write(node.address, [make_key(tmp_path / "tenant")])
    assert machines.login(node, machines.key, "true").status == 0
    keys.remove(node.address, ())
    assert node.authorized_keys.read_text() == before


def test_removing_a_key_ends_the_connections_of_the_tenant(machines, keys, tmp_path):
    node = machines.nodes[0]
    keys.write(node.address, [make_key(tmp_path / "tenant")])
    argv = ["ssh", "-F", str(machines.configuration), "-i", str(tmp_path / "tenant"), "-o", "IdentitiesOnly=yes"]
    with subprocess.Popen(
        [*argv, "-l", "root", node.address, "echo ready; sleep 600"], stdout=subprocess.PIPE, text=True
    ) as connection:
        assert connection.stdout is not None
        assert connection.stdout.readline() == "ready\n"
        keys.remove(node.address, ())
        wait_until(lambda: connection.poll() is not None, "the end of the connection")
    assert connection.returncode != 0
    assert machines.login(node, machines.key, "true").status == 0


def test_a_machine_that_was_frozen_admits_no_key_after_the_worker_gave_up(machines, tmp_path):
    node = machines.nodes[1]
    before, frozen = node.authorized_keys.read_text(), node.root / "frozen"
    begins = node.root / ".ssh/rc"  # runs before all commands
    begins.write_text("while [ -e /root/frozen ]; do sleep 0.05; done\n")
    frozen.touch()
    server = listener(node.root.parent)
    public = make_key(tmp_path / "tenant")
    # On a busy machine, ssh may not even connect in a short time.
    for limit in (3, 9, 27):
        keys = SshTenantKeys(machines.key, machines.configuration, timeout=limit)
        with pytest.raises(ProgramError, match=f"did not end within {limit} s"):
            keys.write(node.address, [public])
        if server.children():
            break
    assert server.children()
    frozen.unlink()
    wait_until(lambda: not server.children(), "the end of the script")
    begins.unlink()
    assert node.authorized_keys.read_text() == before


def test_ssh_is_ended_when_another_worker_may_continue(machines, tmp_path):
    node = machines.nodes[1]
    frozen, begins = node.root / "frozen", node.root / ".ssh/rc"
    begins.write_text("while [ -e /root/frozen ]; do sleep 0.05; done\n")
    frozen.touch()
    server = listener(node.root.parent)
    keys = SshTenantKeys(machines.key, machines.configuration, is_stopped=lambda: bool(server.children()))
    with pytest.raises(AbandonedError, match="this worker must not continue"):
        keys.write(node.address, [make_key(tmp_path / "tenant")])
    frozen.unlink()
    wait_until(lambda: not server.children(), "the end of the script")
    begins.unlink()


def listener(place: Path) -> psutil.Process:
    """Return the server of a machine."""
    for found in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(found.cmdline())
            if line.startswith("sshd:") and f" {place}/" in line:
                return found
    raise AssertionError(f"no server runs in {place}")


def test_a_machine_that_is_away_is_an_error_with_its_address(keys):
    with pytest.raises(ProgramError, match=r"ssh to root at 127\.0\.41\.9 failed: .*refused"):
        keys.write("127.0.41.9", [f"ssh-ed25519 {'A' * 68}"])


def test_a_machine_without_the_file_is_an_error_and_gets_no_key(machines, tmp_path):
    node = machines.nodes[1]
    elsewhere = SshTenantKeys(machines.key, machines.configuration, "/root/it's not/there", 30)
    with pytest.raises(ProgramError, match="not/there"):
        elsewhere.write(node.address, [make_key(tmp_path / "tenant")])
    assert MARKER not in node.authorized_keys.read_text()


def test_an_address_is_never_an_option(keys):
    with pytest.raises(ProgramError):
        keys.remove("-oProxyCommand=touch /tmp/pwned", ())


def test_the_time_limit_holds(machines, tmp_path):
    slow = tmp_path / "ssh_config"
    slow.write_text("Host *\n    ProxyCommand sleep 60\n")
    with pytest.raises(ProgramError, match="did not end within 1 s"):
        SshTenantKeys(machines.key, slow, timeout=1).remove(machines.nodes[0].address, ())


def test_the_output_of_a_hostile_machine_is_limited_and_escaped(tmp_path):
    hostile = tmp_path / "ssh_config"
    command = "Host *\n    ProxyCommand sh -c '{}; exit 1'\n"
    hostile.write_text(command.format(r'printf "\033[2Jgone\nALL GOOD\n" >&2'))
    with pytest.raises(ProgramError, match=r"192\.0\.2\.1 failed: .*\\x1b\[2Jgone ALL GOOD") as refused:
        SshTenantKeys(configuration=hostile, timeout=60).remove("192.0.2.1", ())
    assert str(refused.value).isprintable()
    hostile.write_text(command.format("yes >&2"))
    with pytest.raises(ProgramError, match=r"(?s)192\.0\.2\.1 .* printed more than 65536 bytes"):
        SshTenantKeys(configuration=hostile, timeout=60).remove("192.0.2.1", ())
