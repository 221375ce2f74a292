"""How ZooKeeper lets us in: the keys ``zookeeper-…`` of a configuration."""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING

from zkdeployment.model.servers import Access, AclEntry

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.config.section import Section

_FILES = ("zookeeper-ca", "zookeeper-certificate", "zookeeper-key", "zookeeper-credentials")
_PLAIN_TEXT = "zookeeper-plain-text"
KEYS = (*_FILES, _PLAIN_TEXT, "zookeeper-acl")

#: Whoever makes a node, if the servers know who that is.
_CREATOR = AclEntry("auth", "", "cdrwa")

_GRANT = re.compile(r"(?:(creator)|(world):(anyone)|(digest|x509|sasl|ip):(\S.*)):([cdrwa]+)")
_CREDENTIALS = re.compile(r"[^\s:]+:\S+")
_LONGEST = 1024


def read_access(section: Section) -> Access:
    """Read them; what is wrong is noted."""
    ca, certificate, key, credentials = (section.file(name) for name in _FILES)
    plain_text = section.checked(_PLAIN_TEXT, _answer_problem) == "yes"
    if (certificate is None) != (key is None):
        section.note("zookeeper-certificate", "expected it together with zookeeper-key, found one of them")
    if certificate is not None and ca is None:
        section.note("zookeeper-certificate", "expected it together with zookeeper-ca, found none")
    if credentials is not None and ca is None and not plain_text:
        section.note(
            "zookeeper-credentials",
            "the password would go over the network for all to read; expected zookeeper-ca, which encrypts, or"
            f" {_PLAIN_TEXT} = yes where nobody else listens",
        )
    for name, file in (("zookeeper-key", key), ("zookeeper-credentials", credentials)):
        _check_closed(section, name, file)
    known = credentials is not None or certificate is not None
    return Access(
        ca=ca,
        certificate=certificate,
        key=key,
        credentials=credentials,
        secret=None if credentials is None else _secret(section, credentials),
        plain_text=plain_text,
        acl=_acl(section, known=known),
    )


def _check_closed(section: Section, name: str, file: Path | None) -> None:
    """Note a secret that is for everyone to read."""
    if file is not None and (mode := stat.S_IMODE(file.stat().st_mode)) & stat.S_IRWXO:
        section.note(name, f"{file} is open to everyone (mode {mode:03o}); chmod o-rwx {file}")


def _answer_problem(value: str) -> str | None:
    return None if value in {"yes", "no"} else f"expected yes or no, found {value!r}"


def _secret(section: Section, file: Path) -> str | None:
    """Read the one line of a file."""
    with file.open("rb") as opened:
        found = opened.read(_LONGEST).decode("utf-8", errors="replace").strip()
    if _CREDENTIALS.fullmatch(found) is None:
        section.note("zookeeper-credentials", f"expected one line USER:PASSWORD in {file}, found something else")
        return None
    return found


def _acl(section: Section, *, known: bool) -> tuple[AclEntry, ...]:
    """Read who may do what, one a line; by default whoever makes a node may do everything, and nobody else."""
    lines = [line.strip() for line in (section.text("zookeeper-acl") or "").splitlines()]
    grants = [grant for line in lines if line and (grant := _grant(section, line)) is not None]
    if _CREATOR[:2] in (grant[:2] for grant in grants) and not known:
        section.note("zookeeper-acl", "creator needs zookeeper-credentials or zookeeper-certificate")
    return tuple(grants) or ((_CREATOR,) if known else ())


def _grant(section: Section, line: str) -> AclEntry | None:
    match = _GRANT.fullmatch(line)
    if match is None:
        section.note(
            "zookeeper-acl",
            "expected lines like creator:cdrwa, world:anyone:r, digest:USER:HASH:r or x509:CN=viewer:r,"
            f" found {line!r}",
        )
        return None
    creator, observation, anyone, scheme, identity, rights = match.groups()
    if creator:
        return AclEntry(_CREATOR.scheme, _CREATOR.identity, rights)
    return AclEntry(observation or scheme, anyone or identity, rights)
