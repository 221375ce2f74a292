"""The ZooKeeper servers of the configuration, and the state of the connection to them."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path


class AclEntry(NamedTuple):
    """One entry of the access control list of the nodes that this program creates.

    ``scheme`` and ``identity`` are ZooKeeper's (``world``, ``anyone``); ``auth`` with an empty identity is the
    creator of the node. ``rights`` are letters of ``cdrwa``: create, delete, read, write, administer.
    """

    scheme: str
    identity: str
    rights: str


@dataclass(frozen=True, kw_only=True)
class Access:
    """Encryption, credentials and access rights; the default is no authentication and all rights for everyone.

    ``ca`` is a file of certificates: connections are encrypted, and each server must present a certificate, signed
    by one of these, for its name in the connection string. ``certificate`` and ``key`` are the files that
    authenticate this client. ``secret`` (``USER:PASSWORD``) is the content of the file ``credentials``;
    ``plain_text`` permits sending it over connections that are not encrypted.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    credentials: Path | None = None
    secret: str | None = field(default=None, repr=False)
    plain_text: bool = False
    acl: tuple[AclEntry, ...] = ()

    @property
    def authenticated(self) -> bool:
        """Whether this client authenticates itself."""
        return self.credentials is not None or self.certificate is not None


@dataclass(frozen=True)
class Servers:
    """A connection string (``HOST:PORT[,HOST:PORT…][/CHROOT]``) and the access to these servers."""

    connection: str
    access: Access = Access()

    def __str__(self) -> str:
        return self.connection
