"""Rollbacks in the light of the fleet's state: the revision to go back to, and what delays its publication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.cluster import ClusterState
from zkdeployment.model.publication import Published
from zkdeployment.planning.convergence import is_completed, is_converged, refusal
from zkdeployment.planning.published_state import PublicationSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.history import PublicationRecord
    from zkdeployment.rollout.state import RolloutState


def last_good_revision(
    records: Iterable[PublicationRecord], attempts: Callable[[int], Sequence[RolloutState]]
) -> Revision | None:
    """Return the last revision before the current one that succeeded; ``None`` if the history has none.

    ``records`` are newest first. ``attempts`` returns the rollouts of the publication with a sequence.
    """
    current = None
    for record in records:
        if current is None:
            current = record.revision
        if record.revision != current and has_succeeded(record, attempts(record.sequence)):
            return record.revision
    return None


def has_succeeded(record: PublicationRecord, attempts: Sequence[RolloutState]) -> bool:
    """Whether a publication succeeded: its rollout did, or, without a rollout, every registered host has it."""
    if attempts:
        return any(is_completed(attempt) for attempt in attempts)
    return not record.failed and record.done >= record.expected


def publication_obstacles(snapshot: FleetSnapshot, commit: Revision) -> Iterator[str]:
    """Return the reasons why a syncer does not publish a commit yet."""
    cluster = snapshot.cluster
    if cluster is None:
        return
    if cluster.state is ClusterState.STOPPED:
        yield "the fleet is stopped: nothing is published before 'zkdeployment resume --latest'"
        yield from (str(stop) for stop in snapshot.stops)
        return
    if cluster.state is not ClusterState.RUNNING:
        return
    published = Published(
        revision=snapshot.published,
        strategy=snapshot.strategy if snapshot.governed else None,
        ordered=cluster.revision,
    )
    known = PublicationSnapshot(cluster, published, hosts=snapshot.hosts, rollout=snapshot.rollout)
    if not is_converged(known):
        yield refusal(known, commit)
