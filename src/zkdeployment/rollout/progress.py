"""How a rollout goes on: from what it is and what the world shows to what it is now, and who may enter what.

All is a function of values: a coordinator that is killed anywhere leaves nothing that its successor does not see.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import absence, engine, late, phases, timekeeping
from zkdeployment.rollout.engine import HostState, Phase, Result
from zkdeployment.rollout.running import Directive, Ending, Grant, Running, Stage
from zkdeployment.rollout.windows import is_open, next_opening

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.engine import Rollout, Task
    from zkdeployment.rollout.running import RolloutAct, Situation, World


def start(
    strategy: Strategy,
    world: World,
    *,
    sequence: int,
    attempt: int,
    revision: Revision,
    before: Running | None = None,
) -> Running:
    """Return a rollout of which nothing was done yet; hosts that have the revision already are successful.

    Of these, hosts that have proven themselves with the revision in the rollout ``before`` need not do so again.
    """
    had = world.current & world.present.keys()
    proven = before.proven if before is not None and before.revision == revision else frozenset[str]()
    return Running(
        sequence=sequence,
        attempt=attempt,
        revision=revision,
        rollout=engine.begin(strategy, {**world.absent, **world.present}, successful=had),
        begun=world.now,
        absent=absence.at_start(strategy, world),
        proven=proven & had,
    )


def is_superseded(situation: Situation) -> bool:
    """Whether the newest rollout is one that goes on, and another publication has taken its place."""
    running = situation.running
    return running is not None and running.ended is None and running.sequence != situation.published.sequence


def next_attempt(situation: Situation) -> int | None:
    """Return the number of the attempt that is to begin; ``None`` if there is none.

    The end of one that failed stops the fleet in the same moment: where it is active again, somebody resumed.
    """
    running = situation.running
    if not situation.active:
        return None
    if running is None or running.sequence != situation.published.sequence:
        return 1
    return running.attempt + 1 if has_failed(running) else None


def has_failed(running: Running) -> bool:
    """Whether it ended in a way that stops the fleet."""
    completed = running.ending is Ending.COMPLETED
    return running.ending is Ending.ABORTED or (completed and running.rollout.result is Result.FAILED)


def supersede(running: Running, now: float) -> Running:
    """Return the rollout ended by a newer publication."""
    return _end(running, Ending.SUPERSEDED, now)


def advance(running: Running, world: World) -> Running:
    """Return the rollout after all that can be done now; again with the same world it changes nothing more."""
    running = timekeeping.note_look(running, world.now)
    running = take_acts(running, world.acts, world.now)
    if late.is_open(running):
        running = timekeeping.note_halt(running, world)
        running = _note_absence(running, world)
        running = _admit(running, world)
        running, world = _readmit(running, world)
        running = _advance_hosts(running, world)
        running = _note_absence(running, world)  # some are done by now
    return timekeeping.keep_looking(running, world.now)


def _advance_hosts(running: Running, world: World) -> Running:
    """Take what hosts report and let hosts in, until there is nothing more to do."""
    while True:
        before = running
        running = late.take_reports(running, world)
        running = _advance_groups(running, world)
        running = late.let_in(running, world)
        if running is before:
            return running


def _advance_groups(running: Running, world: World) -> Running:
    while running.ended is None:
        if running.stage is None:
            running = _open(running, world)
        before = running.stage
        if before is not None:
            running = phases.go_on(running, before, world)
        if running.stage is before and running.ended is None:
            return _wait(running, _halt(running)) if before is not None else running
    return running


def grants(running: Running) -> Mapping[str, Grant]:
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


def next_look(running: Running, world: World) -> float | None:
    """Return in how many seconds time alone changes something; ``None``: never."""
    moments = [*late.moments(running)]
    if running.stage is not None:
        moments += phases.moments(running, running.stage)
    elif running.ended is None and running.held is None:
        moments += _openings(running, world.now)
    return max(0.0, min(moments) - world.now) if moments else None


# What comes from outside


def take_acts(running: Running, acts: Iterable[RolloutAct], now: float) -> Running:
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


def _promote(running: Running, name: str) -> Running:
    """Let a manual group begin; another one, or if asked again, begins without the hosts that it requires."""
    manual = {group.name for group in running.rollout.strategy.groups if group.pace.manual}
    if name in manual - running.promoted:
        return replace(running, promoted=running.promoted | {name})
    return replace(running, forced=running.forced | {name})


def _end(running: Running, ending: Ending, now: float) -> Running:
    absent = {host: since for host, since in running.absent.items() if host in running.late}
    return late.close(replace(running, ended=now, ending=ending, stage=None, waiting="", absent=absent))


def _note_absence(running: Running, world: World) -> Running:
    return absence.note(running, world, phases.proving(running))


def _admit(running: Running, world: World) -> Running:
    """Take in hosts that registered; of some only the name was known until now."""
    new = {host: world.present[host] for host in world.present.keys() - running.rollout.hosts.keys()}
    if not new:
        return running
    called = {facts.name for facts in new.values()} - {None}
    names = {host for host in running.rollout.hosts.keys() & called if _is_bare_name(running, host, world)}
    rollout = engine.dismiss(running.rollout, names) if names else running.rollout
    absent = {host: since for host, since in running.absent.items() if host not in names}
    return replace(running, rollout=engine.admit(rollout, new, successful=world.current), absent=absent)


def _readmit(running: Running, world: World) -> tuple[Running, World]:
    """Return the rollout in which hosts that lost the revision are not started; their old reports do not count."""
    lost = {host for host in world.outdated if running.rollout.hosts.get(host) is HostState.SUCCESS}
    if not lost or not world.active:
        return running, world
    hosts = {**running.rollout.hosts, **dict.fromkeys(lost, HostState.NOT_STARTED)}
    rollout = replace(running.rollout, hosts=hosts)
    reports = {key: report for key, report in world.reports.items() if key[1] not in lost}
    return replace(running, rollout=rollout, proven=running.proven - lost), replace(world, reports=reports)


def readmitted(before: Running, after: Running) -> frozenset[str]:
    """Return the hosts that had succeeded and begin again: their reports are to be removed."""
    states = after.rollout.hosts
    return frozenset(
        host
        for host, state in before.rollout.hosts.items()
        if state is HostState.SUCCESS and states.get(host) in {HostState.NOT_STARTED, HostState.PREPARED}
    )


def _is_bare_name(running: Running, host: str, world: World) -> bool:
    """Whether nothing was done with a host that is not there: who registers with its name takes its place."""
    granted = {} if running.stage is None else running.stage.granted
    idle = running.rollout.hosts[host] is HostState.NOT_STARTED
    return idle and host not in world.present and host not in granted and host not in running.late


# Groups


def _open(running: Running, world: World) -> Running:
    """Begin a phase of the first group that may start, or say what all wait for; without any that is the end."""
    obstacles = []
    for task in engine.ready_tasks(running.rollout):
        obstacle = _halt(running) or _obstacle(running, task, world.now)
        if not obstacle:
            return replace(running, stage=Stage(task, world.now, world.now), waiting="")
        obstacles.append(obstacle)
    if not obstacles:
        return _end(running, Ending.COMPLETED, world.now)
    return _wait(running, "; ".join(dict.fromkeys(obstacles)))


def _wait(running: Running, why: str) -> Running:
    return running if running.waiting == why else replace(running, waiting=why)


def _halt(running: Running) -> str:
    if running.paused is not None:
        return f"paused by {running.paused.by}"
    if running.held is not None:
        return f"the fleet is stopped or held, or its version is not {running.revision}"
    return ""


def _obstacle(running: Running, task: Task, now: float) -> str:
    """Say why a group may not start yet; one that was prepared waits only for the hosts that it requires."""
    group = running.rollout.strategy.group(task.group)
    if task.phase is Phase.PREPARE:
        if group.pace.manual and group.name not in running.promoted:
            return f"{group.name} waits for 'zkdeployment rollout promote {group.name}'"
        if not is_open(group.pace.windows, now):
            return f"{group.name} waits for its time window"
    shortage = absence.shortage(running, group.name)
    return f"{group.name} {shortage}" if shortage else ""


def _openings(running: Running, now: float) -> Iterator[float]:
    """Return when the windows of groups open that wait for nothing else."""
    for task in engine.ready_tasks(running.rollout):
        group = running.rollout.strategy.group(task.group)
        if group.pace.windows and not (group.pace.manual and group.name not in running.promoted):
            yield next_opening(group.pace.windows, now)
