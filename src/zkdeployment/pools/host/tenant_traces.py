"""Traces of tenants on this host: accounts, files, listeners and keys, compared with a baseline.

Each fact is a line of text. Facts that differ between two readings of an unchanged host are omitted.
"""

from __future__ import annotations

import hashlib
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import psutil

from zkdeployment.base.errors import HostFilesError, ProgramError
from zkdeployment.base.machine import files, process
from zkdeployment.base.machine.files import JsonFile
from zkdeployment.base.text import printable
from zkdeployment.pools.host.ssh_access import SshDirectory
from zkdeployment.pools.rules.host_lease import HostBaseline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_LARGEST_FILE = 4 * 1024 * 1024

#: The seconds that rpm may take to verify all files, and systemctl to list all units.
_VERIFY_LIMIT = 900.0
_UNITS_LIMIT = 60.0

#: The most bytes of the output of each program.
_OUTPUT_LIMIT = 16 * 1024 * 1024

#: The first of the ports that the kernel gives to clients; UDP sockets from this port on are not listeners.
_CLIENT_PORTS = 32768

_UNIT_TYPES = "--type=service,socket,timer,path"


def host_facts(root: Path, *, verifies: bool) -> frozenset[str]:
    """Return the facts about the host with this root directory; raises ``HostFilesError``.

    With ``verifies``, the files of all packages are among them, which takes a minute or more. Listeners and units
    are those of the machine: a directory that stands for ``/`` has none.
    """
    return frozenset(printable(fact) for source in _sources(root, verifies=verifies) for fact in source())


def _sources(root: Path, *, verifies: bool) -> Iterator[Callable[[], Iterator[str]]]:
    yield lambda: _accounts(root)
    if verifies:
        yield lambda: _changed_files(root)
    if root == Path("/"):
        yield _listeners
        if Path("/run/systemd/system").is_dir():
            yield _units


def _accounts(root: Path) -> Iterator[str]:
    """Yield the accounts, the groups with their members, and a digest of each password."""
    for fields in _table(root / "etc/passwd"):
        yield f"account {':'.join((*fields[:4], *fields[5:]))}"
    for fields in _table(root / "etc/group"):
        yield f"group {':'.join((fields[0], *fields[2:]))}"
    for fields in _table(root / "etc/shadow"):
        digest = hashlib.sha256(":".join(fields[:2]).encode()).hexdigest()[:16]
        yield f"password of {fields[0]} (digest {digest})"


def _table(file: Path) -> Iterator[list[str]]:
    try:
        content = files.read(file, _LARGEST_FILE) or b""
    except OSError as error:
        raise HostFilesError(
            f"cannot read {file}: {error.strerror}; a former tenant may have changed it"
        ) from error
    for line in content.decode("utf-8", errors="replace").splitlines():
        if ":" in line:
            yield line.split(":")


def _changed_files(root: Path) -> Iterator[str]:
    """Yield the files of packages that changed after the installation, as rpm prints them."""
    argv = ["rpm", "--root", str(root), "--verify", "--all", "--nodeps", "--noscripts"]
    for line in _output(argv, _VERIFY_LIMIT, fails=True).splitlines():
        yield f"file {' '.join(line.split())}"


def _units() -> Iterator[str]:
    argv = ["systemctl", "list-unit-files", "--plain", "--no-legend", "--no-pager", _UNIT_TYPES]
    for line in _output(argv, _UNITS_LIMIT, fails=False).splitlines():
        yield f"unit {' '.join(line.split()[:2])}"


def _output(argv: list[str], limit: float, *, fails: bool) -> str:
    """Return the output of a program; with ``fails``, exit status 1 is not a failure."""
    try:
        done = process.run(argv, timeout=limit, output_limit=_OUTPUT_LIMIT)
        if done.status != 1 or not fails:
            done.check()
    except ProgramError as error:
        raise HostFilesError(f"cannot compare this host with its state before the lease: {error}") from error
    return done.stdout


def _listeners() -> Iterator[str]:
    try:
        found = psutil.net_connections(kind="inet")
    except (psutil.Error, OSError) as error:
        raise HostFilesError(f"cannot list what listens on this host: {error}") from error
    for connection in found:
        is_stream = connection.type == socket.SOCK_STREAM
        is_bound = connection.status == psutil.CONN_LISTEN if is_stream else not connection.raddr
        if connection.laddr and is_bound and (is_stream or connection.laddr.port < _CLIENT_PORTS):
            kind, place = ("tcp" if is_stream else "udp"), f"{connection.laddr.ip} {connection.laddr.port}"
            yield f"listener {kind} {place} ({_program(connection.pid)})"


def _program(number: int | None) -> str:
    """Return the name of a process without the numbers that differ between processes of the same program."""
    try:
        name = "" if number is None else psutil.Process(number).name()
    except psutil.Error:
        name = ""
    return re.sub(r"[^A-Za-z0-9._-].*", "", name) or "unknown"


_LARGEST = 64 * 1024 * 1024


@dataclass(frozen=True)
class HostTraces:
    """The traces on the host with the directory ``root``, which stands for ``/``.

    ``verifies`` is whether the host has packages of rpm, whose files are compared. The methods raise
    ``HostFilesError``.
    """

    root: Path
    run_directory: Path
    verifies: bool

    @property
    def baseline(self) -> JsonFile[HostBaseline]:
        """The file with the facts from before the present lease."""
        file = self.run_directory / "lease-baseline"
        return JsonFile(
            file,
            HostBaseline.if_valid,
            HostBaseline.to_json,
            limit=_LARGEST,
            mode=0o600,
            damaged=_refuse_damage,
        )

    def keep_access(self) -> None:
        """Record ``.ssh`` of root, unless it is recorded already."""
        self._ssh.keep()

    def restore_access(self) -> None:
        """Restore the recorded state of root's ``.ssh``, and forget the record; does nothing without a record."""
        self._ssh.restore()

    def facts(self) -> frozenset[str]:
        """Return accounts, changed files of packages, listeners and units, each as a line; may take minutes."""
        return host_facts(self.root, verifies=self.verifies)

    @property
    def _ssh(self) -> SshDirectory:
        return SshDirectory(self.root, self.run_directory / "ssh-before-lease")


def _refuse_damage(file: Path, _reason: str) -> NoReturn:
    raise HostFilesError(
        f"{file} is damaged: expected the state of this host before its lease; remove it to accept the present"
        " state of the host"
    )
