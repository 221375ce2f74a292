"""A data centre for playbooks: a program that makes and removes machines, which are real SSH servers.

Like a provider's own program, it is called as ``machines create NAME IMAGE`` and ``machines delete NAME``. It
prints the name and the address of the machine as JSON. It accepts to create a machine that exists, and to delete
one that does not exist.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from support.pools.ssh_nodes import SshNode, make_key, start_server, write_configuration
from support.waiting import wait_until
from zkdeployment.sandbox.zookeeper import free_port


@dataclass(frozen=True, slots=True)
class DataCentre:
    """Machines whose files are below ``directory``; all admit ``key`` as root, at one port."""

    directory: Path

    @classmethod
    def build(cls, directory: Path) -> DataCentre:
        """Make a data centre without machines in a new directory."""
        directory.mkdir()
        centre = cls(directory)
        make_key(centre.key)
        port = free_port()
        write_configuration(directory, port)
        (directory / "port").write_text(str(port))
        words = [sys.executable, "-m", "support.pools.machines", str(directory)]
        python_path = f"PYTHONPATH={shlex.quote(str(Path(__file__).resolve().parents[2]))}"
        centre.program.write_text(f'#!/bin/sh\n{python_path} exec {shlex.join(words)} "$@"\n')
        centre.program.chmod(0o755)
        return centre

    @property
    def program(self) -> Path:
        """The program that playbooks call."""
        return self.directory / "machines"

    @property
    def key(self) -> Path:
        """The private key that all machines admit."""
        return self.directory / "pools_key"

    @property
    def configuration(self) -> Path:
        """The configuration of ssh."""
        return self.directory / "ssh_config"

    def machines(self) -> set[str]:
        """Return the names of the machines."""
        return {place.name for place in self.directory.iterdir() if (place / "pid").exists()}

    def node(self, name: str) -> SshNode:
        """Return the machine with a name that ends in a number."""
        number = int(name.rpartition("-")[2])
        return SshNode(f"127.0.41.{number % 250 + 1}", self.directory / name / "root")

    def create(self, name: str) -> None:
        """Make a machine unless it is there, and return when it answers."""
        node, port = self.node(name), int((self.directory / "port").read_text())
        if name not in self.machines():
            shutil.rmtree(self.directory / name, ignore_errors=True)
            child = start_server(node, port, self.key.with_suffix(".pub").read_text().strip())
            (self.directory / name / "pid").write_text(str(child.pid))
        wait_until(lambda: _answers(node.address, port), f"an answer of {name}")

    def delete(self, name: str) -> None:
        """Remove a machine with all its files, if it is there."""
        if name in self.machines():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int((self.directory / name / "pid").read_text()), signal.SIGKILL)
            shutil.rmtree(self.directory / name)

    def damage(self, name: str) -> None:
        """Let the program fail for a machine."""
        (self.directory / f"{name}.damaged").touch()


def _answers(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=60) as connection:
        return connection.recv(4) == b"SSH-"
    return False


def main(directory: str, verb: str, name: str, image: str = "") -> None:
    """Run the program."""
    centre = DataCentre(Path(directory))
    if (centre.directory / f"{name}.damaged").exists():
        sys.exit(f"cannot {verb} {name}: it is damaged")
    if verb == "delete":
        centre.delete(name)
        return
    os.environ.pop("ZKDEPLOYMENT_PLAYBOOK", None)  # the machine outlives the playbook and its worker
    centre.create(name)
    machine = {"hostname": f"{name}.{image}.example.com", "ipaddr": centre.node(name).address}
    sys.stdout.write(json.dumps(machine) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
