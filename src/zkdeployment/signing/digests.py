"""The digests of targets and of buckets, and the place of a target in a bucket."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, TypeGuard

from zkdeployment.errors import UntrustedError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The names of the buckets: the first bytes of digests. With 10,000 targets, a statement is as large as five
#: buckets: an agent reads 28 KB at most, and a change of one target writes 21 KB.
BUCKETS = tuple(f"{number:02x}" for number in range(256))
_NAMES = frozenset(BUCKETS)
_encode_canonically = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_DIGEST = re.compile(r"[0-9a-f]{64}")


def digest_of(data: bytes) -> str:
    """Return the digest of the data of a node: SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def bucket_of(name: str) -> str:
    """Return the bucket of a target (a host id, a host name or a role): two hexadecimal digits."""
    return hashlib.sha256(name.encode("utf-8")).hexdigest()[:2]


def encode_bucket(digests: Mapping[str, str]) -> bytes:
    """Return the data of a bucket's node: the digests of its targets by name, as canonical JSON."""
    return _encode_canonically(digests).encode("ascii")


def decode_bucket(data: bytes) -> dict[str, str]:
    """Return the digests of the targets of a bucket by name; raises ``UntrustedError``."""
    try:
        digests = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UntrustedError(f"a bucket of the signed publication is not JSON: {error}") from error
    if not isinstance(digests, dict) or not all(map(is_digest, digests.values())):
        raise UntrustedError("a bucket of the signed publication is damaged: expected digests by name")
    return digests


def is_bucket(name: object) -> TypeGuard[str]:
    """Whether a value is the name of a bucket."""
    return name in _NAMES


def is_digest(value: object) -> TypeGuard[str]:
    """Whether a value is a digest."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None
