"""Compares all nodes of a publication in ZooKeeper with its signed statement."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterState
from zkdeployment.base.errors import TreeError, UntrustedError
from zkdeployment.base.text import printable
from zkdeployment.publishing.signing.snapshot import Deviation, deviations, target_subject
from zkdeployment.publishing.signing.statement import bucket_of, decode_bucket, left_digest, strategy_digest
from zkdeployment.publishing.targets.assignments import assignments_from_json
from zkdeployment.tree.links import resolved_properties
from zkdeployment.tree.values import properties_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.base.cluster import Cluster
    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.publication import Published
    from zkdeployment.publishing.left_service import LeftService
    from zkdeployment.publishing.signing.statement import Statement
    from zkdeployment.strategies.strategy import Strategy
    from zkdeployment.tree.values import Tree


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
