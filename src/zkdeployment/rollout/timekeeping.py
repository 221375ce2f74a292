"""The time that counts for the limits of a rollout: neither the time of halts nor time without a coordinator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout.permission import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.model.strategy import Group, Strategy
    from zkdeployment.rollout.state import RolloutObservation, RolloutState

#: Seconds from the begin of one cycle of a coordinator to the next one: at least, and for each host.
_SHORTEST, _FOR_EACH = 0.2, 0.0001

#: Seconds between two records of the time of coordination.
_HEARTBEAT = 30.0

#: Seconds without such a record after which no coordinator led.
_UNLED = 60.0

#: Seconds without progress after which a phase fails, if the strategy sets no limit.
PROGRESS_DEADLINE = 7200.0


def cycle_interval(hosts: int) -> float:
    """Return the seconds between two cycles that coordinate a rollout over so many hosts.

    The coordinator handles all reports of this time together: the work of a cycle grows with the hosts.
    """
    return max(_SHORTEST, _FOR_EACH * hosts)


def limits(
    strategy: Strategy, group: Group, phase: Phase, *, begun: float, last_progress: float
) -> Iterator[tuple[float, str]]:
    """Return the deadlines of a phase, in seconds since the epoch, each with the end of its error message."""
    pace, deadline = group.pace, group.pace.progress_deadline
    own = pace.prepare_timeout if phase is Phase.PREPARE else pace.deploy_timeout
    default = strategy.prepare_timeout if phase is Phase.PREPARE else strategy.deploy_timeout
    timeout = default if own is None else own
    if timeout is not None:
        yield begun + timeout, f" within {timeout:g} s"
    elif deadline is None:
        deadline = PROGRESS_DEADLINE
    if deadline is not None:
        yield last_progress + deadline, f"; no progress for {deadline:g} s"


def note_coordination(state: RolloutState, now: float) -> RolloutState:
    """Return the rollout with this time of coordination; a gap since the last one does not count for limits.

    A gap is a time without a coordinator, or the difference between the clocks of two coordinators, in which case
    it may be negative.
    """
    if state.coordinated_at is None:
        return state
    gap = now - state.coordinated_at
    if 0 <= gap < _HEARTBEAT:
        return state
    if gap < 0 or gap > _UNLED:
        state = _move_bake(state, gap)
        if gap < 0 or state.halted_since is None:  # otherwise the end of the halt discounts the gap
            state = _move(state, lambda when: when + gap)
            state = replace(state, halted_since=None if state.halted_since is None else state.halted_since + gap)
    return replace(state, coordinated_at=now)


def track_coordination(state: RolloutState, now: float) -> RolloutState:
    """Return the rollout that records the times of coordination exactly while hosts may run a phase."""
    idle = state.active_phase is None and not state.late_joiners
    looked = None if idle else now if state.coordinated_at is None else state.coordinated_at
    return state if looked == state.coordinated_at else replace(state, coordinated_at=looked)


def note_halt(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Return the rollout with the begin or end of a halt, whose time counts for no limit and no absence."""
    if state.paused is not None or not observation.active:
        return state if state.halted_since is not None else replace(state, halted_since=observation.now)
    if state.halted_since is None:
        return state
    waited = max(0.0, observation.now - state.halted_since)
    return _move(replace(state, halted_since=None), lambda when: min(observation.now, when + waited))


def counted_until(state: RolloutState, now: float) -> float:
    """Return the moment up to which time counts: now, or the begin of the current halt."""
    return now if state.halted_since is None else min(now, state.halted_since)


def _move_bake(state: RolloutState, gap: float) -> RolloutState:
    """Move the begin of the bake time, which runs also during a halt."""
    active = state.active_phase
    if active is None or active.baking_since is None:
        return state
    return replace(state, active_phase=replace(active, baking_since=active.baking_since + gap))


def _move(state: RolloutState, shift: Callable[[float], float]) -> RolloutState:
    """Move all moments from which limits count; 0, an absence that blocks nothing, stays."""
    active = state.active_phase
    if active is not None:
        active = replace(active, begun=shift(active.begun), last_progress=shift(active.last_progress))
    return replace(
        state,
        active_phase=active,
        absent={host: since and shift(since) for host, since in state.absent.items()},
        late_since={host: shift(when) for host, when in state.late_since.items()},
    )
