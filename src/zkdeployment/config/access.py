"""How ZooKeeper lets us in: the keys ``zookeeper-…`` of a configuration."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from zkdeployment.model.servers import Access, Grant

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.config.section import Section

KEYS = ("zookeeper-ca", "zookeeper-certificate", "zookeeper-key", "zookeeper-credentials", "zookeeper-acl")

#: Whoever makes a node, if the servers know who that is.
_CREATOR = Grant("auth", "", "cdrwa")

_GRANT = re.compile(r"(?:(creator)|(world):(anyone)|(digest|x509|sasl|ip):(\S.*)):([cdrwa]+)")
_CREDENTIALS = re.compile(r"[^\s:]+:\S+")
_LONGEST = 1024


def read_access(section: Section) -> Access:
    """Read them; what is wrong is noted."""
    ca, certificate, key, credentials = (section.file(name) for name in KEYS[:4])
    if (certificate is None) != (key is None):
        section.note("zookeeper-certificate", "expected it together with zookeeper-key, found one of them")
    if certificate is not None and ca is None:
        section.note("zookeeper-certificate", "expected it together with zookeeper-ca, found none")
    known = credentials is not None or certificate is not None
    return Access(
        ca=ca,
        certificate=certificate,
        key=key,
        credentials=credentials,
        secret=None if credentials is None else _secret(section, credentials),
        acl=_acl(section, known=known),
    )


def _secret(section: Section, file: Path) -> str | None:
    """Read the one line of a file that is not for everyone to read."""
    with file.open("rb") as opened:
        mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
        found = opened.read(_LONGEST).decode("utf-8", errors="replace").strip()
    if mode & stat.S_IRWXO:
        section.note("zookeeper-credentials", f"{file} is open to everyone (mode {mode:03o}); chmod o-rwx {file}")
    if _CREDENTIALS.fullmatch(found) is None:
        section.note("zookeeper-credentials", f"expected one line USER:PASSWORD in {file}, found something else")
        return None
    return found


def _acl(section: Section, *, known: bool) -> tuple[Grant, ...]:
    """Read who may do what, one a line; by default whoever makes a node may do everything, and nobody else."""
    lines = [line.strip() for line in (section.text("zookeeper-acl") or "").splitlines()]
    grants = [grant for line in lines if line and (grant := _grant(section, line)) is not None]
    if _CREATOR[:2] in (grant[:2] for grant in grants) and not known:
        section.note("zookeeper-acl", "creator needs zookeeper-credentials or zookeeper-certificate")
    return tuple(grants) or ((_CREATOR,) if known else ())


def _grant(section: Section, line: str) -> Grant | None:
    match = _GRANT.fullmatch(line)
    if match is None:
        section.note(
            "zookeeper-acl",
            "expected lines like creator:cdrwa, world:anyone:r, digest:USER:HASH:r or x509:CN=viewer:r,"
            f" found {line!r}",
        )
        return None
    creator, world, anyone, scheme, identity, rights = match.groups()
    if creator:
        return Grant(_CREATOR.scheme, _CREATOR.identity, rights)
    return Grant(world or scheme, anyone or identity, rights)
