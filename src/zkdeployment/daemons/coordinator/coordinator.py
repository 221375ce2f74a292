"""The coordinator: leads rollouts by their strategy, or waits until whoever leads is gone.

It only says who may go; hosts do the rest. All it knows is in ZooKeeper, where a successor finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.daemons.backoff import Backoff
from zkdeployment.daemons.coordinator.rollout_log import log_changes, log_unmatched_selectors
from zkdeployment.daemons.telemetry.coordinator import CoordinatorTelemetry
from zkdeployment.errors import (
    ConflictError,
    LockLostError,
    RestartError,
    UnreachableError,
    ZkdeploymentError,
    error_message,
)
from zkdeployment.fleet.rollouts import report
from zkdeployment.log import get_logger
from zkdeployment.model.act import Act
from zkdeployment.model.cluster import short
from zkdeployment.model.stop import COORDINATOR, Stop
from zkdeployment.rollout.progress import (
    advance,
    grants,
    has_failed,
    is_superseded,
    next_attempt,
    restarted_hosts,
    seconds_until_change,
    start,
    supersede,
)
from zkdeployment.rollout.state import Ending

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.daemons.control import Control
    from zkdeployment.daemons.telemetry.probe import Probe
    from zkdeployment.ports.process import Clock, Notifier
    from zkdeployment.ports.rollout import RolloutStore
    from zkdeployment.rollout.state import RolloutSnapshot, RolloutState

#: Seconds in the queue for the lead between two signs of life.
_QUEUE = 2.0

#: Seconds between two looks: at most, whatever wakes us, and at least, so that many reports are taken at once.
_SELDOM = 15.0
_OFTEN = 0.2

#: Which event each error is, the first that fits, how loudly it is said, and in how many seconds to look again.
EVENTS: tuple[tuple[type[Exception], str, str, float], ...] = (
    (LockLostError, "warning", "lead-lost", 0.0),
    (ConflictError, "info", "somebody-was-faster", 0.0),
    (UnreachableError, "warning", "zookeeper-unreachable", 2.0),
    (Exception, "error", "coordination-failed", 2.0),
)


class Coordinator:
    """Leads the rollouts of ``store``; ``connect`` opens its session and does nothing when it is open."""

    def __init__(
        self,
        store: RolloutStore,
        clock: Clock,
        control: Control,
        *,
        connect: Callable[[], None],
        notifier: Notifier,
        probe: Probe,
    ) -> None:
        self._store = store
        self._clock = clock
        self._control = control
        self._connect = connect
        self._notifier = notifier
        self._telemetry = CoordinatorTelemetry(probe, failures=[event for _, _, event, _ in EVENTS])
        self._backoff = Backoff(first=2.0, most=_SELDOM)
        self._leads = False
        self._tidied = False
        self._said = ""

    def run(self) -> None:
        """Coordinate until asked to end; raises ``RestartError`` if the connection cannot be mended."""
        self._notifier.ready()
        try:
            while not self._control.stopping:
                begun = self._clock.monotonic()
                pause = self.turn()
                self._telemetry.beat()
                self._notifier.watchdog()
                self._control.wait(pause)
                earliest = begun + max(_OFTEN, self._backoff.seconds)
                while (rest := earliest - self._clock.monotonic()) > 0 and not self._control.stopping:
                    self._control.wait(rest)
        finally:
            self._notifier.stopping()
            self._store.resign()
            self._telemetry.write(up=False)

    def turn(self) -> float:
        """Look once, if we lead; return in how many seconds to look again."""
        try:
            self._connect()
            if not self._lead():
                self._telemetry.queue()
                return 0.0
            pause = self._look()
        except RestartError:
            raise
        except ZkdeploymentError as error:
            return self._complain(error)
        except Exception as error:  # noqa: BLE001  a defect of ours must not end every coordinator
            return self._give_way(error)
        self._backoff.reset()
        self._said = ""
        return pause

    def _lead(self) -> bool:
        led, self._leads = self._leads, self._store.lead(_QUEUE)
        if self._leads and not led:
            get_logger().info("lead-taken")
        if not self._leads:
            self._notifier.status("another coordinator leads")
        elif not led:
            self._tidied = False
        return self._leads

    def _look(self) -> float:
        """Read the world, decide, write; return in how many seconds time alone brings more."""
        snapshot = self._store.snapshot()
        state, now = snapshot.state, round(self._clock.now(), 1)
        self._telemetry.lead(state)
        if state is not None and is_superseded(snapshot):
            self._write(state, supersede(state, now))
            return 0.0
        attempt = next_attempt(snapshot)
        if attempt is not None:
            self._begin(snapshot, attempt, now)
            return 0.0
        if state is not None and state.sequence == snapshot.published.sequence:
            pause = self._advance(snapshot, state, now)
        else:
            self._notifier.status("nothing to coordinate: no strategy is in force")
            pause = _SELDOM
        if state is not None and not self._tidied:
            # It may take a while: hosts were let in before.
            self._store.tidy(state.id)
            self._tidied = True
            return 0.0
        return pause

    def _begin(self, snapshot: RolloutSnapshot, attempt: int, now: float) -> None:
        strategy, published = self._store.strategy(), snapshot.published
        if strategy is None or published.ordered is None or strategy.name != published.strategy:
            raise ConflictError("another strategy is just being published")
        observation = self._store.first_observation(published.ordered, now=now)
        state = start(
            strategy,
            observation,
            sequence=published.sequence,
            attempt=attempt,
            revision=published.ordered,
            before=snapshot.state,
        )
        self._store.begin(state, published.stamp)
        self._tidied = False
        log_changes(None, state)
        log_unmatched_selectors(state, {**observation.absent, **observation.present})

    def _advance(self, snapshot: RolloutSnapshot, state: RolloutState, now: float) -> float:
        observation = self._store.observation(snapshot, state, now=now)
        after = advance(state, observation)
        self._write(state, after)
        pause = seconds_until_change(after, observation)
        return _SELDOM if pause is None else min(pause, _SELDOM)

    def _write(self, before: RolloutState, after: RolloutState) -> None:
        """Write the state first, then what follows from it: a successor makes up for what is missing.

        But old reports of hosts that begin again go before: nobody may take them for new ones.
        """
        if after != before:
            if again := restarted_hosts(before, after):
                self._store.clear_reports(after, again)
            stops = has_failed(after) and not has_failed(before)
            self._store.record(after, _stop(after) if stops else None)
            self._telemetry.show(after)
            log_changes(before, after)
        self._store.grant(after, grants(after))
        self._notifier.status(f"rollout {after.id} of {short(after.revision)}: {_standing(after)}")

    def _give_way(self, error: Exception) -> float:
        """Report an unexpected error and leave the lead to another coordinator; return when to try again."""
        self._complain(error)
        self._store.resign()
        self._leads = False
        return self._backoff.fail()

    def _complain(self, error: Exception) -> float:
        """Say what is wrong: once, not every time that it is found again; return when to look again."""
        words = error_message(error)
        self._notifier.status(words.partition("\n")[0])
        if isinstance(error, LockLostError):
            self._leads = False
        _, level, event, pause = next(found for found in EVENTS if isinstance(error, found[0]))
        self._telemetry.fail(event, leads=self._leads and not isinstance(error, UnreachableError))
        if words != self._said:
            defect = None if isinstance(error, ZkdeploymentError) else error
            getattr(get_logger(), level)(event, reason=words, exc_info=defect)
        self._said = words
        return pause


def _stop(state: RolloutState) -> Stop:
    ended = state.begun if state.ended is None else state.ended
    by = state.acts[-1].act.by if state.ending is Ending.ABORTED and state.acts else COORDINATOR
    return Stop.of_operator(Act(by, "stop", report(state), ended))


def _standing(state: RolloutState) -> str:
    if state.ended is not None:
        return "it is over"
    active = state.active_phase
    if active is None:
        return state.waiting or "it begins"
    task = active.task
    return f"{task.phase.value} of {task.group}, {len(active.reports)} of {len(task.hosts)} hosts finished"
