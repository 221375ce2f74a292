"""Checks that the buckets and targets that were read are exactly those of a statement with a valid signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import UntrustedError
from zkdeployment.printable import printable
from zkdeployment.signing.digests import bucket_of, decode_bucket, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.signing.statement import Statement

#: How many characters of a digest messages show.
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Deviation:
    """A difference between what was signed and what was read; ``subject`` is a target or a bucket."""

    subject: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.subject}: expected {self.expected}, found {self.found}"


def deviations(
    statement: Statement, buckets: Mapping[str, bytes | None], targets: Mapping[str, bytes | None]
) -> Iterator[Deviation]:
    """Yield each difference of buckets and targets from a statement.

    ``buckets`` maps the names of buckets to the data of their nodes, ``targets`` the names of targets (host ids,
    host names and roles; a role's node holds its controller, too); ``None`` is a node that does not exist.
    ``buckets`` must have the bucket of each target; targets of a bucket that deviates are not compared.
    """
    listed: dict[str, dict[str, str]] = {}
    for bucket, data in sorted(buckets.items()):
        deviation = _difference(f"bucket {bucket}", statement.buckets.get(bucket), data)
        if deviation is None:
            listed[bucket] = {} if data is None else decode_bucket(data)
        else:
            yield deviation
    for name, data in sorted(targets.items()):
        if (bucket := bucket_of(name)) in listed:
            deviation = _difference(target_subject(name), listed[bucket].get(name), data)
            if deviation is not None:
                yield deviation


def target_subject(name: str) -> str:
    """Return how deviations name a target."""
    return f"target {printable(name)}"


def check_targets(
    statement: Statement, buckets: Mapping[str, bytes | None], targets: Mapping[str, bytes | None]
) -> None:
    """Require that buckets and targets are exactly those of a statement.

    A target without a node is then proven not to exist. The arguments are those of ``deviations``. Raises
    ``UntrustedError`` with all deviations.
    """
    if found := list(deviations(statement, buckets, targets)):
        raise UntrustedError(
            f"ZooKeeper does not hold the publication that was signed: {'; '.join(map(str, found))}"
        )


def _difference(subject: str, expected: str | None, data: bytes | None) -> Deviation | None:
    """Return the difference of the data of a node from its digest; ``None`` stands for no node in both."""
    found = None if data is None else digest_of(data)
    if found == expected:
        return None
    return Deviation(subject, shown_digest(expected), shown_digest(found))


def shown_digest(digest: str | None) -> str:
    """Return the beginning of a digest for messages; ``None`` stands for a node that does not exist."""
    return "no node" if digest is None else f"SHA-256 {digest[:_SHOWN]}…"
