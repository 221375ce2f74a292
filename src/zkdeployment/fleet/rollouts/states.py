"""The states of a rollout, its groups and its hosts, as operators see them.

The sentences that describe these states are in ``text``.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.rollout.permission import Phase
from zkdeployment.rollout.state import Ending
from zkdeployment.rollout.state_machine import GroupVerdict, HostProgress, RolloutResult

if TYPE_CHECKING:
    from zkdeployment.rollout.state import RolloutState


class GroupState(Enum):
    """The state of a group in a rollout."""

    WAITING = "waiting"
    PREPARING = "preparing"
    DEPLOYING = "deploying"
    BAKING = "baking"
    SUCCESS = "success"
    FAILED = "failed"


class RolloutProgressState(Enum):
    """The state of a whole rollout."""

    UNDER_WAY = "under way"
    PAUSED = "paused"
    SUCCESS = "success"
    PARTIAL = "success with failures"
    FAILED = "failed"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"


_RESULTS = {
    RolloutResult.SUCCESS: RolloutProgressState.SUCCESS,
    RolloutResult.PARTIAL: RolloutProgressState.PARTIAL,
    RolloutResult.FAILED: RolloutProgressState.FAILED,
}
_PHASES = {Phase.PREPARE: GroupState.PREPARING, Phase.DEPLOY: GroupState.DEPLOYING}


def rollout_state(state: RolloutState) -> RolloutProgressState:
    """Return the state of a rollout."""
    match state.ending:
        case Ending.ABORTED:
            return RolloutProgressState.ABORTED
        case Ending.SUPERSEDED:
            return RolloutProgressState.SUPERSEDED
        case Ending.COMPLETED:
            return _RESULTS[state.rollout.result]
    return RolloutProgressState.UNDER_WAY if state.paused is None else RolloutProgressState.PAUSED


def is_attempt_due(state: RolloutState | None) -> bool:
    """Return whether the coordinator has to begin a rollout, or another attempt of the one that failed.

    A failed rollout stops the fleet. If hosts may start although the last rollout failed, an operator has resumed
    the fleet.
    """
    return state is None or rollout_state(state) in {RolloutProgressState.FAILED, RolloutProgressState.ABORTED}


def group_state(state: RolloutState, name: str) -> GroupState:
    """Return the state of a group."""
    verdict = state.rollout.progress[name].verdict
    if verdict is not None:
        return GroupState.SUCCESS if verdict is GroupVerdict.SUCCESS else GroupState.FAILED
    active_phase = state.active_phase
    if active_phase is None or active_phase.task.group != name:
        return GroupState.WAITING
    return _PHASES[active_phase.task.phase] if active_phase.baking_since is None else GroupState.BAKING


def host_states(state: RolloutState) -> dict[str, str]:
    """Return the state of each host by its id: a ``HostProgress``, or the phase that the host is in."""
    states = {host: progress.value for host, progress in state.rollout.hosts.items()}
    active_phase = state.active_phase
    if active_phase is not None:
        phase = _PHASES[active_phase.task.phase].value
        finished = HostProgress.PREPARED if active_phase.task.phase is Phase.PREPARE else HostProgress.SUCCESS
        states |= dict.fromkeys(active_phase.granted, phase)
        states |= {
            host: finished.value if report.error is None else HostProgress.FAILURE.value
            for host, report in active_phase.reports.items()
        }
    for host, late_phase in state.late_joiners.items():
        if state.rollout.hosts.get(host) not in {HostProgress.SUCCESS, HostProgress.FAILURE}:
            states[host] = _PHASES[late_phase].value
    return states


def last_movement(state: RolloutState) -> float:
    """Return when the rollout last changed, in seconds since the epoch."""
    acts = [taken.act.time for taken in state.acts]
    phase_progress = [] if state.active_phase is None else [state.active_phase.last_progress]
    ended = [] if state.ended is None else [state.ended]
    return max([state.begun, *acts, *phase_progress, *ended])
