"""Which names and versions are allowed: the one gate for the syncer, the agent and the commands.

Names end up in file names, znodes and argument lists of programs that run as root, so they are checked
where they come in (lint, syncer) and again where they are used (agent).
"""

from __future__ import annotations

import re
from enum import Enum

_ANY_NODE = r"(?!\.{1,2}$)[A-Za-z0-9_.][A-Za-z0-9._+:@~=-]{0,254}"


#: The package that brings the agent.
OURSELVES = "zkdeployment"

#: Top-level nodes that no tree file may write (but for the bare nodes ``/role-locks/ROLE``).
RESERVED = frozenset({"hosts", "hosts-lock", "agent-locks", "role-locks", "zookeeper", "zkdeployment"})


class Kind(Enum):
    """What a text is to be the name of; the value is how messages call it."""

    NODE = "node name"
    SERVICE = "name of a service node or of a node above it"
    HOST_ID = "host id"
    HOST_NAME = "host name"
    ROLE = "role"
    PACKAGE = "package name"
    VERSION = "version"
    SUBTYPE = "subtype"
    PROPERTY = "property name"


_PATTERNS = {
    Kind.NODE: _ANY_NODE,
    # Slashes of a service's path become colons in file names and commas in lock names.
    Kind.SERVICE: r"(?!\.{1,2}$)[A-Za-z0-9_.][A-Za-z0-9._+@~=-]{0,254}",
    Kind.HOST_ID: r"[A-Za-z0-9_][A-Za-z0-9._+:@-]{0,252}",
    Kind.HOST_NAME: r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}",
    Kind.ROLE: r"[A-Za-z0-9_][A-Za-z0-9._+:@~ -]{0,127}",
    Kind.PACKAGE: r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}",
    Kind.VERSION: r"[A-Za-z0-9][A-Za-z0-9._+~^:-]{0,127}",
    Kind.SUBTYPE: r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}",
    # What would read as a node, a comment or a link in a tree text is no name of a property.
    Kind.PROPERTY: r"(?!.*->)[^\s/#=\x00-\x1f\x7f\ud800-\udfff][^\s=\x00-\x1f\x7f\ud800-\udfff]{0,254}",
}
_COMPILED = {kind: re.compile(pattern) for kind, pattern in _PATTERNS.items()}


def is_name(kind: Kind, text: str) -> bool:
    """Whether ``text`` may be used as a name of this kind."""
    return _COMPILED[kind].fullmatch(text) is not None


def name_problem(kind: Kind, text: str) -> str | None:
    """Say what is wrong with a name, or ``None`` if nothing is."""
    if is_name(kind, text):
        return None
    shown = text if len(text) <= 60 else text[:57] + "..."
    return f"{shown!a} is not a {kind.value} (expected {_PATTERNS[kind]})"


def application_named(package: str) -> str:
    """Return the application that a package's name speaks of: ``foo-1.4`` is foo's, any other its own."""
    stem, _, version = package.rpartition("-")
    return stem if stem and version[:1].isdigit() else package
