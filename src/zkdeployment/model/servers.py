"""ZooKeeper's servers as the configuration has them: where they are, and how they let us in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class AclEntry(NamedTuple):
    """What somebody may do with the nodes that we make.

    ``scheme`` and ``identity`` are ZooKeeper's (``world``, ``anyone``); ``auth`` and nobody mean whoever makes the
    node. ``rights`` are some of ``cdrwa``: create, delete, read, write, administer.
    """

    scheme: str
    identity: str
    rights: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the servers let us in; by default they know nobody, and everybody may do everything.

    With ``ca``, a file of certificates, connections are encrypted, and servers have to prove by a certificate of
    one of these that they have the name in the connection string. ``certificate`` and ``key`` are the files by
    which we prove who we are, ``secret`` (``USER:PASSWORD``) is what the file ``credentials`` holds; with
    ``plain_text`` it may go over connections that are not encrypted.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    credentials: Path | None = None
    secret: str | None = field(default=None, repr=False)
    plain_text: bool = False
    acl: tuple[AclEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Servers:
    """A connection string (``HOST:PORT[,HOST:PORT…][/CHROOT]``) and the access to those servers."""

    connection: str
    access: Access = Access()

    def __str__(self) -> str:
        return self.connection
