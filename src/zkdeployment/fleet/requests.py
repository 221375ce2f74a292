"""Sentences on a requested or coming publication: the request's state, and what delays the publication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import age, ago
from zkdeployment.model.cluster import ClusterState
from zkdeployment.model.publication import Published
from zkdeployment.planning.convergence import is_converged, refusal
from zkdeployment.planning.published_state import PublicationSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.publishing.request import PublicationRequest


def describe_request(request: PublicationRequest, now: float) -> str:
    """Return who requested a publication and the request's state; ``now`` is in seconds since the epoch."""
    reason = f" ({request.reason})" if request.reason else ""
    request_text = f"{request.by} requested {ago(request.written, now)} to publish the branch's tip{reason}"
    if request.error is not None:
        return f"{request_text}; the syncer refused: {request.error}"
    if request.is_expired(now):
        return f"{request_text}; no syncer answered in time, and the request has expired"
    left = request.written + request.age_limit - now
    return f"{request_text}; no syncer has answered yet, and the request expires in {age(left)}"


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
