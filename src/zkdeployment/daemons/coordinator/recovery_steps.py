"""The coordinator's steps after a failed rollout: commit the rollback, then have it published.

Each step may be repeated: a rollback that an earlier coordinator committed is found in the branch by the rollout
that its message names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.acts.rollback import RollbackOrder, publish_now, roll_back
from zkdeployment.errors import (
    ConfigurationError,
    LockLostError,
    RefusedError,
    RestartError,
    ShutdownError,
    TreeError,
    UnreachableError,
    ZkdeploymentError,
    error_message,
)
from zkdeployment.model.act import Act
from zkdeployment.model.cluster import short
from zkdeployment.model.commits import ROLLBACK_TRAILER
from zkdeployment.model.stop import COORDINATOR
from zkdeployment.rollout.recovery import RecoveryEvent, operators_stop, recover
from zkdeployment.rollout.state import RecoveryStage

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from zkdeployment.model.commits import Author
    from zkdeployment.ports.commits import TreeCommits
    from zkdeployment.ports.operator import OperatorAdapters
    from zkdeployment.rollout.state import Recovery, RolloutState

#: Seconds for which the coordinator waits for a syncer before it runs its next cycle.
_PUBLICATION_TIMEOUT = 30.0


class RecoveryDelayedError(ZkdeploymentError):
    """A rollback could not be committed or published now; the coordinator tries again."""

    retry_helps = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySteps:
    """Carries out recoveries. ``open_commits`` opens the branch of the tree for commits of ``author``."""

    operator: OperatorAdapters
    open_commits: Callable[[], AbstractContextManager[TreeCommits]]
    author: Author

    def run(self, state: RolloutState, *, now: float) -> RolloutState:
        """Return the rollout after the next step of its recovery.

        Raises ``RecoveryDelayedError`` if the step could not be taken now, and ``UnreachableError``.
        """
        recovery = state.recovery
        if recovery is None:
            return state
        try:
            with self.open_commits() as commits:
                if recovery.stage is RecoveryStage.DUE:
                    return self._commit(state, commits)
                return self._publish(state, recovery, commits, now)
        except (UnreachableError, RestartError, LockLostError, ShutdownError):
            raise
        except (RefusedError, TreeError, ConfigurationError) as error:
            return recover(state, RecoveryEvent.REFUSED, reason=error_message(error))
        except ZkdeploymentError as error:
            raise RecoveryDelayedError(f"the rollback after rollout {state.id} is delayed: {error}") from error

    def _commit(self, state: RolloutState, commits: TreeCommits) -> RolloutState:
        if commits.trailer(state.revision, ROLLBACK_TRAILER) is not None:
            reason = f"{short(state.revision)} is a rollback itself, which is never rolled back"
            return recover(state, RecoveryEvent.REFUSED, reason=reason)
        order = RollbackOrder(
            author=self.author, reason=f"rollout {state.id} of {short(state.revision)} failed", rollout=state.id
        )
        outcome = roll_back(order, commits, self.operator.fleet, self.operator.rollouts)
        if not outcome.changed and outcome.commit == state.revision:
            reason = f"{short(state.revision)} has the tree of the last revision that succeeded"
            return recover(state, RecoveryEvent.REFUSED, reason=reason)
        return recover(state, RecoveryEvent.COMMITTED, commit=str(outcome.commit))

    def _publish(self, state: RolloutState, recovery: Recovery, commits: TreeCommits, now: float) -> RolloutState:
        stop = operators_stop(self.operator.fleet.snapshot().stops)
        if stop is not None:
            return recover(state, RecoveryEvent.REFUSED, reason=f"{recovery.commit} is committed, but {stop}")
        act = Act(COORDINATOR, "rollback", f"rollout {state.id} failed", now)
        publish_now(
            recovery.commit,
            act,
            commits,
            self.operator.fleet,
            self.operator.cluster,
            timeout=_PUBLICATION_TIMEOUT,
        )
        return recover(state, RecoveryEvent.PUBLISHED)
