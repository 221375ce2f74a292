"""What time counts in a rollout: not that of a halt, nor that in which no coordinator looked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout.state_machine import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.model.strategy import Group, Strategy
    from zkdeployment.rollout.state import RolloutObservation, RolloutState

#: Seconds between two notes that somebody coordinates.
_BEAT = 30.0

#: Seconds without such a note that show that nobody did.
_UNLED = 60.0

#: Seconds without a report after which a phase fails, where the strategy limits it in no way.
PROGRESS_DEADLINE = 7200.0


def limits(
    strategy: Strategy, group: Group, phase: Phase, *, begun: float, last_progress: float
) -> Iterator[tuple[float, str]]:
    """Return when a phase is out of time, in seconds since the epoch, and the words that end a sentence on it."""
    pace, progress = group.pace, group.pace.progress_deadline
    own = pace.prepare_timeout if phase is Phase.PREPARE else pace.deploy_timeout
    default = strategy.prepare_timeout if phase is Phase.PREPARE else strategy.deploy_timeout
    timeout = default if own is None else own
    if timeout is not None:
        yield begun + timeout, f" within {timeout:g} s"
    elif progress is None:
        progress = PROGRESS_DEADLINE
    if progress is not None:
        yield last_progress + progress, f", and nothing went on for {progress:g} s"


def note_coordination(state: RolloutState, now: float) -> RolloutState:
    """Note now and then that somebody coordinates; no limit counts when nobody did, nor how clocks differ.

    That clocks differ shows where time goes back, or jumps.
    """
    if state.coordinated_at is None:
        return state
    gap = now - state.coordinated_at
    if 0 <= gap < _BEAT:
        return state
    if gap < 0 or gap > _UNLED:
        state = _move_bake(state, gap)
        if gap < 0 or state.halted_since is None:  # else that time will not count either
            state = _move(state, lambda when: when + gap)
            state = replace(state, halted_since=None if state.halted_since is None else state.halted_since + gap)
    return replace(state, coordinated_at=now)


def track_coordination(state: RolloutState, now: float) -> RolloutState:
    """Return the rollout with a note of this look, if hosts may be at work now."""
    idle = state.active_phase is None and not state.late_joiners
    looked = None if idle else now if state.coordinated_at is None else state.coordinated_at
    return state if looked == state.coordinated_at else replace(state, coordinated_at=looked)


def note_halt(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Note since when nothing new may begin; that time counts for no limit and no absence."""
    if state.paused is not None or not observation.active:
        return state if state.halted_since is not None else replace(state, halted_since=observation.now)
    if state.halted_since is None:
        return state
    waited = max(0.0, observation.now - state.halted_since)
    return _move(replace(state, halted_since=None), lambda when: min(observation.now, when + waited))


def counted_until(state: RolloutState, now: float) -> float:
    """Return the moment until which time counts: during a halt, when that began."""
    return now if state.halted_since is None else min(now, state.halted_since)


def _move_bake(state: RolloutState, gap: float) -> RolloutState:
    """Move the moment from which a group proves itself, which it does also during a halt."""
    active = state.active_phase
    if active is None or active.baking_since is None:
        return state
    return replace(state, active_phase=replace(active, baking_since=active.baking_since + gap))


def _move(state: RolloutState, shift: Callable[[float], float]) -> RolloutState:
    """Move all moments from which limits count; an absence that nobody waits for (0) stays."""
    active = state.active_phase
    if active is not None:
        active = replace(active, begun=shift(active.begun), last_progress=shift(active.last_progress))
    return replace(
        state,
        active_phase=active,
        absent={host: since and shift(since) for host, since in state.absent.items()},
        late_since={host: shift(when) for host, when in state.late_since.items()},
    )
