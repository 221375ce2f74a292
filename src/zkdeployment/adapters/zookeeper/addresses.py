"""Where the servers are: connection strings, and why nobody is there."""

from __future__ import annotations

import socket

from kazoo.hosts import collect_hosts

from zkdeployment.adapters.zookeeper.nodes import check_path
from zkdeployment.errors import ConfigurationError, UnreachableError

_PROBE_LIMIT = 3.0  # seconds


def parse(connection: str) -> tuple[list[tuple[str, int]], str]:
    """Split a connection string into addresses and chroot; raises ``ConfigurationError``."""
    try:
        hosts, chroot = collect_hosts(connection)
    except ValueError as error:
        raise ConfigurationError(
            f"{connection!r} is not a ZooKeeper connection string (HOST:PORT[,HOST:PORT…][/CHROOT]): {error}"
        ) from error
    chroot = (chroot or "").rstrip("/")
    return hosts, check_path(chroot) if chroot else ""


def probe(hosts: list[tuple[str, int]]) -> None:
    """Raise ``UnreachableError`` with a reason for each address unless one of them takes connections."""
    reasons = []
    for host, port in hosts:
        try:
            socket.create_connection((host, port), timeout=_PROBE_LIMIT).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    raise UnreachableError(f"ZooKeeper cannot be reached at {'; '.join(reasons)}")
