"""The state machine of the cluster version: its events and the table of its transitions.

Every writer of ``/hosts`` derives the new cluster version from ``advance``: operators, agents that failed, the
coordinator, and publications. The rights to cause an event are checked elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.errors import RefusedError
from zkdeployment.model.cluster import ClusterState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.cluster import Cluster, Revision


class ClusterEvent(Enum):
    """The causes of changes of the cluster version; each value is the cause in the manual's words."""

    STOP = "stop, rollout abort; a host or a critical group failed"
    HOLD = "hold"
    RESUME = "resume"
    BEGIN = "a publication, or an import by hand, that needs several transactions begins"
    COMPLETE = "a publication is complete"
    REVERT = "an import by hand is complete"


#: The state after an event in a state. Events that are missing here are refused.
CLUSTER_TRANSITIONS: Mapping[tuple[ClusterState, ClusterEvent], ClusterState] = {
    **{(state, ClusterEvent.STOP): ClusterState.STOPPED for state in ClusterState},
    (ClusterState.RUNNING, ClusterEvent.HOLD): ClusterState.HELD,
    (ClusterState.HELD, ClusterEvent.HOLD): ClusterState.HELD,
    (ClusterState.HELD, ClusterEvent.RESUME): ClusterState.RUNNING,
    (ClusterState.STOPPED, ClusterEvent.RESUME): ClusterState.RUNNING,
    (ClusterState.RUNNING, ClusterEvent.BEGIN): ClusterState.IMPORTING,
    (ClusterState.IMPORTING, ClusterEvent.BEGIN): ClusterState.IMPORTING,
    (ClusterState.HELD, ClusterEvent.BEGIN): ClusterState.HELD,
    (ClusterState.STOPPED, ClusterEvent.BEGIN): ClusterState.STOPPED,
    **{(state, ClusterEvent.COMPLETE): ClusterState.RUNNING for state in ClusterState},
    (ClusterState.IMPORTING, ClusterEvent.REVERT): ClusterState.RUNNING,
    (ClusterState.HELD, ClusterEvent.REVERT): ClusterState.HELD,
    (ClusterState.STOPPED, ClusterEvent.REVERT): ClusterState.STOPPED,
}

#: The versions that stand for a state instead of a revision.
_VERSIONS: Mapping[ClusterState, bool | None] = {ClusterState.STOPPED: None, ClusterState.HELD: False}


def advance(cluster: Cluster, event: ClusterEvent, revision: Revision | None = None) -> Cluster:
    """Return the cluster after an event.

    ``revision`` is the revision to resume (``None`` if no revision is wholly published), the coming revision of
    ``BEGIN``, or the published revision of ``COMPLETE``. Raises ``RefusedError`` for an event that
    ``CLUSTER_TRANSITIONS`` does not have, and for a resume or a hold during a publication.
    """
    state = CLUSTER_TRANSITIONS.get((cluster.state, event))
    if state is None:
        raise RefusedError(_refusal(cluster, event))
    importing = cluster.importing
    match event:
        case ClusterEvent.HOLD if importing is not None:
            raise RefusedError(_refusal(cluster, event))
        case ClusterEvent.RESUME if revision is None or importing is not None:
            raise RefusedError(
                "no revision is wholly published (a publication was interrupted, the live tree was changed by"
                " hand, or nothing was published yet); publish one with 'zkdeployment resume --latest' or"
                " 'zkdeployment sync --force'"
            )
        case ClusterEvent.BEGIN:
            importing = revision
        case ClusterEvent.COMPLETE | ClusterEvent.REVERT:
            importing = None
    if state in _VERSIONS:
        return replace(cluster, version=_VERSIONS[state], importing=importing)
    is_new = event in {ClusterEvent.RESUME, ClusterEvent.COMPLETE}
    return replace(cluster, version=revision if is_new else cluster.version, importing=importing)


def _refusal(cluster: Cluster, event: ClusterEvent) -> str:
    if event is not ClusterEvent.HOLD:
        return f"the cluster is neither stopped nor held: it is {cluster.state.value} at {cluster.version}"
    if cluster.state is ClusterState.STOPPED:
        return "the cluster is stopped, and a hold would lift that; see 'zkdeployment status'"
    return (
        f"{cluster.importing} is being published, which would end the hold at once; try again when it is, or use"
        " 'zkdeployment stop'"
    )
