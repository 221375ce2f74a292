"""Access to ZooKeeper servers: addresses, authentication, encryption, and silent servers.

Encrypted connections are opened here: kazoo does not check server names by default, and trusts the
system's certificates beside the configured ones. Files are read for each connection, as certificates get renewed.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any

from kazoo.hosts import collect_hosts
from kazoo.security import ACL, Id, Permissions

from zkdeployment.base.errors import ConfigurationError, RefusedError, UnreachableError
from zkdeployment.zookeeper.nodes import check_path
from zkdeployment.zookeeper.servers import AclEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from zkdeployment.zookeeper.servers import Access


_RIGHTS = {
    "c": Permissions.CREATE,
    "d": Permissions.DELETE,
    "r": Permissions.READ,
    "w": Permissions.WRITE,
    "a": Permissions.ADMIN,
}


def client_options(access: Access) -> dict[str, Any]:
    """Return kazoo's constructor options for this access."""
    options: dict[str, Any] = {}
    if access.secret is not None:
        options["auth_data"] = [("digest", access.secret)]
    if access.acl:
        options["default_acl"] = kazoo_acl(access.acl)
    return options


def kazoo_acl(entries: Iterable[AclEntry]) -> list[ACL]:
    """Return an access control list in kazoo's form."""
    return [
        ACL(sum(_RIGHTS[letter] for letter in set(rights)), Id(scheme, who)) for scheme, who, rights in entries
    ]


def acl_entries(listed: Iterable[ACL]) -> tuple[AclEntry, ...]:
    """Return an access control list from kazoo's form."""
    return tuple(
        AclEntry(
            entry.id.scheme,
            entry.id.id,
            "".join(letter for letter, right in _RIGHTS.items() if entry.perms & right),
        )
        for entry in listed
    )


def encryption(access: Access) -> ssl.SSLContext | None:
    """Return the TLS context, or ``None`` without encryption; raises ``ConfigurationError`` for unusable files."""
    if access.ca is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks certificates and names
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    file = access.ca
    try:
        context.load_verify_locations(access.ca)
        if access.certificate is not None:
            file = access.certificate
            context.load_cert_chain(access.certificate, access.key, password=_no_passphrase)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"cannot encrypt with {file}: {error}; expected certificates, or one and its key without a"
            " passphrase, as PEM"
        ) from error
    return context


#: Seconds for a TCP connection. A machine that is switched off does not even refuse it, and the next server has to
#: be tried within the time limit of a call.
_CONNECT_LIMIT = 3.0

#: Seconds that each server leaves to each of the next ones, and the least time for a server.
_RESERVE = 1.0
_LEAST_SHARE = 0.1


def connect(
    address: tuple[str, int], hostname: str, timeout: float, context: ssl.SSLContext | None
) -> socket.socket:
    """Return a connection to an address; raises ``OSError``, also if its certificate is not for ``hostname``.

    The TLS handshake may take ``timeout`` seconds, because busy servers take long for it.
    """
    plain = socket.create_connection(address, min(timeout, _CONNECT_LIMIT))
    try:
        plain.settimeout(timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if context is None else context.wrap_socket(plain, server_hostname=hostname)
    except BaseException:
        plain.close()
        raise


def _no_passphrase() -> str:
    """Return an empty passphrase, because the program has no terminal for a prompt."""
    return ""


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


def probe(hosts: list[tuple[str, int]], context: ssl.SSLContext | None = None, *, timeout: float = 10.0) -> None:
    """Raise ``UnreachableError``, with a reason for each address, unless one address accepts connections.

    With ``context`` the TLS handshake has to succeed, too. The call ends after about ``timeout`` seconds.
    """
    reasons = []
    for host, port, limit in _attempts(hosts, timeout):
        try:
            connect((host, port), host, limit, context).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {_reason(error)}")
        else:
            return
    raise UnreachableError(f"ZooKeeper cannot be reached at {'; '.join(reasons)}")


def _attempts(hosts: list[tuple[str, int]], timeout: float) -> Iterator[tuple[str, int, float]]:
    """Yield each address with its time limit, which leaves time for the next ones; a busy server needs long."""
    deadline, reserve = time.monotonic() + timeout, min(_RESERVE, timeout / len(hosts))
    for left, (host, port) in zip(range(len(hosts) - 1, -1, -1), hosts, strict=True):
        yield host, port, max(_LEAST_SHARE, deadline - time.monotonic() - left * reserve)


#: The line with the last transaction in a server's answer to ``srvr``; a server that does not serve has none.
_ZXID = re.compile(rb"^Zxid: 0x([0-9a-f]+)$", re.MULTILINE)
_LONGEST_ANSWER = 1 << 16


def newest_transaction(
    hosts: list[tuple[str, int]], context: ssl.SSLContext | None = None, *, timeout: float = 10.0
) -> int | None:
    """Return the last transaction (a zxid) of the servers that serve; ``None`` if none of them names one."""
    found = [_last_transaction(*attempt, context) for attempt in _attempts(hosts, timeout)]
    return max((zxid for zxid in found if zxid is not None), default=None)


def _last_transaction(host: str, port: int, limit: float, context: ssl.SSLContext | None) -> int | None:
    answer = b""
    deadline = time.monotonic() + limit
    try:
        with connect((host, port), host, limit, context) as connection:
            connection.sendall(b"srvr")
            while len(answer) < _LONGEST_ANSWER and time.monotonic() < deadline:
                more = connection.recv(_LONGEST_ANSWER)
                if not more:
                    break
                answer += more
    except OSError:
        return None
    match = _ZXID.search(answer)
    return None if match is None else int(match[1], 16)


def _reason(error: OSError) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not accepted ({error.verify_message})"
        case ssl.SSLError(reason=str(reason)) if "CERTIFICATE" in reason:  # a TLS alert from the server
            return f"it does not accept our certificate, or that we have none ({reason})"
        case ssl.SSLError():
            return f"no encrypted connection ({error.reason or error})"
        case _:
            return str(error.strerror or error)
