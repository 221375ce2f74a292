"""The recovery after a failed rollout: the coordinator rolls back, if the strategy demands it.

``RECOVERY_TRANSITIONS`` is the whole state machine. Each stage is recorded with the rollout, so that a succeeding
coordinator continues where another one was killed.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.model.cluster import ClusterState
from zkdeployment.model.strategy import OnFailure
from zkdeployment.rollout.state import Recovery, RecoveryStage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.model.stop import Stop
    from zkdeployment.rollout.state import RolloutSnapshot, RolloutState


class RecoveryEvent(Enum):
    """An event that changes the stage of a recovery."""

    CRITICAL_GROUP_FAILED = "a critical group failed"
    COMMITTED = "the rollback was committed"
    PUBLISHED = "a syncer published the rollback"
    REFUSED = "the rollback is impossible or unwanted"


#: The stage after an event, by the stage before it (``None``: no recovery) and the event.
RECOVERY_TRANSITIONS: Mapping[tuple[RecoveryStage | None, RecoveryEvent], RecoveryStage] = {
    (None, RecoveryEvent.CRITICAL_GROUP_FAILED): RecoveryStage.DUE,
    (RecoveryStage.DUE, RecoveryEvent.COMMITTED): RecoveryStage.COMMITTED,
    (RecoveryStage.DUE, RecoveryEvent.REFUSED): RecoveryStage.REFUSED,
    (RecoveryStage.COMMITTED, RecoveryEvent.PUBLISHED): RecoveryStage.PUBLISHED,
    (RecoveryStage.COMMITTED, RecoveryEvent.REFUSED): RecoveryStage.REFUSED,
}


def begin_recovery(state: RolloutState) -> RolloutState:
    """Return a rollout whose critical group failed with the recovery that its strategy asks for."""
    if state.rollout.strategy.on_failure is not OnFailure.ROLLBACK:
        return state
    return recover(state, RecoveryEvent.CRITICAL_GROUP_FAILED)


def recover(state: RolloutState, event: RecoveryEvent, *, commit: str = "", reason: str = "") -> RolloutState:
    """Return the rollout after an event of its recovery."""
    before = state.recovery
    stage = RECOVERY_TRANSITIONS[None if before is None else before.stage, event]
    commit = commit or ("" if before is None else before.commit)
    return replace(state, recovery=Recovery(stage, commit, reason))


def is_recovery_pending(snapshot: RolloutSnapshot) -> bool:
    """Whether the coordinator has to act: the fleet is still stopped in the publication whose rollout failed.

    Later publications that changed nothing for hosts continued the rollout.
    """
    state, cluster = snapshot.state, snapshot.cluster
    if state is None or state.recovery is None or state.sequence != snapshot.published.effective_since:
        return False
    stopped = cluster is not None and cluster.state is ClusterState.STOPPED
    return stopped and state.recovery.stage in {RecoveryStage.DUE, RecoveryStage.COMMITTED}


def operators_stop(stops: Iterable[Stop]) -> Stop | None:
    """Return an operator's stop, which a recovery must not end; failures may be ended by it."""
    return next((stop for stop in stops if not stop.is_failure), None)
