"""The data of nodes: properties in zc.zk's form, compressed records, and reads that follow links."""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from zkdeployment.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.json_values import Properties, Value


STRING_VALUE = "string_value"

#: One encoder for all calls; ``json.dumps`` would build one for each.
_JSON = json.JSONEncoder(separators=(",", ":"), sort_keys=True)

#: The number of nested containers that a property may have.
_DEEPEST = 500

#: Characters that ZooKeeper refuses in a path. A lone surrogate would break the client's connection permanently.
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
_LONGEST_PATH = 32768
#: The form of almost all paths, which need no further check.
_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9_][A-Za-z0-9._:@%,+-]*+)++")


def encode(properties: Properties) -> bytes:
    """Return the data of a node with these properties; ``decode`` reverses it."""
    if not properties:
        return b""
    if properties.keys() == {STRING_VALUE}:
        text = properties[STRING_VALUE]
        if isinstance(text, str) and not _reads_otherwise(text):
            return text.encode()
    return _JSON.encode(properties).encode("ascii")


def decode(data: bytes) -> dict[str, Value]:
    """Return the properties in a node's data; never fails, for any data."""
    text = data.decode("utf-8", errors="replace")
    stripped = text.strip()
    if not stripped:
        return {}
    if stripped.startswith("{") and stripped.endswith("}"):
        try:
            properties: dict[str, Value] = json.loads(stripped, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return {STRING_VALUE: text}
        return {STRING_VALUE: text} if _is_too_deep(properties, stripped) else properties
    return {STRING_VALUE: text}


def _is_too_deep(properties: dict[str, Value], text: str) -> bool:
    """Whether properties are nested too deeply for recursive functions; ``text`` is their JSON.

    Newer versions of Python parse values that these functions cannot handle.
    """
    if text.count("{") + text.count("[") <= _DEEPEST:
        return False
    level: list[object] = [properties]
    for _ in range(_DEEPEST):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
    return bool(level)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _reads_otherwise(text: str) -> bool:
    """Whether ``decode`` would not return plain text as ``string_value``."""
    stripped = text.strip()
    framed = stripped.startswith("{") and stripped.endswith("}")
    return not stripped or framed or any("\ud800" <= character <= "\udfff" for character in text)


def check_path(path: str) -> str:
    """Return ``path`` if ZooKeeper accepts it; raises ``ConfigurationError`` with the reason if not."""
    if path == "/" or (len(path) <= _LONGEST_PATH and _PLAIN_PATH.fullmatch(path)):
        return path
    if not path.startswith("/"):
        problem = "must start with a slash"
    elif path.endswith("/") or "//" in path:
        problem = "has an empty name in it"
    elif any(name in {".", ".."} for name in path.split("/")):
        problem = "must not contain '.' or '..' as names"
    elif _FORBIDDEN.search(path):
        problem = "has characters that ZooKeeper does not allow"
    elif len(path) > _LONGEST_PATH:
        problem = f"is longer than {_LONGEST_PATH} characters"
    else:
        return path
    shown = path if len(path) <= 80 else path[:77] + "..."
    raise ConfigurationError(f"{shown!a} is not the path of a node: it {problem}")


def is_path(path: str) -> bool:
    """Return whether ZooKeeper accepts a path."""
    try:
        check_path(path)
    except ConfigurationError:
        return False
    return True


def under(chroot: str, path: str) -> str:
    """Return the absolute path on the server, for a path below the chroot."""
    return chroot + path if path != "/" else chroot or path


class Node(NamedTuple):
    """A node's data and metadata as read.

    ``owner`` is the session of an ephemeral node, else 0. ``version`` counts the changes of the data. ``changed``
    is the transaction of the last change, ``born`` the one that created the node. ``created`` and ``modified``
    are in seconds since the epoch. ``child_changes`` counts the children that were ever created and deleted.
    """

    data: bytes
    version: int
    owner: int
    changed: int
    born: int
    children: int
    created: float
    modified: float
    child_changes: int = 0

    @classmethod
    def read(cls, answer: tuple[bytes, tuple[int, ...]]) -> Node:
        """Return the node in kazoo's answer to ``get``: its data, and the fields of ZooKeeper's ``Stat``."""
        data, (born, changed, created, modified, version, child_changes, _, owner, _, children, _) = answer
        times = created / 1000, modified / 1000
        # The call of the class would take twice as long, in reads of whole trees.
        return tuple.__new__(cls, (data, version, owner, changed, born, children, *times, child_changes))

    @property
    def properties(self) -> dict[str, Value]:
        """The properties in its data."""
        return decode(self.data)


#: Bytes. None of our records is larger: larger data are damaged, or an attack on the reader's memory.
_LARGEST = 64 << 20

#: Larger contents are compressed; smaller ones stay readable for people who read the node.
_COMPRESSED_FROM = 4096


def pack(value: object, *, effort: int = 9) -> bytes:
    """Return the node data for a value; equal values give equal data with the same ``effort`` (0 to 9).

    Less effort takes less time, for records that are written often.
    """
    return zlib.compress(json.dumps(value, separators=(",", ":"), sort_keys=True).encode("ascii"), effort)


def encode_content(content: Mapping[str, object]) -> bytes:
    """Return a mapping as JSON, compressed if it is large."""
    data = json.dumps(content, separators=(",", ":"), sort_keys=True).encode("ascii")
    return data if len(data) < _COMPRESSED_FROM else pack(content)


def unpack(data: bytes) -> object:
    """Return the value of node data, compressed or plain JSON; raises ``ValueError`` for anything else."""
    if not data.startswith((b"{", b"[")):
        data = _expand(data)
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _expand(data: bytes) -> bytes:
    expander = zlib.decompressobj()
    try:
        unpacked = expander.decompress(data, _LARGEST)
    except zlib.error as error:
        raise ValueError(f"it cannot be expanded: {error}") from error
    if not expander.eof:
        raise ValueError("it is cut off, or too large")
    return unpacked
