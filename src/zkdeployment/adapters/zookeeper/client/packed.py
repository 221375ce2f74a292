"""Compressed JSON, for our records that may be large."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Bytes. No record of ours is larger: more is damage, or an attack on the reader's memory.
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
