"""The socket that the service listens on, and the encryption of its connections."""

from __future__ import annotations

import errno
import socket
import ssl
import stat
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError, ZkdeploymentError

if TYPE_CHECKING:
    from pathlib import Path

#: Connections that wait to be accepted.
_BACKLOG = 1024

#: The errors of names, addresses and ports that a later attempt may be able to use.
_TEMPORARY = {errno.EADDRINUSE, errno.EADDRNOTAVAIL, socket.EAI_AGAIN}


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is any free one.

    Raises ``ConfigurationError`` if the socket cannot be opened, or ``ZkdeploymentError``, after which systemd
    starts the program again, if the name, the address or the port cannot be used at the moment.
    """
    try:
        (family, *_, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        listener = socket.socket(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Connections inherit this. Without it, an answer waits up to 40 ms for the client to confirm its head.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        kind = ZkdeploymentError if error.errno in _TEMPORARY else ConfigurationError
        raise kind(
            f"cannot listen on {host} port {port}: {error.strerror or error}; see listen in the configuration"
        ) from error
    return listener


def server_encryption(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the encryption of the service: TLS 1.2 or later.

    Raises ``ConfigurationError`` for unusable files, and for a key that everyone can access.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        if (mode := stat.S_IMODE(key.stat().st_mode)) & stat.S_IRWXO:
            raise ConfigurationError(f"everyone has access to {key} (mode {mode:03o}); run chmod o-rwx {key}")
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise ConfigurationError(
            f"cannot use the certificate {certificate} with the key {key}: {error.strerror or error}"
        ) from error
    return context
