"""Server addresses: parsing of connection strings, and diagnosis of servers that do not answer."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from typing import TYPE_CHECKING

from kazoo.hosts import collect_hosts

from zkdeployment.adapters.zookeeper.client.access import connect
from zkdeployment.adapters.zookeeper.client.nodes import check_path
from zkdeployment.errors import ConfigurationError, RefusedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_PROBE_LIMIT = 3.0  # seconds


def parse(connection: str) -> tuple[list[tuple[str, int]], str]:
    """Return the addresses and the chroot of a connection string; raises ``ConfigurationError``."""
    try:
        hosts, chroot = collect_hosts(connection)
    except ValueError as error:
        raise ConfigurationError(
            f"{connection!r} is not a ZooKeeper connection string (HOST:PORT[,HOST:PORT…][/CHROOT]): {error}"
        ) from error
    chroot = (chroot or "").rstrip("/")
    return hosts, check_path(chroot) if chroot else ""


def check_addresses(connection: str, expected: Collection[str]) -> None:
    """Raise ``RefusedError`` unless all servers of a connection string have ``expected`` addresses only."""
    allowed = {_canonical(address) for address in expected}
    hosts, _ = parse(connection)
    other = [*dict.fromkeys(place for host, _ in hosts for place in _unexpected(host, allowed))]
    if other:
        raise RefusedError(
            f"the configuration leads to another ZooKeeper: expected only {', '.join(expected)}"
            f" behind {connection}, found {', '.join(other)}; correct the configuration or the name service"
        )


def _unexpected(host: str, allowed: Collection[str]) -> Iterator[str]:
    """Yield, for messages, the addresses of a host that are not allowed."""
    try:
        addresses = {_canonical(str(info[4][0])) for info in socket.getaddrinfo(host, None)}
    except OSError as error:
        yield f"{host} without an address ({error.strerror})"
        return
    for address in sorted(addresses.difference(allowed)):
        yield address if address == host else f"{host} at {address}"


def _canonical(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def probe(hosts: list[tuple[str, int]], context: ssl.SSLContext | None = None, *, handshake: float = 10.0) -> None:
    """Raise ``UnreachableError`` with a reason for each address unless one of them accepts connections.

    With ``context`` the TLS handshake has to succeed within ``handshake`` seconds; busy servers take long for it.
    """
    limit = _PROBE_LIMIT if context is None else handshake
    reasons = []
    for host, port in hosts:
        try:
            connect((host, port), host, limit, context).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {_reason(error)}")
        else:
            return
    raise UnreachableError(f"ZooKeeper cannot be reached at {'; '.join(reasons)}")


def _reason(error: OSError) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not accepted ({error.verify_message})"
        case ssl.SSLError(reason=str(reason)) if "CERTIFICATE" in reason:  # an alert that the server sent
            return f"it does not accept our certificate, or that we have none ({reason})"
        case ssl.SSLError():
            return f"no encrypted connection ({error.reason or error})"
        case _:
            return str(error.strerror or error)
