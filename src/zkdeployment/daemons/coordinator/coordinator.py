"""The coordinator: it leads the rollouts with a strategy, or queues until the leading coordinator is gone.

A coordinator only grants phases to hosts; the hosts deploy. Its whole state is in ZooKeeper, where a successor
reads it. The decisions are in ``zkdeployment.rollout``; this module reads, decides, records and grants.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.daemons.backoff import Backoff
from zkdeployment.daemons.coordinator.failure_kinds import FAILURE_KINDS, PAUSES
from zkdeployment.daemons.coordinator.rollout_log import log_changes, log_unmatched_selectors
from zkdeployment.daemons.cycle_failures import CycleFailures
from zkdeployment.daemons.cycle_loop import run_cycles
from zkdeployment.daemons.daemon_lead import DaemonLead
from zkdeployment.daemons.telemetry.coordinator import CoordinatorTelemetry
from zkdeployment.errors import (
    ConflictError,
    LockLostError,
    RestartError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.fleet.rollouts.text import final_report
from zkdeployment.model.act import Act
from zkdeployment.model.cluster import short
from zkdeployment.model.stop import COORDINATOR, Stop
from zkdeployment.rollout.lifecycle import has_failed, is_superseded, next_attempt, start, supersede
from zkdeployment.rollout.membership import restarted_hosts
from zkdeployment.rollout.phases import checked
from zkdeployment.rollout.progress import advance, grants, seconds_until_change
from zkdeployment.rollout.recovery import is_recovery_pending
from zkdeployment.rollout.state import Ending
from zkdeployment.rollout.timekeeping import cycle_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.systemd import SystemdNotifier
    from zkdeployment.adapters.zookeeper.rollout.store import ZooKeeperRollouts
    from zkdeployment.daemons.checks.check_daemon import CheckDaemon
    from zkdeployment.daemons.checks.check_health import CheckHealth
    from zkdeployment.daemons.control import Control
    from zkdeployment.daemons.coordinator.recovery_steps import RecoverySteps
    from zkdeployment.daemons.telemetry.probe import Probe
    from zkdeployment.ports.process import Clock
    from zkdeployment.rollout.state import RolloutObservation, RolloutSnapshot, RolloutState

#: Seconds between two cycles at most, without any change.
_MOST_SECONDS = 15.0


class Coordinator:
    """Leads the rollouts of ``store``; ``connect`` opens its session and does nothing when it is open.

    ``recovery`` rolls back after failures; without it the strategies' ``on_failure`` has no effect. ``checks``
    runs in a thread of its own for as long as the coordinator runs. ``health`` reads the checks of groups with
    ``healthy_checks``; without it such groups do not wait for checks. ``record_failure``: see ``CycleFailures``.
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
        checks: CheckDaemon | None = None,
        health: CheckHealth | None = None,
        record_failure: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._control = control
        self._connect = connect
        self._notifier = notifier
        self._recovery = recovery
        self._checks = checks
        self._health = health
        self._telemetry = CoordinatorTelemetry(probe, failures=[kind.event for kind in FAILURE_KINDS])
        self._backoff = Backoff(first=2.0, most=_MOST_SECONDS)
        self._failures = CycleFailures(FAILURE_KINDS, notifier.status, record_failure)
        self._lead = DaemonLead(store.lead, notifier, otherwise="another coordinator leads")
        self._tidied = False
        self._interval = cycle_interval(0)

    def run(self) -> None:
        """Run cycles until asked to end; raises ``RestartError`` if the connection cannot be restored."""
        self._notifier.ready()
        if self._checks is not None:
            self._checks.start()
        try:
            run_cycles(
                self._run_measured_cycle,
                self._control,
                self._clock,
                self._notifier,
                least=lambda: max(self._interval, self._backoff.seconds),
            )
        finally:
            self._notifier.stopping()
            if self._checks is not None:
                self._checks.close()
            self._store.resign()
            self._telemetry.write(up=False)

    def _run_measured_cycle(self) -> float:
        pause = self.run_cycle()
        self._telemetry.beat()
        return pause

    def run_cycle(self) -> float:
        """Coordinate once if this coordinator leads; return the seconds until the next cycle."""
        try:
            self._connect()
            if not self._lead.held:
                self._tidied = False
            if not self._lead.acquire():
                self._telemetry.queue()
                self._failures.end()  # what fails now is a matter of the coordinator that leads
                return 0.0
            pause = self._coordinate()
        except RestartError:
            raise
        except ZkdeploymentError as error:
            return self._report(error)
        except Exception as error:  # noqa: BLE001  a defect of the program must not end every coordinator
            return self._resign_after(error)
        self._backoff.reset()
        self._failures.end()
        return pause

    def _coordinate(self) -> float:
        """Advance the newest rollout or begin the next one; return the seconds until the next cycle."""
        snapshot = self._store.snapshot()
        state, now = snapshot.state, round(self._clock.now(), 1)
        self._telemetry.lead(state)
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
            # This may take long: it comes after the grants, which hosts wait for.
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
        observation = self._with_health(self._store.observation(snapshot, state, now=now), state)
        after = advance(state, observation)
        self._write(state, after)
        pause = seconds_until_change(after, observation)
        return _MOST_SECONDS if pause is None else min(pause, _MOST_SECONDS)

    def _with_health(self, observation: RolloutObservation, state: RolloutState) -> RolloutObservation:
        """Return an observation with the health of the hosts whose checks decide now."""
        since = checked(state, observation.now)
        if self._health is None or not since:
            return observation
        health = self._health.read(since, state.sequence, observation.now)
        return replace(observation, unhealthy=health.unhealthy, unchecked=health.unchecked)

    def _recover(self, recovery: RecoverySteps, state: RolloutState, now: float) -> None:
        """Take the next step after a failed rollout, which runs git and waits for a syncer, and record it."""
        self._store.grant(state, grants(state))
        self._notifier.status(f"rollout {state.id} of {short(state.revision)} failed: rolling back")
        with self._notifier.uninterrupted():
            after = recovery.run(state, now=now)
        self._write(state, after)

    def _write(self, before: RolloutState, after: RolloutState) -> None:
        """Write the state, then the grants that follow from it: a successor completes what is missing.

        Reports of hosts that start again are removed before that, so that no coordinator takes them for new ones.
        """
        if after != before:
            if restarted := restarted_hosts(before, after):
                self._store.clear_reports(after, restarted)
            stops = has_failed(after) and not has_failed(before)
            self._store.record(after, _stop(after) if stops else None)
            self._telemetry.show(after)
            log_changes(before, after)
        self._store.grant(after, grants(after))
        self._notifier.status(f"rollout {after.id} of {short(after.revision)}: {_summary(after)}")

    def _resign_after(self, error: Exception) -> float:
        """Report an unexpected error and leave the lead to another coordinator; return the seconds to wait."""
        self._report(error)
        self._store.resign()
        self._lead.lose()
        return self._backoff.fail()

    def _report(self, error: Exception) -> float:
        """Report an error of a cycle; return the seconds until the next cycle."""
        kind = self._failures.report(error)
        if isinstance(error, LockLostError):
            self._lead.lose()
        self._telemetry.fail(kind.event, leads=self._lead.held and not isinstance(error, UnreachableError))
        return PAUSES[kind]


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
