"""The keys ``zookeeper`` and ``zookeeper-…``: servers, encryption, credentials and access rights."""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING

from zkdeployment.zookeeper.servers import Access, AclEntry

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.config.section import Section


_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(?::(?P<port>[0-9]{1,10}))?")
_CHROOT = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._+:@~=-]+)+")


def connection_problem(connection: str) -> str | None:
    """Return the reason why a connection string is invalid; ``None`` for a valid one."""
    servers, slash, chroot = connection.partition("/")
    for server in servers.split(","):
        match = _SERVER.fullmatch(server)
        if match is None:
            return f"expected HOST:PORT[,HOST:PORT…][/CHROOT], found {connection!r}"
        if match["port"] is not None and not 0 < int(match["port"]) < 65536:
            return f"expected a port from 1 to 65535 in {server!r}, found {match['port']}"
    if slash and chroot and _CHROOT.fullmatch(f"/{chroot}") is None:
        return f"expected a path like /chroot after the servers, found {'/' + chroot!r}"
    return None


_FILES = ("zookeeper-ca", "zookeeper-certificate", "zookeeper-key", "zookeeper-credentials")
_PLAIN_TEXT = "zookeeper-plain-text"
KEYS = (*_FILES, _PLAIN_TEXT, "zookeeper-acl")

#: All rights for the authenticated creator of a node.
_CREATOR = AclEntry("auth", "", "cdrwa")

_ACL_ENTRY = re.compile(r"(?:(creator)|(world):(anyone)|(digest|x509|sasl|ip):(\S.*)):([cdrwa]+)")
_CREDENTIALS = re.compile(r"[^\s:]+:\S+")
_MAX_BYTES = 1024


def read_access(section: Section) -> Access:
    """Return the access that a section configures; problems are reported to the section."""
    ca, certificate, key, credentials = (section.file(name) for name in _FILES)
    plain_text = section.checked(_PLAIN_TEXT, yes_no_problem) == "yes"
    if (certificate is None) != (key is None):
        section.report("zookeeper-certificate", "expected both this key and zookeeper-key, found only one of them")
    if certificate is not None and ca is None:
        section.report("zookeeper-certificate", "expected zookeeper-ca together with this key, found none")
    if credentials is not None and ca is None and not plain_text:
        section.report(
            "zookeeper-credentials",
            "the password would cross the network unencrypted; expected zookeeper-ca, which enables encryption, or"
            f" {_PLAIN_TEXT} = yes in a network that is safe",
        )
    for name, file in (("zookeeper-key", key), ("zookeeper-credentials", credentials)):
        _check_closed(section, name, file)
    authenticated = credentials is not None or certificate is not None
    return Access(
        ca=ca,
        certificate=certificate,
        key=key,
        credentials=credentials,
        secret=None if credentials is None else _secret(section, credentials),
        plain_text=plain_text,
        acl=read_acl(section, "zookeeper-acl", authenticated=authenticated),
    )


def _check_closed(section: Section, name: str, file: Path | None) -> None:
    """Report a secret file that everyone can access."""
    if file is not None and (mode := stat.S_IMODE(file.stat().st_mode)) & stat.S_IRWXO:
        section.report(name, f"everyone has access to {file} (mode {mode:03o}); run chmod o-rwx {file}")


def yes_no_problem(value: str) -> str | None:
    """Return the problem of a value that should be ``yes`` or ``no``."""
    return None if value in {"yes", "no"} else f"expected yes or no, found {value!r}"


def _secret(section: Section, file: Path) -> str | None:
    """Return the only line of a credentials file."""
    with file.open("rb") as opened:
        secret = opened.read(_MAX_BYTES).decode("utf-8", errors="replace").strip()
    if _CREDENTIALS.fullmatch(secret) is None:
        section.report("zookeeper-credentials", f"expected one line USER:PASSWORD in {file}, found other content")
        return None
    return secret


def read_acl(section: Section, key: str, *, authenticated: bool) -> tuple[AclEntry, ...]:
    """Return an access control list, one entry for each line; the default is all rights for the creator only."""
    lines = [line.strip() for line in (section.text(key) or "").splitlines()]
    entries = [entry for line in lines if line and (entry := _acl_entry(section, key, line)) is not None]
    if _CREATOR[:2] in (entry[:2] for entry in entries) and not authenticated:
        section.report(key, "creator requires zookeeper-credentials or zookeeper-certificate")
    return tuple(entries) or ((_CREATOR,) if authenticated else ())


def _acl_entry(section: Section, key: str, line: str) -> AclEntry | None:
    match = _ACL_ENTRY.fullmatch(line)
    if match is None:
        section.report(
            key,
            "expected lines like creator:cdrwa, world:anyone:r, digest:USER:HASH:r or x509:CN=viewer:r,"
            f" found {line!r}",
        )
        return None
    creator, world, anyone, scheme, identity, rights = match.groups()
    if creator:
        return AclEntry(_CREATOR.scheme, _CREATOR.identity, rights)
    return AclEntry(world or scheme, anyone or identity, rights)
