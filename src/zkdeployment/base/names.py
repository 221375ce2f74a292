"""The names and versions that are allowed: the rules that the syncer, the agent and the commands share.

Names become parts of file names, znodes and arguments of programs that run as root. Lint and the syncer validate
names when they enter the system, and the agent validates them again before it uses them. A node of the tree may
have any visible name that ZooKeeper accepts. A name that becomes a file, a lock, a target or a package must meet
the stricter rules of that kind.
"""

from __future__ import annotations

import functools
import re
from enum import Enum
from typing import NamedTuple

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.text import printable

#: The package that contains the agent.
AGENT_PACKAGE = "zkdeployment"

#: Top-level nodes that no tree file may write, except for the bare nodes ``/role-locks/ROLE``.
RESERVED = frozenset({"hosts", "hosts-lock", "agent-locks", "role-locks", "zookeeper", "zkdeployment"})


class NameKind(Enum):
    """The kinds of names; the value is the term that messages use."""

    __hash__ = object.__hash__  # that of Enum is a function of Python, and kinds are looked up for each name

    NODE = "node name"
    SERVICE = "name of a service node or of a node above it"
    MARKED = "name of a node in a marker's file name"
    HOST_ID = "host id"
    HOST_NAME = "host name"
    ROLE = "role"
    PACKAGE = "package name"
    RELEASE = "release"
    VERSION = "version"
    SUBTYPE = "subtype"
    PROPERTY = "property name"
    USER = "user name"
    PLAIN = "name"
    TEXT = "name as text"
    POOL = "pool name"
    TARGET = "target"


class _Rule(NamedTuple):
    """The rule for names of one kind: a pattern, and its description for messages."""

    pattern: str
    expected: str


_BEGINNING = "beginning with a letter, a digit or _"

_RULES = {
    # All names that ZooKeeper accepts (no character beyond U+FFFF), except invisible characters and a beginning
    # that would read as an operator in the target of a link.
    NameKind.NODE: _Rule(
        r"(?!\.{1,2}$|=)[^\s/\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]{1,255}",
        "1 to 255 characters that can be seen; no blanks, no slash, no emoji; not . or .., not beginning with =",
    ),
    # Slashes of a service's path become colons in file names and commas in lock names.
    NameKind.SERVICE: _Rule(
        r"(?!\.{1,2}$)[A-Za-z0-9_.][A-Za-z0-9._+@~=-]{0,254}",
        "letters from a to z, digits and . _ + @ ~ = -, beginning with a letter, a digit, . or _, as its path"
        " becomes the name of files and of a lock, in which : and , stand for the slashes",
    ),
    NameKind.MARKED: _Rule(
        r"(?!\.{1,2}$)[A-Za-z0-9_.][A-Za-z0-9._+:@~=-]{0,254}", "letters from a to z, digits and . _ + : @ ~ = -"
    ),
    NameKind.HOST_ID: _Rule(
        r"[A-Za-z0-9_][A-Za-z0-9._+:@-]{0,252}",
        f"at most 253 letters from a to z, digits and . _ + : @ -, {_BEGINNING}",
    ),
    NameKind.HOST_NAME: _Rule(
        r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}", f"at most 253 letters from a to z, digits and . _ -, {_BEGINNING}"
    ),
    NameKind.ROLE: _Rule(
        r"[A-Za-z0-9_][A-Za-z0-9._+:@~ -]{0,127}",
        f"at most 128 letters from a to z, digits, blanks and . _ + : @ ~ -, {_BEGINNING}",
    ),
    NameKind.PACKAGE: _Rule(
        r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}",
        "at most 128 letters from a to z, digits and . _ + -, beginning with a letter or a digit",
    ),
    # The value of a variable of dnf, and a part of the URLs of repositories.
    NameKind.RELEASE: _Rule(
        r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}",
        "at most 128 letters from a to z, digits and . _ + -, beginning with a letter or a digit",
    ),
    NameKind.VERSION: _Rule(
        r"[A-Za-z0-9][A-Za-z0-9._+~^:-]{0,127}",
        "at most 128 letters from a to z, digits and . _ + ~ ^ : -, beginning with a letter or a digit",
    ),
    NameKind.SUBTYPE: _Rule(
        r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}",
        "at most 128 letters from a to z, digits and . _ + -, beginning with a letter or a digit",
    ),
    # A property name must not read as a node, a comment or a link in a tree text.
    NameKind.PROPERTY: _Rule(
        r"(?!.*->)[^\s/#=][^\s=]{0,254}",
        "1 to 255 characters that can be seen; no blanks, no = or ->, not beginning with / or #",
    ),
    # HTTP's basic authentication has a colon between name and key.
    NameKind.USER: _Rule(
        r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}",
        "at most 64 letters from a to z, digits and . _ @ + -, beginning with a letter or a digit",
    ),
    # The names of documents are parts of URLs, of file names and of PROJECT/APP/VERSION/NAME.
    NameKind.PLAIN: _Rule(
        r"(?!\.{1,2}$)[A-Za-z0-9_.~][A-Za-z0-9_.~@:+-]{0,127}",
        "at most 128 letters from a to z, digits and . _ ~ - @ : +, without a - at the start",
    ),
    NameKind.TEXT: _Rule(
        r"\S(.{0,998}\S)?", "at most 1000 characters that can be seen, with blanks only between them"
    ),
    NameKind.POOL: _Rule(
        r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}",
        "at most 128 letters from a to z, digits and . _ + -, beginning with a letter or a digit",
    ),
    # A role, a host name or a host id, as part of PROVIDER/CLUSTER.
    NameKind.TARGET: _Rule(
        r"[A-Za-z0-9_][A-Za-z0-9._+:@~-]{0,252}",
        f"at most 253 letters from a to z, digits and . _ + : @ ~ -, {_BEGINNING}",
    ),
}


@functools.cache
def _compiled(kind: NameKind) -> re.Pattern[str]:
    """Return the compiled pattern; a program needs few of the kinds, and compiling all of them takes long."""
    return re.compile(_RULES[kind].pattern)


@functools.lru_cache(maxsize=1024)  # names of services and of nodes above them are checked many times in a row
def is_name(kind: NameKind, text: str) -> bool:
    """Whether ``text`` is a valid name of this kind."""
    return _compiled(kind).fullmatch(text) is not None and printable(text) == text


def expected_name(kind: NameKind) -> str:
    """Return the characters and the length that names of a kind have, for messages."""
    return _RULES[kind].expected


def name_pattern(kind: NameKind) -> str:
    """Return the regular expression that names of a kind match as a whole."""
    return _RULES[kind].pattern


def name_problem(kind: NameKind, text: str) -> str | None:
    """Return the reason why a name is invalid; ``None`` for a valid name."""
    if is_name(kind, text):
        return None
    shown = text if len(text) <= 60 else text[:57] + "..."
    return f"{shown!a} is not a {kind.value} (expected {_RULES[kind].expected})"


def check_node_path(path: str) -> None:
    """Raise ``ConfigurationError`` for the path of a node that does not begin with a slash."""
    if not path.startswith("/"):
        raise ConfigurationError(f"{path[:100]!a} is not the path of a node: expected /{printable(path[:100])}")


def application_of(package: str) -> str:
    """Return the application of a package: ``foo`` for ``foo-1.4``, the package's own name without a version."""
    stem, _, version = package.rpartition("-")
    return stem if stem and version[:1].isdigit() else package
