"""How a rollout goes on: from what it is and what the world shows to what it is now, and who may enter what.

All is a function of values: a coordinator that is killed anywhere leaves nothing that its successor does not see.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import absence, engine, phases, timekeeping
from zkdeployment.rollout import late_joiners as late
from zkdeployment.rollout.engine import HostProgress, Phase, RolloutResult
from zkdeployment.rollout.state import ActivePhase, Directive, Ending, Grant, RolloutState
from zkdeployment.rollout.windows import is_open, next_opening

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.engine import Rollout, Task
    from zkdeployment.rollout.state import RolloutAct, RolloutObservation, RolloutSnapshot


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
    running = snapshot.running
    return running is not None and running.ended is None and running.sequence != snapshot.published.sequence


def next_attempt(snapshot: RolloutSnapshot) -> int | None:
    """Return the number of the attempt that is to begin; ``None`` if there is none.

    The end of one that failed stops the fleet in the same moment: where it is active again, somebody resumed.
    """
    running = snapshot.running
    if not snapshot.active:
        return None
    if running is None or running.sequence != snapshot.published.sequence:
        return 1
    return running.attempt + 1 if has_failed(running) else None


def has_failed(running: RolloutState) -> bool:
    """Whether it ended in a way that stops the fleet."""
    completed = running.ending is Ending.COMPLETED
    return running.ending is Ending.ABORTED or (completed and running.rollout.result is RolloutResult.FAILED)


def supersede(running: RolloutState, now: float) -> RolloutState:
    """Return the rollout ended by a newer publication."""
    return _end(running, Ending.SUPERSEDED, now)


def advance(running: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Return the rollout after all that can be done now; again with the same world it changes nothing more."""
    running = timekeeping.note_look(running, observation.now)
    running = take_acts(running, observation.acts, observation.now)
    if late.is_open(running):
        running = timekeeping.note_halt(running, observation)
        running = _note_absence(running, observation)
        running = _admit(running, observation)
        running, observation = _readmit(running, observation)
        running = _advance_hosts(running, observation)
        running = _note_absence(running, observation)  # some are done by now
    return timekeeping.keep_looking(running, observation.now)


def _advance_hosts(running: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Take what hosts report and let hosts in, until there is nothing more to do."""
    while True:
        before = running
        running = late.take_reports(running, observation)
        running = _advance_groups(running, observation)
        running = late.let_in(running, observation)
        if running is before:
            return running


def _advance_groups(running: RolloutState, observation: RolloutObservation) -> RolloutState:
    while running.ended is None:
        if running.stage is None:
            running = _open(running, observation)
        before = running.stage
        if before is not None:
            running = phases.go_on(running, before, observation)
        if running.stage is before and running.ended is None:
            return _wait(running, _halt(running)) if before is not None else running
    return running


def grants(running: RolloutState) -> Mapping[str, Grant]:
    """Return what each host may enter, and from whom that was withdrawn; nobody else has a grant."""
    found: dict[str, Grant] = {}
    for name in running.rollout.order:
        for task in engine.done_tasks(running.rollout, name):
            found.update(dict.fromkeys(task.hosts, Grant(name, task.phase)))
    if running.stage is not None:
        task = running.stage.task
        found.update(dict.fromkeys(running.stage.granted, Grant(task.group, task.phase)))
    groups = _sent(running.rollout)
    withdrawn = {host: Grant(groups.get(host, ""), None, why) for host, why in running.errors.items()}
    withdrawn |= phases.tolerated(running)
    # At the end all others are through, or the cluster version tells them what to do.
    return {**({} if running.ended is not None else found), **late.grants(running), **withdrawn}


def _sent(rollout: Rollout) -> Mapping[str, str]:
    """Return the group with which each host was submitted last."""
    courses = [(name, rollout.courses[name]) for name in rollout.order]
    return {host: name for name, course in courses for hosts in course.sent.values() for host in hosts}


def next_look(running: RolloutState, observation: RolloutObservation) -> float | None:
    """Return in how many seconds time alone changes something; ``None``: never."""
    moments = [*late.moments(running)]
    if running.stage is not None:
        moments += phases.moments(running, running.stage)
    elif running.ended is None and running.held is None:
        moments += _openings(running, observation.now)
    return max(0.0, min(moments) - observation.now) if moments else None


# What comes from outside


def take_acts(running: RolloutState, acts: Iterable[RolloutAct], now: float) -> RolloutState:
    """Return the rollout after what operators ask of it, in order; nothing, once no host may enter any more."""
    for one in acts:
        if one.number <= running.taken or not late.is_open(running):
            continue
        running = replace(running, taken=one.number, acts=(*running.acts, one))
        match one.directive:
            case Directive.PROMOTE:
                running = _promote(running, one.group or "")
            case Directive.PAUSE:
                running = replace(running, paused=one.act)
            case Directive.RESUME:
                running = replace(running, paused=None)
            case Directive.ABORT:
                running = _end(running, Ending.ABORTED, now)
    return running


def _promote(running: RolloutState, name: str) -> RolloutState:
    """Let a manual group begin; another one, or if asked again, begins without the hosts that it requires."""
    manual = {group.name for group in running.rollout.strategy.groups if group.pace.manual}
    if name in manual - running.promoted:
        return replace(running, promoted=running.promoted | {name})
    return replace(running, forced=running.forced | {name})


def _end(running: RolloutState, ending: Ending, now: float) -> RolloutState:
    absent = {host: since for host, since in running.absent.items() if host in running.late}
    return late.close(replace(running, ended=now, ending=ending, stage=None, waiting="", absent=absent))


def _note_absence(running: RolloutState, observation: RolloutObservation) -> RolloutState:
    return absence.note(running, observation, phases.proving(running))


def _admit(running: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Take in hosts that registered; of some only the name was known until now."""
    new = {host: observation.present[host] for host in observation.present.keys() - running.rollout.hosts.keys()}
    if not new:
        return running
    called = {facts.name for facts in new.values()} - {None}
    names = {host for host in running.rollout.hosts.keys() & called if _is_bare_name(running, host, observation)}
    rollout = engine.dismiss(running.rollout, names) if names else running.rollout
    absent = {host: since for host, since in running.absent.items() if host not in names}
    return replace(running, rollout=engine.admit(rollout, new, successful=observation.current), absent=absent)


def _readmit(running: RolloutState, observation: RolloutObservation) -> tuple[RolloutState, RolloutObservation]:
    """Return the rollout in which hosts that lost the revision are not started; their old reports do not count."""
    lost = {host for host in observation.outdated if running.rollout.hosts.get(host) is HostProgress.SUCCESS}
    if not lost or not observation.active:
        return running, observation
    hosts = {**running.rollout.hosts, **dict.fromkeys(lost, HostProgress.NOT_STARTED)}
    rollout = replace(running.rollout, hosts=hosts)
    reports = {key: report for key, report in observation.reports.items() if key[1] not in lost}
    return replace(running, rollout=rollout, proven=running.proven - lost), replace(observation, reports=reports)


def readmitted(before: RolloutState, after: RolloutState) -> frozenset[str]:
    """Return the hosts that had succeeded and begin again: their reports are to be removed."""
    states = after.rollout.hosts
    return frozenset(
        host
        for host, state in before.rollout.hosts.items()
        if state is HostProgress.SUCCESS and states.get(host) in {HostProgress.NOT_STARTED, HostProgress.PREPARED}
    )


def _is_bare_name(running: RolloutState, host: str, observation: RolloutObservation) -> bool:
    """Whether nothing was done with a host that is not there: who registers with its name takes its place."""
    granted = {} if running.stage is None else running.stage.granted
    idle = running.rollout.hosts[host] is HostProgress.NOT_STARTED
    return idle and host not in observation.present and host not in granted and host not in running.late


# Groups


def _open(running: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Begin a phase of the first group that may start, or say what all wait for; without any that is the end."""
    obstacles = []
    for task in engine.ready_tasks(running.rollout):
        obstacle = _halt(running) or _obstacle(running, task, observation.now)
        if not obstacle:
            return replace(running, stage=ActivePhase(task, observation.now, observation.now), waiting="")
        obstacles.append(obstacle)
    if not obstacles:
        return _end(running, Ending.COMPLETED, observation.now)
    return _wait(running, "; ".join(dict.fromkeys(obstacles)))


def _wait(running: RolloutState, why: str) -> RolloutState:
    return running if running.waiting == why else replace(running, waiting=why)


def _halt(running: RolloutState) -> str:
    if running.paused is not None:
        return f"paused by {running.paused.by}"
    if running.held is not None:
        return f"the fleet is stopped or held, or its version is not {running.revision}"
    return ""


def _obstacle(running: RolloutState, task: Task, now: float) -> str:
    """Say why a group may not start yet; one that was prepared waits only for the hosts that it requires."""
    group = running.rollout.strategy.group(task.group)
    if task.phase is Phase.PREPARE:
        if group.pace.manual and group.name not in running.promoted:
            return f"{group.name} waits for 'zkdeployment rollout promote {group.name}'"
        if not is_open(group.pace.windows, now):
            return f"{group.name} waits for its time window"
    shortage = absence.shortage(running, group.name)
    return f"{group.name} {shortage}" if shortage else ""


def _openings(running: RolloutState, now: float) -> Iterator[float]:
    """Return when the windows of groups open that wait for nothing else."""
    for task in engine.ready_tasks(running.rollout):
        group = running.rollout.strategy.group(task.group)
        if group.pace.windows and not (group.pace.manual and group.name not in running.promoted):
            yield next_opening(group.pace.windows, now)
