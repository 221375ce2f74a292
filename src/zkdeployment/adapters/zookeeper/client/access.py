"""Authentication and encryption of a ZooKeeper client, as options for kazoo.

Encrypted connections are opened here: kazoo does not check server names by default, and trusts the
system's certificates beside the configured ones. Files are read for each connection, as certificates get renewed.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any

from kazoo.security import ACL, Id, Permissions

from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.model.servers import Access, AclEntry

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


def connect(
    address: tuple[str, int], hostname: str, timeout: float, context: ssl.SSLContext | None
) -> socket.socket:
    """Return a connection to an address; raises ``OSError``, also if its certificate is not for ``hostname``."""
    plain = socket.create_connection(address, timeout)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if context is None else context.wrap_socket(plain, server_hostname=hostname)
    except BaseException:
        plain.close()
        raise


def _no_passphrase() -> str:
    """Return an empty passphrase: there is no terminal to ask at."""
    return ""
