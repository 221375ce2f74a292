"""Machines that admit root by SSH: real servers, each with its own home of root and its own processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.limits import outliving_the_test
from support.waiting import UNLIMITED, wait_until
from zkdeployment.base.machine import process
from zkdeployment.sandbox.zookeeper import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SERVER = """\
Port {port}
ListenAddress {address}
HostKey {place}/host_key
PidFile none
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
AuthorizedKeysFile /root/.ssh/authorized_keys
"""

_CLIENT = """\
Host *
    Port {port}
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
"""


@dataclass(frozen=True, slots=True)
class SshNode:
    """A machine: its address, and the directory that is ``/root`` there."""

    address: str
    root: Path

    @property
    def authorized_keys(self) -> Path:
        """The keys that may log in as root."""
        return self.root / ".ssh" / "authorized_keys"


@dataclass(frozen=True, slots=True)
class SshNodes:
    """Machines on loopback addresses; ``configuration`` is for ssh, ``key`` the private key that all admit."""

    nodes: tuple[SshNode, ...]
    configuration: Path
    key: Path

    def login(self, node: SshNode, key: Path, *command: str) -> process.Completed:
        """Return the result of a command that a person with a key runs on a node."""
        fixed = ["-F", str(self.configuration), "-i", str(key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
        return process.run(["ssh", *fixed, "-l", "root", node.address, *command])


def make_key(path: Path) -> str:
    """Make a pair of keys for SSH and return the public one, one line without its end."""
    process.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)], timeout=60
    ).check()
    return path.with_name(f"{path.name}.pub").read_text().strip()


def write_configuration(place: Path, port: int) -> Path:
    """Write a configuration of ssh for machines on a port into a directory, and return it."""
    configuration = place / "ssh_config"
    configuration.write_text(_CLIENT.format(port=port))
    return configuration


@contextlib.contextmanager
def running_ssh_nodes(place: Path, count: int) -> Iterator[SshNodes]:
    """Run machines in namespaces of their own; never uses the keys of this machine's root."""
    place.mkdir()
    public = make_key(place / "pools_key")
    port = free_port()
    configuration = write_configuration(place, port)
    nodes = tuple(
        SshNode(f"127.0.40.{number}", place / f"node{number}" / "root") for number in range(1, count + 1)
    )
    with contextlib.ExitStack() as running:
        for node in nodes:
            running.enter_context(_server(node, port, public))
        machines = SshNodes(nodes, configuration, place / "pools_key")
        for node in nodes:
            _await_login(machines, node)
        yield machines


def _await_login(machines: SshNodes, node: SshNode) -> None:
    wait_until(lambda: machines.login(node, machines.key, "true").status == 0, f"a login at {node.address}")


@contextlib.contextmanager
def _server(node: SshNode, port: int, public: str) -> Iterator[None]:
    child = start_server(node, port, public)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(UNLIMITED)


def start_server(node: SshNode, port: int, public: str) -> process.Child:
    """Start a machine that admits a public key as root. Its processes end with the one that is returned."""
    place = node.root.parent
    node.authorized_keys.parent.mkdir(mode=0o700, parents=True)
    node.authorized_keys.write_text(f"{public}\n")
    node.authorized_keys.chmod(0o600)
    make_key(place / "host_key")
    (place / "sshd_config").write_text(_SERVER.format(port=port, address=node.address, place=place))
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert sshd is not None, "expected sshd of OpenSSH; scripts/test installs it"
    begin = 'mount --bind "$1" /root && mkdir -p /run/sshd && exec "$2" -D -E "$3" -f "$4"'
    inside = ["sh", "-c", begin, "sh", str(node.root), sshd, str(place / "sshd.log"), str(place / "sshd_config")]
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return process.spawn([*alone, *inside], output=place / "output", env=outliving_the_test())
