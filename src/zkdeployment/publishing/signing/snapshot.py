"""The content of a signed publication: the part that a host reads, with its checks, and all nodes of it."""

from __future__ import annotations

import json
from dataclasses import field
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import Cluster, ClusterState, Revision, short
from zkdeployment.base.errors import TreeError, UntrustedError
from zkdeployment.base.text import printable
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.signing.statement import (
    SignedStatement,
    Statement,
    bucket_of,
    decode_bucket,
    digest_of,
    left_digest,
    strategy_digest,
)
from zkdeployment.publishing.targets.services import assignments_from_json
from zkdeployment.tree.links import resolved_properties
from zkdeployment.tree.values import Tree, properties_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.json_values import Properties
    from zkdeployment.base.publication import LeftService, Published
    from zkdeployment.strategies.strategy import Strategy


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


@dataclass(frozen=True, slots=True)
class SignedFleet:
    """A snapshot of all nodes that a statement covers; nothing in it is verified.

    ``signed`` are the data of the statement's node. ``buckets`` and ``targets`` are the data of nodes by name.
    ``strategy_problem`` is the reason why the published strategy cannot be read, if so. ``left`` are the services
    that left their intents; ``None`` if they cannot be read.
    """

    cluster: Cluster | None
    published: Published
    tree: Tree
    signed: bytes | None = None
    buckets: Mapping[str, bytes] = field(default_factory=dict)
    targets: Mapping[str, bytes] = field(default_factory=dict)
    strategy: Strategy | None = None
    strategy_problem: str | None = None
    left: tuple[LeftService, ...] | None = ()


def fleet_deviations(statement: Statement, fleet: SignedFleet) -> Iterator[Deviation]:
    """Yield each difference of a fleet from a statement whose signature is valid."""
    yield from _of_publication(statement, fleet)
    listed = _listed(statement, fleet.buckets)
    buckets = {name: fleet.buckets.get(name) for name in {*statement.buckets, *fleet.buckets}}
    buckets |= {bucket_of(name): fleet.buckets.get(bucket_of(name)) for name in fleet.targets}
    targets = {name: fleet.targets.get(name) for name in {*listed, *fleet.targets}}
    found = [*deviations(statement, buckets, targets)]
    yield from found
    deviating = {deviation.subject for deviation in found}
    signed = {name: data for name, data in fleet.targets.items() if target_subject(name) not in deviating}
    yield from _of_properties(services_of(signed), fleet.tree)


def services_of(targets: Mapping[str, bytes]) -> dict[str, Assignment]:
    """Return an assignment of each service and controller, by path, without data of another form."""
    services: dict[str, Assignment] = {}
    for _, data in sorted(targets.items()):
        try:
            assignments = assignments_from_json(json.loads(data))
        except (ValueError, RecursionError, TreeError):
            continue
        services |= {assignment.path: assignment for assignment in assignments}
    return services


def _of_publication(statement: Statement, fleet: SignedFleet) -> Iterator[Deviation]:
    """Yield the differences in the record of the publication, the cluster version and the strategy."""
    revision, published, cluster = statement.revision, fleet.published, fleet.cluster
    if cluster is None or (cluster.version is not None and cluster.version not in {revision, False}):
        found = "no node /hosts" if cluster is None else _shown(cluster.version)
        yield Deviation("cluster version", f"{_shown(revision)}, null or false", found)
    elif cluster.state is ClusterState.IMPORTING:
        yield Deviation(
            "cluster version", _shown(revision), f"a publication of {_shown(cluster.importing)} under way"
        )
    is_initial = not published.sequence and not statement.buckets
    for subject, expected, found_value in (
        ("published revision", revision, published.revision),
        ("sequence", statement.sequence, published.sequence),
        ("since", statement.since, published.effective_since),
    ):
        if found_value != expected and not is_initial:
            yield Deviation(subject, _shown(expected), _shown(found_value))
    strategy = strategy_digest(fleet.strategy)
    if fleet.strategy_problem is not None or strategy != statement.strategy:
        yield Deviation("strategy", _digest(statement.strategy), fleet.strategy_problem or _digest(strategy))
    left = None if fleet.left is None else left_digest(fleet.left)
    if left != statement.left:
        yield Deviation("services that left their intents", _digest(statement.left), _digest(left))


def _of_properties(services: Mapping[str, Assignment], tree: Tree) -> Iterator[Deviation]:
    """Yield each service whose live properties differ from those of its assignment."""
    for path, assignment in services.items():
        expected = _digest(assignment.properties)
        try:
            digest = properties_digest(resolved_properties(tree.properties, path))
        except TreeError as error:
            yield Deviation(f"properties of {path}", expected, str(error))
            continue
        if digest != assignment.properties:
            yield Deviation(f"properties of {path}", expected, _digest(digest))


def _listed(statement: Statement, buckets: Mapping[str, bytes]) -> set[str]:
    """Return the names of all targets in buckets that can be read; a changed bucket is reported as a whole."""
    names: set[str] = set()
    for bucket in statement.buckets.keys() & buckets.keys():
        try:
            names |= decode_bucket(buckets[bucket]).keys()
        except UntrustedError:
            continue
    return {name for name in names if bucket_of(name) in buckets}


def _shown(value: object) -> str:
    return "none" if value is None else printable(str(value))


def _digest(digest: str | None) -> str:
    return "none" if digest is None else f"SHA-256 {digest[:12]}…"
