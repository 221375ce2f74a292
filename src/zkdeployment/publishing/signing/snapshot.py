"""The part of a signed publication that a host reads, and the checks before the host acts on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.errors import UntrustedError
from zkdeployment.base.text import printable
from zkdeployment.publishing.signing.statement import bucket_of, decode_bucket, digest_of, strategy_digest
from zkdeployment.tree.values import properties_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.base.cluster import Cluster, Revision
    from zkdeployment.base.deployment import Assignment
    from zkdeployment.publishing.signing.statement import SignedStatement, Statement
    from zkdeployment.strategies.strategy import Strategy
    from zkdeployment.tree.values import Properties


#: The number of characters of a digest that messages show.
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Deviation:
    """A difference between the signed and the read content; ``subject`` is a target or a bucket."""

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
    """Return the name of a target in deviations."""
    return f"target {printable(name)}"


def check_targets(
    statement: Statement, buckets: Mapping[str, bytes | None], targets: Mapping[str, bytes | None]
) -> None:
    """Verify that buckets and targets equal those of a statement.

    A target without a node is thereby proven not to exist. The arguments are those of ``deviations``. Raises
    ``UntrustedError`` with all deviations.
    """
    if found := list(deviations(statement, buckets, targets)):
        raise UntrustedError(
            f"ZooKeeper does not hold the publication that was signed: {'; '.join(map(str, found))}"
        )


def _difference(subject: str, expected: str | None, data: bytes | None) -> Deviation | None:
    """Return the difference of the data of a node from its digest; ``None`` stands for a missing node."""
    found = None if data is None else digest_of(data)
    if found == expected:
        return None
    return Deviation(subject, shown_digest(expected), shown_digest(found))


def shown_digest(digest: str | None) -> str:
    """Return the beginning of a digest for messages; ``None`` stands for a node that does not exist."""
    return "no node" if digest is None else f"SHA-256 {digest[:_SHOWN]}…"


@dataclass(frozen=True, slots=True)
class SignedSnapshot:
    """The nodes of one publication for one host, read at one moment and not verified.

    ``changed`` is the transaction that last changed ``/hosts``. ``signed`` is ``None`` if the publication is not
    signed. ``buckets`` and ``targets`` map the names of the host's buckets and targets to the data of their nodes;
    ``None`` is a node that does not exist.
    """

    cluster: Cluster | None = None
    changed: int = 0
    signed: SignedStatement | None = None
    buckets: Mapping[str, bytes | None] = field(default_factory=dict)
    targets: Mapping[str, bytes | None] = field(default_factory=dict)
    strategy: Strategy | None = None


def check_snapshot(snapshot: SignedSnapshot, statement: Statement, revision: Revision) -> None:
    """Verify that a snapshot agrees with the statement of a revision, whose signature is valid.

    Raises ``UntrustedError`` with the first difference: the cluster version, the strategy, buckets and targets.
    """
    if statement.revision != revision:
        raise UntrustedError(
            f"the signed publication is of another revision: expected {printable(short(revision))}, the cluster"
            f" version, found {printable(short(statement.revision))} (publication {statement.sequence}); the"
            " version was set by hand, or published without publish-key"
        )
    if (found := strategy_digest(snapshot.strategy)) != statement.strategy:
        raise UntrustedError(
            "ZooKeeper does not hold the strategy that was signed: expected"
            f" {shown_digest(statement.strategy)}, found {shown_digest(found)}"
        )
    check_targets(statement, snapshot.buckets, snapshot.targets)


def check_properties(assignments: Iterable[Assignment], properties: Mapping[str, Properties]) -> None:
    """Verify that the properties of all services, by path, have the digests in the signed assignments.

    Raises ``UntrustedError`` for the first service whose properties differ.
    """
    for assignment in assignments:
        found = properties_digest(properties[assignment.path])
        if found != assignment.properties:
            raise UntrustedError(
                f"the properties of {assignment.path} are not those that were signed: expected"
                f" {shown_digest(assignment.properties)}, found {shown_digest(found)}; the nodes of the tree were"
                " changed without a publication"
            )
