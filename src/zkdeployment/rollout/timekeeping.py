"""What time counts in a rollout: not that of a halt, nor that in which no coordinator looked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout.engine import Phase

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
    strategy: Strategy, group: Group, phase: Phase, *, begun: float, moved: float
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
        yield moved + progress, f", and nothing went on for {progress:g} s"


def note_look(running: RolloutState, now: float) -> RolloutState:
    """Note now and then that somebody coordinates; no limit counts when nobody did, nor how clocks differ.

    That clocks differ shows where time goes back, or jumps.
    """
    if running.looked is None:
        return running
    gap = now - running.looked
    if 0 <= gap < _BEAT:
        return running
    if gap < 0 or gap > _UNLED:
        running = _move_bake(running, gap)
        if gap < 0 or running.held is None:  # else that time will not count either
            running = _move(running, lambda when: when + gap)
            running = replace(running, held=None if running.held is None else running.held + gap)
    return replace(running, looked=now)


def keep_looking(running: RolloutState, now: float) -> RolloutState:
    """Return the rollout with a note of this look, if hosts may be at work now."""
    idle = running.stage is None and not running.late
    looked = None if idle else now if running.looked is None else running.looked
    return running if looked == running.looked else replace(running, looked=looked)


def note_halt(running: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Note since when nothing new may begin; that time counts for no limit and no absence."""
    if running.paused is not None or not observation.active:
        return running if running.held is not None else replace(running, held=observation.now)
    if running.held is None:
        return running
    waited = max(0.0, observation.now - running.held)
    return _move(replace(running, held=None), lambda when: min(observation.now, when + waited))


def counted_until(running: RolloutState, now: float) -> float:
    """Return the moment until which time counts: during a halt, when that began."""
    return now if running.held is None else min(now, running.held)


def _move_bake(running: RolloutState, gap: float) -> RolloutState:
    """Move the moment from which a group proves itself, which it does also during a halt."""
    stage = running.stage
    if stage is None or stage.baking is None:
        return running
    return replace(running, stage=replace(stage, baking=stage.baking + gap))


def _move(running: RolloutState, shift: Callable[[float], float]) -> RolloutState:
    """Move all moments from which limits count; an absence that nobody waits for (0) stays."""
    stage = running.stage
    if stage is not None:
        stage = replace(stage, begun=shift(stage.begun), moved=shift(stage.moved))
    return replace(
        running,
        stage=stage,
        absent={host: since and shift(since) for host, since in running.absent.items()},
        entered={host: shift(when) for host, when in running.entered.items()},
    )
