"""The next state of a rollout, and the grants that follow from it.

All functions are pure: a coordinator that is killed at any point leaves nothing that its successor does not see.
The parts are coordinated here: operators' acts, halts, absences, membership, the groups and the late joiners.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import absence, late_joiners, lifecycle, membership, phases, tasks, timekeeping
from zkdeployment.rollout.operator_acts import apply_acts
from zkdeployment.rollout.permission import Grant, Phase
from zkdeployment.rollout.state import ActivePhase, Ending
from zkdeployment.rollout.windows import is_open, next_opening

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.rollout.state import RolloutObservation, RolloutState
    from zkdeployment.rollout.state_machine import Rollout, Task


def advance(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Return the rollout after all transitions that the observation allows.

    A second call with the same observation changes nothing.
    """
    state = timekeeping.note_coordination(state, observation.now)
    state = apply_acts(state, observation.acts, observation.now)
    if late_joiners.is_open(state):
        state = timekeeping.note_halt(state, observation)
        state = _track_absence(state, observation)
        state = membership.admit_registered(state, observation)
        state, observation = membership.restart_outdated(state, observation)
        state = _advance_hosts(state, observation)
        state = _track_absence(state, observation)  # some absent hosts have finished by now
    return timekeeping.track_coordination(state, observation.now)


def _advance_hosts(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Record reports and grant phases until neither changes anything."""
    while True:
        before = state
        state = late_joiners.record_reports(state, observation)
        state = _advance_groups(state, observation)
        state = late_joiners.grant_phases(state, observation)
        if state is before:
            return state


def _advance_groups(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    while state.ended is None:
        if state.active_phase is None:
            state = _open_phase(state, observation)
        before = state.active_phase
        if before is not None:
            state = phases.advance(state, before, observation)
        if state.active_phase is before and state.ended is None:
            return _record_waiting(state, _halt_reason(state)) if before is not None else state
    return state


def grants(state: RolloutState) -> Mapping[str, Grant]:
    """Return the grants by host, including withdrawn ones; all other hosts have none."""
    entered: dict[str, Grant] = {}
    for name in state.rollout.order:
        for task in tasks.done_tasks(state.rollout, name):
            entered.update(dict.fromkeys(task.hosts, Grant(name, task.phase)))
    if state.active_phase is not None:
        task = state.active_phase.task
        entered.update(dict.fromkeys(state.active_phase.granted, Grant(task.group, task.phase)))
    groups = _last_groups(state.rollout)
    withdrawn = {host: Grant(groups.get(host, ""), None, error) for host, error in state.errors.items()}
    withdrawn |= phases.tolerated(state)
    # After the end the other hosts have finished, or follow the cluster version.
    return {**({} if state.ended is not None else entered), **late_joiners.grants(state), **withdrawn}


def _last_groups(rollout: Rollout) -> Mapping[str, str]:
    """Return the group with which each host was submitted to a phase last."""
    return {
        host: name
        for name in rollout.order
        for hosts in rollout.progress[name].submitted.values()
        for host in hosts
    }


def seconds_until_change(state: RolloutState, observation: RolloutObservation) -> float | None:
    """Return the seconds until the passage of time changes the state; ``None`` if it never does."""
    moments = [*late_joiners.moments(state)]
    if state.active_phase is not None:
        moments += phases.moments(state, state.active_phase, observation)
    elif state.ended is None and state.halted_since is None:
        moments += _openings(state, observation.now)
    return max(0.0, min(moments) - observation.now) if moments else None


def _track_absence(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    return absence.note(state, observation, phases.proving(state))


def _open_phase(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Begin the phase of the first group that may start.

    Without such a group the rollout records what all groups wait for; without any group left it ends.
    """
    obstacles = []
    for task in tasks.ready_tasks(state.rollout):
        obstacle = _halt_reason(state) or _obstacle(state, task, observation.now)
        if not obstacle:
            return replace(state, active_phase=ActivePhase(task, observation.now, observation.now), waiting="")
        obstacles.append(obstacle)
    if not obstacles:
        return lifecycle.end(state, Ending.COMPLETED, observation.now)
    return _record_waiting(state, "; ".join(dict.fromkeys(obstacles)))


def _record_waiting(state: RolloutState, reason: str) -> RolloutState:
    return state if state.waiting == reason else replace(state, waiting=reason)


def _halt_reason(state: RolloutState) -> str:
    if state.paused is not None:
        return f"paused by {state.paused.by}"
    if state.halted_since is not None:
        return f"the fleet is stopped or held, or its version is not {state.revision}"
    return ""


def _obstacle(state: RolloutState, task: Task, now: float) -> str:
    """Return why a group may not start yet; a prepared group waits only for its required hosts."""
    group = state.rollout.strategy.group(task.group)
    if task.phase is Phase.PREPARE:
        if group.pace.manual and group.name not in state.promoted:
            return f"{group.name} waits for 'zkdeployment rollout promote {group.name}'"
        if not is_open(group.pace.windows, now):
            return f"{group.name} waits for its time window"
    shortage = absence.shortage(state, group.name)
    return f"{group.name} {shortage}" if shortage else ""


def _openings(state: RolloutState, now: float) -> Iterator[float]:
    """Return when the windows open of the groups that wait for nothing else."""
    for task in tasks.ready_tasks(state.rollout):
        group = state.rollout.strategy.group(task.group)
        if group.pace.windows and not (group.pace.manual and group.name not in state.promoted):
            yield next_opening(group.pace.windows, now)
