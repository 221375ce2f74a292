"""The coordinator: it leads the rollouts with a strategy, or queues until the leading coordinator ends.

A coordinator only grants phases to hosts; the hosts deploy. Its whole state is in ZooKeeper, where a successor
reads it. A successor may repeat each step: if an earlier coordinator already committed a rollback, the commit
message names the rollout, so the rollback is found in the branch. The decisions are in ``strategies``; this module
reads, decides, records and grants.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.base.act import Act
from zkdeployment.base.cluster import short
from zkdeployment.base.daemon.cycles import QUEUED, Backoff, FailureKind, LedCycles, run_cycles
from zkdeployment.base.daemon.metrics import CycleTelemetry, Metric, gauge
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
from zkdeployment.publishing.acts.commits import ROLLBACK_TRAILER
from zkdeployment.publishing.acts.rollback import RollbackOrder, publish_now, roll_back
from zkdeployment.strategies.group_analysis import due_requests
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
    seconds_until_change,
    start,
    supersede,
)
from zkdeployment.strategies.state import Ending, RecoveryStage
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.strategies.telemetry import log_changes, log_unmatched_selectors, rollout_metrics
from zkdeployment.strategies.timekeeping import cycle_interval
from zkdeployment.strategies.views import (
    final_report,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.daemon.metrics import Probe
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.machine.systemd import SystemdNotifier
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.publishing.acts.commits import Author
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.rollouts.store import ZooKeeperRollouts
    from zkdeployment.strategies.criteria import OutsideCriterion
    from zkdeployment.strategies.state import (
        Recovery,
        RolloutSnapshot,
        RolloutState,
    )


def coordinator_metrics(rollout: RolloutState | None, *, leads: bool) -> Iterator[Metric]:
    """Yield the metrics of a coordinator, besides those of its process and its cycles.

    ``leads`` means that this coordinator is the leader, which alone knows the newest ``rollout``.
    """
    yield gauge("coordinator_leads", "1 if this coordinator is the leader.", leads)
    yield from rollout_metrics(MemberKind.HOST, rollout)


#: The results of a coordinator's cycle that did not fail.
_LED = "led"


class CoordinatorTelemetry(CycleTelemetry):
    """Records the cycles of one coordinator, and the newest ``rollout`` while this coordinator leads."""

    def __init__(self, probe: Probe) -> None:
        super().__init__("coordinator", probe, (_LED, QUEUED, *(kind.event for kind in FAILURE_KINDS)))
        self.leads = False
        self.rollout: RolloutState | None = None

    def record(self, outcome: str, rollout: RolloutState | None = None, *, leads: bool) -> None:
        """Record a cycle, and the newest rollout of a coordinator that leads."""
        self.leads, self.rollout = leads, rollout if leads else None
        self.count(outcome)

    def report(self, *, up: bool = True) -> None:
        """Write all metrics; ``up``: whether the coordinator continues."""
        self.write(coordinator_metrics(self.rollout if up else None, leads=self.leads and up), up=up)


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


#: The kinds of failures, each with the seconds until the next cycle.
PAUSES = {
    FailureKind(LockLostError, "lead-lost", logging.WARNING): 0.0,
    FailureKind(ConflictError, "write-conflicted", logging.INFO): 0.0,
    FailureKind(UnreachableError, "zookeeper-unreachable", logging.WARNING): 2.0,
    FailureKind(RecoveryDelayedError, "rollback-delayed", logging.WARNING): 10.0,
    FailureKind(Exception, "coordination-failed", logging.ERROR): 2.0,
}

FAILURE_KINDS = tuple(PAUSES)

#: Seconds between two cycles at most, without any change.
_MOST_SECONDS = 15.0


class Coordinator:
    """Leads the rollouts of ``store``; ``connect`` opens its session and does nothing when it is open.

    ``recovery`` rolls back after failures; without it the strategies' ``on_failure`` has no effect. ``criteria``
    are the criteria outside of the rollout; without that of the checks, groups with ``healthy_checks`` do not wait
    for checks. ``record_failure``: see ``CycleFailures``.
    """

    def __init__(  # noqa: PLR0913  the adapters a coordinator depends on
        self,
        store: ZooKeeperRollouts,
        clock: Clock,
        control: Control,
        *,
        connect: Callable[[], None],
        notifier: SystemdNotifier,
        probe: Probe,
        recovery: RecoverySteps | None = None,
        criteria: Sequence[OutsideCriterion] = (),
        record_failure: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._control = control
        self._notifier = notifier
        self._recovery = recovery
        self._criteria = criteria
        self._telemetry = CoordinatorTelemetry(probe)
        self._cycles = LedCycles(
            store.lead,
            store.resign,
            connect,
            notifier,
            otherwise="another coordinator leads",
            pauses=PAUSES,
            backoff=Backoff(first=2.0, most=_MOST_SECONDS),
            record=lambda outcome, leads: self._telemetry.record(outcome, self._telemetry.rollout, leads=leads),
            record_failure=record_failure,
        )
        self._tidied = False
        self._interval = cycle_interval(0)

    def run(self) -> None:
        """Run cycles until asked to end; raises ``RestartError`` if the connection cannot be restored."""
        self._notifier.ready()
        for criterion in self._criteria:
            criterion.start()
        try:
            run_cycles(
                self._run_measured_cycle,
                self._control,
                self._clock,
                self._notifier,
                least=lambda: max(self._interval, self._cycles.backoff.seconds),
            )
        finally:
            self._notifier.stopping()
            for criterion in self._criteria:
                criterion.close()
            self._store.resign()
            self._telemetry.report(up=False)

    def _run_measured_cycle(self) -> float:
        pause = self.run_cycle()
        if self._telemetry.is_due():
            self._telemetry.report()
        return pause

    def run_cycle(self) -> float:
        """Coordinate once if this coordinator leads; return the seconds until the next cycle."""
        if not self._cycles.lead.held:
            self._tidied = False
        return self._cycles.run(self._coordinate)

    def _coordinate(self) -> float:
        """Advance the newest rollout or begin the next one; return the seconds until the next cycle."""
        snapshot = self._store.snapshot()
        state, now = snapshot.state, round(self._clock.now(), 1)
        self._telemetry.record(_LED, state, leads=True)
        self._interval = cycle_interval(0 if state is None else len(state.rollout.hosts))
        if state is not None and is_superseded(snapshot):
            self._write(state, supersede(state, now))
            return 0.0
        if self._recovery is not None and state is not None and is_recovery_pending(snapshot):
            self._recover(self._recovery, state, now)
            return 0.0
        attempt = next_attempt(snapshot)
        if attempt is not None:
            self._begin(snapshot, attempt, now)
            return 0.0
        if state is not None and state.sequence == snapshot.published.effective_since:
            pause = self._advance(snapshot, state, now)
        else:
            self._notifier.status("nothing to coordinate: no strategy is in force")
            pause = _MOST_SECONDS
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
        observation = self._store.first_observation(published.ordered, now=now)
        state = start(
            strategy,
            observation,
            sequence=published.effective_since,
            attempt=attempt,
            revision=published.ordered,
            before=snapshot.state,
        )
        self._store.begin(state, published.stamp)
        self._tidied = False
        log_changes(None, state)
        log_unmatched_selectors(state, {**observation.absent, **observation.present})

    def _advance(self, snapshot: RolloutSnapshot, state: RolloutState, now: float) -> float:
        outside = {criterion.name: criterion.read(state, now) for criterion in self._criteria}
        observation = replace(self._store.observation(snapshot, state, now=now), outside=outside)
        after = advance(state, observation)
        self._write(state, after)
        asked, due = ({request.key for request in due_requests(each, now)} for each in (state, after))
        if due - asked:
            return 0.0  # the next cycle asks for the measurements that have become due
        pause = seconds_until_change(after, observation)
        return _MOST_SECONDS if pause is None else min(pause, _MOST_SECONDS)

    def _recover(self, recovery: RecoverySteps, state: RolloutState, now: float) -> None:
        """Take the next step after a failed rollout, which runs git and waits for a syncer, and record it."""
        self._store.grant(state, grants(state))
        self._notifier.status(f"rollout {state.id} of {short(state.revision)} failed: rolling back")
        with self._notifier.uninterrupted():
            after = recovery.run(state, now=now)
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
            self._store.record(after, _stop(after) if stops else None)
            self._telemetry.rollout = after
            log_changes(before, after)
        self._store.grant(after, grants(after))
        self._notifier.status(f"rollout {after.id} of {short(after.revision)}: {_summary(after)}")


def _stop(state: RolloutState) -> Stop:
    ended = state.begun if state.ended is None else state.ended
    by = state.acts[-1].act.by if state.ending is Ending.ABORTED and state.acts else COORDINATOR
    return Stop.of_operator(Act(by, "stop", final_report(state), ended))


def _summary(state: RolloutState) -> str:
    if state.ended is not None:
        return "ended"
    active = state.active_phase
    if active is None:
        return state.waiting or "beginning"
    task = active.task
    return f"{task.phase.value} of {task.group}, {len(active.reports)} of {len(task.hosts)} hosts finished"
