"""How a rollout goes on: from what it is and what the world shows to what it is now, and who may enter what.

All is a function of values: a coordinator that is killed anywhere leaves nothing that its successor does not see.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import absence, engine, late_joiners, phases, tasks, timekeeping
from zkdeployment.rollout.state import ActivePhase, Directive, Ending, Grant, RolloutState
from zkdeployment.rollout.state_machine import HostProgress, Phase, RolloutResult
from zkdeployment.rollout.windows import is_open, next_opening

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.state import RolloutAct, RolloutObservation, RolloutSnapshot
    from zkdeployment.rollout.state_machine import Rollout, Task


def start(
    strategy: Strategy,
    observation: RolloutObservation,
    *,
    sequence: int,
    attempt: int,
    revision: Revision,
    before: RolloutState | None = None,
) -> RolloutState:
    """Return a rollout of which nothing was done yet; hosts that have the revision already are successful.

    Of these, hosts that have proven themselves with the revision in the rollout ``before`` need not do so again.
    """
    had = observation.current & observation.present.keys()
    proven = before.proven if before is not None and before.revision == revision else frozenset[str]()
    return RolloutState(
        sequence=sequence,
        attempt=attempt,
        revision=revision,
        rollout=engine.begin(strategy, {**observation.absent, **observation.present}, successful=had),
        begun=observation.now,
        absent=absence.at_start(strategy, observation),
        proven=proven & had,
    )


def is_superseded(snapshot: RolloutSnapshot) -> bool:
    """Whether the newest rollout is one that goes on, and another publication has taken its place."""
    state = snapshot.state
    return state is not None and state.ended is None and state.sequence != snapshot.published.sequence


def next_attempt(snapshot: RolloutSnapshot) -> int | None:
    """Return the number of the attempt that is to begin; ``None`` if there is none.

    The end of one that failed stops the fleet in the same moment: where it is active again, somebody resumed.
    """
    state = snapshot.state
    if not snapshot.active:
        return None
    if state is None or state.sequence != snapshot.published.sequence:
        return 1
    return state.attempt + 1 if has_failed(state) else None


def has_failed(state: RolloutState) -> bool:
    """Whether it ended in a way that stops the fleet."""
    completed = state.ending is Ending.COMPLETED
    return state.ending is Ending.ABORTED or (completed and state.rollout.result is RolloutResult.FAILED)


def supersede(state: RolloutState, now: float) -> RolloutState:
    """Return the rollout ended by a newer publication."""
    return _end(state, Ending.SUPERSEDED, now)


def advance(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Return the rollout after all that can be done now; again with the same world it changes nothing more."""
    state = timekeeping.note_coordination(state, observation.now)
    state = apply_acts(state, observation.acts, observation.now)
    if late_joiners.is_open(state):
        state = timekeeping.note_halt(state, observation)
        state = _note_absence(state, observation)
        state = _admit(state, observation)
        state, observation = _readmit(state, observation)
        state = _advance_hosts(state, observation)
        state = _note_absence(state, observation)  # some are done by now
    return timekeeping.track_coordination(state, observation.now)


def _advance_hosts(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Take what hosts report and let hosts in, until there is nothing more to do."""
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
            state = _open(state, observation)
        before = state.active_phase
        if before is not None:
            state = phases.advance(state, before, observation)
        if state.active_phase is before and state.ended is None:
            return _wait(state, _halt(state)) if before is not None else state
    return state


def grants(state: RolloutState) -> Mapping[str, Grant]:
    """Return what each host may enter, and from whom that was withdrawn; nobody else has a grant."""
    found: dict[str, Grant] = {}
    for name in state.rollout.order:
        for task in tasks.done_tasks(state.rollout, name):
            found.update(dict.fromkeys(task.hosts, Grant(name, task.phase)))
    if state.active_phase is not None:
        task = state.active_phase.task
        found.update(dict.fromkeys(state.active_phase.granted, Grant(task.group, task.phase)))
    groups = _sent(state.rollout)
    withdrawn = {host: Grant(groups.get(host, ""), None, why) for host, why in state.errors.items()}
    withdrawn |= phases.tolerated(state)
    # At the end all others are through, or the cluster version tells them what to do.
    return {**({} if state.ended is not None else found), **late_joiners.grants(state), **withdrawn}


def _sent(rollout: Rollout) -> Mapping[str, str]:
    """Return the group with which each host was submitted last."""
    return {
        host: name
        for name in rollout.order
        for hosts in rollout.progress[name].submitted.values()
        for host in hosts
    }


def seconds_until_change(state: RolloutState, observation: RolloutObservation) -> float | None:
    """Return in how many seconds time alone changes something; ``None``: never."""
    moments = [*late_joiners.moments(state)]
    if state.active_phase is not None:
        moments += phases.moments(state, state.active_phase)
    elif state.ended is None and state.halted_since is None:
        moments += _openings(state, observation.now)
    return max(0.0, min(moments) - observation.now) if moments else None


# What comes from outside


def apply_acts(state: RolloutState, acts: Iterable[RolloutAct], now: float) -> RolloutState:
    """Return the rollout after what operators ask of it, in order; nothing, once no host may enter any more."""
    for one in acts:
        if one.number <= state.last_act_number or not late_joiners.is_open(state):
            continue
        state = replace(state, last_act_number=one.number, acts=(*state.acts, one))
        match one.directive:
            case Directive.PROMOTE:
                state = _promote(state, one.group or "")
            case Directive.PAUSE:
                state = replace(state, paused=one.act)
            case Directive.RESUME:
                state = replace(state, paused=None)
            case Directive.ABORT:
                state = _end(state, Ending.ABORTED, now)
    return state


def _promote(state: RolloutState, name: str) -> RolloutState:
    """Let a manual group begin; another one, or if asked again, begins without the hosts that it requires."""
    manual = {group.name for group in state.rollout.strategy.groups if group.pace.manual}
    if name in manual - state.promoted:
        return replace(state, promoted=state.promoted | {name})
    return replace(state, forced=state.forced | {name})


def _end(state: RolloutState, ending: Ending, now: float) -> RolloutState:
    absent = {host: since for host, since in state.absent.items() if host in state.late_joiners}
    return late_joiners.close(
        replace(state, ended=now, ending=ending, active_phase=None, waiting="", absent=absent)
    )


def _note_absence(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    return absence.note(state, observation, phases.proving(state))


def _admit(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Take in hosts that registered; of some only the name was known until now."""
    new = {host: observation.present[host] for host in observation.present.keys() - state.rollout.hosts.keys()}
    if not new:
        return state
    called = {facts.name for facts in new.values()} - {None}
    names = {host for host in state.rollout.hosts.keys() & called if _is_bare_name(state, host, observation)}
    rollout = engine.dismiss(state.rollout, names) if names else state.rollout
    absent = {host: since for host, since in state.absent.items() if host not in names}
    return replace(state, rollout=engine.admit(rollout, new, successful=observation.current), absent=absent)


def _readmit(state: RolloutState, observation: RolloutObservation) -> tuple[RolloutState, RolloutObservation]:
    """Return the rollout in which hosts that lost the revision are not started; their old reports do not count."""
    lost = {host for host in observation.outdated if state.rollout.hosts.get(host) is HostProgress.SUCCESS}
    if not lost or not observation.active:
        return state, observation
    hosts = {**state.rollout.hosts, **dict.fromkeys(lost, HostProgress.NOT_STARTED)}
    rollout = replace(state.rollout, hosts=hosts)
    reports = {key: report for key, report in observation.reports.items() if key[1] not in lost}
    return replace(state, rollout=rollout, proven=state.proven - lost), replace(observation, reports=reports)


def restarted_hosts(before: RolloutState, after: RolloutState) -> frozenset[str]:
    """Return the hosts that had succeeded and begin again: their reports are to be removed."""
    states = after.rollout.hosts
    return frozenset(
        host
        for host, progress in before.rollout.hosts.items()
        if progress is HostProgress.SUCCESS
        and states.get(host) in {HostProgress.NOT_STARTED, HostProgress.PREPARED}
    )


def _is_bare_name(state: RolloutState, host: str, observation: RolloutObservation) -> bool:
    """Whether nothing was done with a host that is not there: who registers with its name takes its place."""
    granted = {} if state.active_phase is None else state.active_phase.granted
    idle = state.rollout.hosts[host] is HostProgress.NOT_STARTED
    return idle and host not in observation.present and host not in granted and host not in state.late_joiners


# Groups


def _open(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Begin a phase of the first group that may start, or say what all wait for; without any that is the end."""
    obstacles = []
    for task in tasks.ready_tasks(state.rollout):
        obstacle = _halt(state) or _obstacle(state, task, observation.now)
        if not obstacle:
            return replace(state, active_phase=ActivePhase(task, observation.now, observation.now), waiting="")
        obstacles.append(obstacle)
    if not obstacles:
        return _end(state, Ending.COMPLETED, observation.now)
    return _wait(state, "; ".join(dict.fromkeys(obstacles)))


def _wait(state: RolloutState, why: str) -> RolloutState:
    return state if state.waiting == why else replace(state, waiting=why)


def _halt(state: RolloutState) -> str:
    if state.paused is not None:
        return f"paused by {state.paused.by}"
    if state.halted_since is not None:
        return f"the fleet is stopped or held, or its version is not {state.revision}"
    return ""


def _obstacle(state: RolloutState, task: Task, now: float) -> str:
    """Say why a group may not start yet; one that was prepared waits only for the hosts that it requires."""
    group = state.rollout.strategy.group(task.group)
    if task.phase is Phase.PREPARE:
        if group.pace.manual and group.name not in state.promoted:
            return f"{group.name} waits for 'zkdeployment rollout promote {group.name}'"
        if not is_open(group.pace.windows, now):
            return f"{group.name} waits for its time window"
    shortage = absence.shortage(state, group.name)
    return f"{group.name} {shortage}" if shortage else ""


def _openings(state: RolloutState, now: float) -> Iterator[float]:
    """Return when the windows of groups open that wait for nothing else."""
    for task in tasks.ready_tasks(state.rollout):
        group = state.rollout.strategy.group(task.group)
        if group.pace.windows and not (group.pace.manual and group.name not in state.promoted):
            yield next_opening(group.pace.windows, now)
