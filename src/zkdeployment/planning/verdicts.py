"""Whether the tip of the tree's branch is to be published now.

The questions come in the order of their costs: ``is_stopped`` before the repository is contacted,
``is_up_to_date`` before the hosts are read, then ``judge``.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.model.cluster import Cluster, ClusterState
from zkdeployment.planning.convergence import is_converged

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.planning.published_state import PublicationSnapshot, PublishedState


class PublicationVerdict(Enum):
    """Whether a branch's tip is to be published."""

    PUBLISH = "publish"
    UP_TO_DATE = "up to date"
    NOT_CONVERGED = "not converged"


def is_stopped(cluster: Cluster | None, *, force: bool = False) -> bool:
    """Whether nothing may be published, so that the repository need not be contacted."""
    return cluster is not None and cluster.state is ClusterState.STOPPED and not force


def is_up_to_date(published_state: PublishedState, tip: Revision) -> bool:
    """Whether the tip is the published revision and the cluster version."""
    return published_state.cluster == Cluster(tip) and published_state.published.revision == tip


def judge(snapshot: PublicationSnapshot, tip: Revision, *, force: bool = False) -> PublicationVerdict:
    """Return the verdict on a ``tip`` that is not up to date, or that is to be forced or pruned.

    An interrupted publication is finished whatever versions the hosts have: they wait for it. A held cluster gets
    the tip, which ends the hold; a hold that an operator recorded lasts until there is a new tip. A version that
    was set by hand is published once the tip has it; an import by hand ends no rollout.
    """
    cluster, published = snapshot.cluster, snapshot.published.revision
    if force or cluster is None:
        return PublicationVerdict.PUBLISH
    if cluster == Cluster(False) and snapshot.held_by_operator and published == tip:
        return PublicationVerdict.UP_TO_DATE
    if cluster.state in (ClusterState.HELD, ClusterState.IMPORTING):
        return PublicationVerdict.PUBLISH
    if cluster.version == tip != published and not snapshot.published.governs(cluster):
        return PublicationVerdict.PUBLISH
    return PublicationVerdict.PUBLISH if is_converged(snapshot) else PublicationVerdict.NOT_CONVERGED
