"""The part of a signed publication that a host reads, and the checks before the host acts on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.errors import UntrustedError
from zkdeployment.model.cluster import short
from zkdeployment.model.tree import properties_digest
from zkdeployment.printable import printable
from zkdeployment.signing.checking import check_targets, shown_digest
from zkdeployment.signing.statement import strategy_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.model.tree import Properties
    from zkdeployment.signing.statement import SignedStatement, Statement


@dataclass(frozen=True, slots=True)
class SignedSnapshot:
    """The nodes of one publication that concern one host, read at one moment and not verified.

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
    """Require that a snapshot agrees with the statement of a revision; the statement's signature is valid.

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
    """Require that the properties of all services, by path, have the digests in the signed assignments.

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
