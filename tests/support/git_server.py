"""A git server over SSH: a real sshd that admits keys by the lines of ``authorized_keys`` in the manual."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

from support.limits import outliving_the_test
from support.pools.ssh_nodes import make_key
from support.waiting import UNLIMITED, wait_until
from zkdeployment.base.machine import process
from zkdeployment.sandbox.zookeeper import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {place}/host_key
PidFile none
PermitRootLogin forced-commands-only
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
AuthorizedKeysFile {place}/authorized_keys
"""

_CLIENT = """\
Host *
    StrictHostKeyChecking yes
    UserKnownHostsFile {place}/known_hosts
    LogLevel ERROR
"""

#: A further name of the server, under which clients use one key and no other.
_ALIAS = """\
Host {name}.git
    HostName 127.0.0.1
    HostKeyAlias [127.0.0.1]:{port}
    IdentityFile {key}
    IdentitiesOnly yes
"""

#: The line of a key in authorized_keys, as in etc/git/update.
_LINE = 'command="ZKDEPLOYMENT_PUSHER={pusher} git-shell -c \\"$SSH_ORIGINAL_COMMAND\\"",restrict {key}\n'


class GitServer:
    """An SSH server for the repositories below a directory.

    ``bin`` is a directory for ``PATH`` whose ``ssh`` knows the host key of the server.
    """

    def __init__(self, place: Path) -> None:
        place.mkdir(parents=True)
        self._place = place
        self._port = free_port()
        self._former = ""
        self.bin = place / "bin"
        self.bin.mkdir()
        host_key = make_key(place / "host_key")
        (place / "known_hosts").write_text(f"[127.0.0.1]:{self._port} {host_key}\n")
        (place / "ssh_config").write_text(_CLIENT.format(place=place))
        (place / "sshd_config").write_text(_SERVER.format(port=self._port, place=place))
        (place / "authorized_keys").touch()
        ssh = self.bin / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {place}/ssh_config "$@"\n')
        ssh.chmod(0o755)

    def url(self, repository: Path, name: str | None = None) -> str:
        """Return the URL of a repository on the server, by which clients use the key of this name, if any."""
        user = process.run(["id", "-un"]).check().stdout.strip()
        host = "127.0.0.1" if name is None else f"{name}.git"
        return f"ssh://{user}@{host}:{self._port}{repository}"

    def admit(self, name: str, pusher: str) -> Path:
        """Admit a new key as a pusher, and return the private key."""
        key = self._place / name
        line = _LINE.format(pusher=pusher, key=make_key(key))
        with (self._place / "authorized_keys").open("a") as keys:
            keys.write(line)
        with (self._place / "ssh_config").open("a") as clients:
            clients.write(_ALIAS.format(name=name, port=self._port, key=key))
        return key

    def dismiss(self, name: str) -> None:
        """Admit a key no longer."""
        file, public = self._place / "authorized_keys", (self._place / f"{name}.pub").read_text().strip()
        self._former = file.read_text()
        file.write_text("".join(line for line in self._former.splitlines(keepends=True) if public not in line))

    def readmit(self) -> None:
        """Admit the key again that was dismissed."""
        (self._place / "authorized_keys").write_text(self._former)

    def run(self, key: Path, command: str) -> subprocess.CompletedProcess[str]:
        """Ask the server to run a command for a key."""
        place = self.url(self._place).removesuffix(str(self._place))
        argv = [str(self.bin / "ssh"), "-i", str(key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", place]
        return subprocess.run([*argv, command], capture_output=True, text=True, check=False)

    def push(self, key: Path, clone: Path, repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Push from a clone with a key, and with no other."""
        ssh = f"{self.bin}/ssh -i {key} -o IdentitiesOnly=yes -o BatchMode=yes"
        return subprocess.run(
            ["git", "push", self.url(repository), *arguments],
            cwd=clone,
            env=os.environ | {"GIT_SSH_COMMAND": ssh},
            capture_output=True,
            text=True,
            check=False,
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the server."""
        sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        assert sshd is not None, "expected sshd of OpenSSH; scripts/test installs it"
        begin = 'mkdir -p /run/sshd; exec "$1" -D -E "$2" -f "$3"'
        place = self._place
        argv = ["sh", "-c", begin, "sh", sshd, str(place / "sshd.log"), str(place / "sshd_config")]
        server = process.spawn(argv, output=place / "output", env=outliving_the_test())
        try:
            scan = ["ssh-keyscan", "-p", str(self._port), "127.0.0.1"]
            wait_until(lambda: process.run(scan, timeout=10).stdout, "the git server answers")
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait(UNLIMITED)
