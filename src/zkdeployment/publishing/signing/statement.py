"""The statement that the syncer signs for each publication, and the digests in it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import field
from typing import TYPE_CHECKING, TypeGuard

from zkdeployment.base.cluster import Revision, is_revision
from zkdeployment.base.errors import UntrustedError
from zkdeployment.base.json_values import with_schema
from zkdeployment.base.publication import LeftService, is_sequence
from zkdeployment.base.values import dataclass
from zkdeployment.strategies.documents import strategy_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.strategies.strategy import Strategy


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


#: The namespace of the signatures: a signature for another purpose is not valid for a publication.
NAMESPACE = "zkdeployment-publication"

_SCHEMA = "signed-publication"

#: The digest of an empty list of left services.
NOTHING_LEFT = digest_of(b"[]")


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement of one publication.

    ``since`` is the sequence of the last publication that changed something for hosts (see ``Published``).
    ``strategy`` is the digest of the strategy, ``None`` without one. ``buckets`` maps the names of buckets to
    their digests; a bucket that is not named is empty. ``left`` is the digest of the services that left the
    governance of their intents; hosts do not read them, but the next publication depends on them.
    """

    sequence: int
    since: int
    revision: Revision
    strategy: str | None = None
    buckets: Mapping[str, str] = field(default_factory=dict)
    left: str = NOTHING_LEFT

    def to_text(self) -> str:
        """Return the text to sign: canonical JSON in one line, without a line end."""
        body = {
            "sequence": self.sequence,
            "since": self.since,
            "revision": self.revision,
            "strategy": self.strategy,
            "buckets": dict(self.buckets),
            "left": self.left,
        }
        return json.dumps(with_schema(_SCHEMA, body), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Statement:
        """Parse the text of a signed statement; raises ``UntrustedError``.

        Verify the signature of the text first.
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UntrustedError(f"the statement of the signed publication is not JSON: {error}") from error
        match value:
            case {
                "schema": str(schema),
                "sequence": sequence,
                "since": since,
                "revision": revision,
                "strategy": str() | None as strategy,
                "buckets": dict(buckets),
                "left": left,
            } if (
                schema == with_schema(_SCHEMA, {})["schema"]
                and is_sequence(sequence)
                and is_sequence(since)
                and since <= sequence
                and is_revision(revision)
                and (strategy is None or is_digest(strategy))
                and all(map(is_bucket, buckets))
                and all(map(is_digest, buckets.values()))
                and is_digest(left)
            ):
                return cls(sequence, since, revision, strategy, buckets, left)
        raise UntrustedError(
            f"the statement of the signed publication has another form than {with_schema(_SCHEMA, {})['schema']};"
            " expected one of a zkdeployment of this version; upgrade zkdeployment on this host"
        )


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """The text of a statement and its armoured SSH signature, as one node holds them."""

    text: str
    signature: str

    def to_data(self) -> bytes:
        """Return the data of the node: the statement in the first line, then the signature."""
        return f"{self.text}\n{self.signature}".encode("ascii")

    @classmethod
    def from_data(cls, data: bytes) -> SignedStatement:
        """Return the text and the signature in a node's data, both not verified.

        Raises ``UntrustedError`` for data that is not text.
        """
        try:
            text, _, signature = data.decode("ascii").partition("\n")
        except UnicodeDecodeError as error:
            raise UntrustedError("the statement of the signed publication is not text") from error
        return cls(text, signature)


def strategy_digest(strategy: Strategy | None) -> str | None:
    """Return the digest of a strategy for the statement; ``None`` without a strategy."""
    if strategy is None:
        return None
    text = json.dumps(strategy_to_json(strategy), separators=(",", ":"), sort_keys=True)
    return digest_of(text.encode("ascii"))


def left_digest(left: Iterable[LeftService]) -> str:
    """Return the digest of the services that left the governance of their intents."""
    text = json.dumps([one.to_json() for one in left], separators=(",", ":"), sort_keys=True)
    return digest_of(text.encode("ascii"))
