"""The coordinator: it leads the rollouts with a strategy, or queues until the leading coordinator ends.

A coordinator only grants phases to hosts; the hosts deploy. Its whole state is in ZooKeeper, where a successor
reads it. A successor may repeat each step: if an earlier coordinator already committed a rollback, the commit
message names the rollout, so the rollback is found in the branch. The decisions are in ``strategies``; this module
reads, decides, records and grants.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.act import Act
from zkdeployment.base.cluster import short
from zkdeployment.base.daemon.cycles import LEAD_FAILURES, FailureKind
from zkdeployment.base.errors import (
    ConfigurationError,
    ConflictError,
    LockLostError,
    RefusedError,
    RestartError,
    ShutdownError,
    TreeError,
    UnreachableError,
    ZkdeploymentError,
    error_message,
)
from zkdeployment.base.stop import COORDINATOR, Stop, operators_stop
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.rollback import publish_now, roll_back
from zkdeployment.publishing.acts.commits import ROLLBACK_TRAILER, Author
from zkdeployment.publishing.acts.rollback import RollbackOrder
from zkdeployment.publishing.records import CHECK_BUDGET
from zkdeployment.strategies.daemon import LeaderAdapters, RolloutDaemon, log_changes, log_unmatched_selectors
from zkdeployment.strategies.progress import (
    RecoveryEvent,
    advance,
    grants,
    has_failed,
    is_recovery_pending,
    is_superseded,
    next_attempt,
    recover,
    restarted_hosts,
    settle_recovery,
    start,
    supersede,
)
from zkdeployment.strategies.state import Ending, Recovery, RecoveryStage, RolloutSnapshot, RolloutState
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.strategies.timekeeping import cycle_interval
from zkdeployment.strategies.views import final_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.rollouts.store import ZooKeeperRollouts


#: Seconds for which the coordinator waits for a syncer, which checks packages twice if a conflict disturbs it.
_PUBLICATION_TIMEOUT = CHECK_BUDGET + 120.0


class RecoveryDelayedError(ZkdeploymentError):
    """A rollback could not be committed or published now; the coordinator tries again."""

    retry_helps = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySteps:
    """Carries out recoveries.

    ``open_commits`` opens the branch of the tree for commits of ``author``. ``check`` raises ``ShutdownError`` if
    this process is asked to end.
    """

    operator: OperatorAdapters
    open_commits: Callable[[], AbstractContextManager[TreeCommits]]
    author: Author
    check: Callable[[], None]

    def run(self, state: RolloutState) -> RolloutState:
        """Return the rollout after the next step of its recovery.

        If this process is asked to end, the next coordinator repeats the step. Raises ``RecoveryDelayedError`` if
        the step could not be taken now, and ``UnreachableError``.
        """
        recovery = state.recovery
        if recovery is None:
            return state
        try:
            with self.open_commits() as commits:
                if recovery.stage is RecoveryStage.DUE:
                    return self._commit(state, commits)
                return self._publish(state, recovery, commits)
        except ShutdownError:
            return state
        except (UnreachableError, RestartError, LockLostError):
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

    def _publish(self, state: RolloutState, recovery: Recovery, commits: TreeCommits) -> RolloutState:
        stop = operators_stop(self.operator.fleet.snapshot().stops)
        if stop is not None:
            return recover(state, RecoveryEvent.REFUSED, reason=f"{recovery.commit} is committed, but {stop}")
        ended = state.begun if state.ended is None else state.ended
        # The act has the time of the failure: it is the same act at each attempt, which is recorded once.
        act = Act(COORDINATOR, "rollback", f"rollout {state.id} failed", ended)
        publish_now(
            recovery.commit,
            act,
            commits,
            self.operator.fleet,
            self.operator.cluster,
            timeout=_PUBLICATION_TIMEOUT,
            tick=self.check,
        )
        return recover(state, RecoveryEvent.PUBLISHED)


class Coordinator(RolloutDaemon):
    """Leads the rollouts of ``store``.

    ``recovery`` rolls back after failures; without it the strategies' ``on_failure`` has no effect.
    """

    KIND = MemberKind.HOST
    FAILURES = (
        *LEAD_FAILURES,
        FailureKind(RecoveryDelayedError, "rollback-delayed", logging.WARNING, pause=10.0),
        FailureKind(Exception, "coordination-failed", logging.ERROR, pause=2.0),
    )
    LONGEST_PAUSE = _most = 15.0
    _least = cycle_interval(0)

    def __init__(
        self, store: ZooKeeperRollouts, adapters: LeaderAdapters, recovery: RecoverySteps | None = None
    ) -> None:
        super().__init__(adapters)
        self._store = store
        self._recovery = recovery
        self._tidied = False

    def _forget(self) -> None:
        self._store.forget()
        self._tidied = False

    def _work(self) -> float:
        """Advance the newest rollout or begin the next one; return the seconds until the next cycle."""
        now = round(self._clock.now(), 1)
        self._store.expire_reboots(now)
        snapshot = self._store.snapshot()
        state = snapshot.state
        self._telemetry.lead(state)
        self._least = cycle_interval(0 if state is None else len(state.rollout.hosts))
        if state is not None and is_superseded(snapshot):
            self._write(state, supersede(state, now))
            return 0.0
        if self._recovery is not None and state is not None and is_recovery_pending(snapshot):
            self._recover(self._recovery, state)
            return 0.0
        settled = settle_recovery(snapshot)
        if state is not None and settled is not None:
            self._write(state, settled)
            return 0.0
        attempt = next_attempt(snapshot)
        if attempt is not None:
            self._begin(snapshot, attempt, now)
            return 0.0
        if state is not None and state.sequence == snapshot.published.effective_since:
            pause = self._advance(snapshot, state, now)
        else:
            self._notifier.status("nothing to coordinate: no strategy is in force")
            pause = self._most
        if state is not None and not self._tidied:
            # A recovery may take long, so it comes after the grants, for which hosts wait.
            self._store.tidy(state.id)
            self._tidied = True
            return 0.0
        return pause

    def _begin(self, snapshot: RolloutSnapshot, attempt: int, now: float) -> None:
        strategy, published = self._store.strategy(), snapshot.published
        if strategy is None or published.ordered is None or strategy.name != published.strategy:
            name = "none" if strategy is None else strategy.name
            raise ConflictError(
                f"the rollout did not begin: expected strategy {published.strategy}, found {name}; another"
                " publication is under way, and the coordinator tries again"
            )
        facts = self._store.first_facts(published.ordered, now=now)
        state = start(
            strategy,
            facts,
            sequence=published.effective_since,
            attempt=attempt,
            revision=published.ordered,
            before=snapshot.state,
        )
        self._store.begin(state, published.stamp)
        self._tidied = False
        log_changes(None, state)
        log_unmatched_selectors(state, {**facts.absent, **facts.present})

    def _advance(self, snapshot: RolloutSnapshot, state: RolloutState, now: float) -> float:
        facts = self._store.facts(snapshot, state, now=now)
        facts = replace(facts, outside=self._outside(state, now))
        after = advance(state, facts)
        self._write(state, after)
        return self._pause(state, after, facts)

    def _recover(self, recovery: RecoverySteps, state: RolloutState) -> None:
        """Take the next step after a failed rollout, which runs git and waits for a syncer, and record it."""
        self._store.grant(state, grants(state))
        self._notifier.status(f"rollout {state.id} of {short(state.revision)} failed: rolling back")
        with self._notifier.uninterrupted():
            after = recovery.run(state)
        self._write(state, after)

    def _write(self, before: RolloutState, after: RolloutState) -> None:
        """Write the state, then the grants that follow from it, which a successor completes if necessary.

        Before that, the reports of hosts that start again are removed, so that no coordinator takes them for new
        reports.
        """
        if after != before:
            if restarted := restarted_hosts(before, after):
                self._store.clear_reports(after, restarted)
            stops = has_failed(after) and not has_failed(before)
            self._store.record(after, _stop(after, self._clock.now()) if stops else None)
            self._telemetry.state = after
            log_changes(before, after)
        self._store.grant(after, grants(after))
        self._notifier.status(f"rollout {after.id} of {short(after.revision)}: {_summary(after)}")


def _stop(state: RolloutState, now: float) -> Stop:
    """Return the stop by a rollout that failed now, perhaps long after its end, by a late host."""
    by = state.acts[-1].act.by if state.ending is Ending.ABORTED and state.acts else COORDINATOR
    return Stop.of_operator(Act(by, "stop", final_report(state), now))


def _summary(state: RolloutState) -> str:
    if state.ended is not None:
        return "ended"
    active = state.active_phase
    if active is None:
        return state.waiting or "beginning"
    task = active.task
    return f"{task.phase.value} of {task.group}, {len(active.reports)} of {len(task.hosts)} hosts finished"
