"""How a rollout goes on: from what it is and what the world shows to what it is now, and who may enter what.

All is a function of values: a coordinator that is killed anywhere leaves nothing that its successor does not see.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import engine, late, phases
from zkdeployment.rollout.engine import HostState, Phase, Result
from zkdeployment.rollout.running import Directive, Ending, Grant, Running, Stage
from zkdeployment.rollout.windows import is_open, next_opening

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.engine import Task
    from zkdeployment.rollout.running import RolloutAct, Situation, World

#: Seconds between two notes that somebody coordinates.
_BEAT = 30.0

#: Seconds without such a note that show that nobody did.
_UNLED = 60.0


def start(strategy: Strategy, world: World, *, sequence: int, attempt: int, revision: Revision) -> Running:
    """Return a rollout of which nothing was done yet; hosts that have the revision already are successful.

    Nobody waits for those that are absent, but for a moment for those that have just left: that is a restart.
    """
    hosts = {**world.absent, **world.present}
    absent = dict.fromkeys(sorted(world.absent.keys() - world.present.keys()), 0.0)
    left = {host: world.left[host] + phases.RESTART - phases.ABSENCE for host in absent.keys() & world.left.keys()}
    return Running(
        sequence=sequence,
        attempt=attempt,
        revision=revision,
        rollout=engine.begin(strategy, hosts, successful=world.current & world.present.keys()),
        begun=world.now,
        absent=absent | left,
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
    running = take_acts(_note_look(running, world.now), world.acts, world.now)
    if running.ended is None:
        running = _note_absence(_note_halt(running, world), world)
    if running.ended is None or late.is_open(running):
        running = _admit(running, world)
    while running.ended is None:
        if running.stage is None:
            running = _open(running, world)
        before = running.stage
        if before is not None:
            running = phases.go_on(running, before, world)
        if running.stage is before and running.ended is None:
            running = _note_absence(running, world)  # some are done by now
            return _wait(running, _halt(running)) if before is not None else running
    return late.let_through(running, world)


def grants(running: Running) -> Mapping[str, Grant]:
    """Return what each host may enter, and from whom that was withdrawn; nobody else has a grant."""
    found: dict[str, Grant] = {}
    for name in running.rollout.order:
        sent = running.rollout.courses[name].sent
        for phase in Phase:
            found.update(dict.fromkeys(sent.get(phase, ()), Grant(name, phase)))
    if running.stage is not None:
        task = running.stage.task
        found.update(dict.fromkeys(running.stage.granted, Grant(task.group, task.phase)))
    groups = {host: found[host].group for host in running.errors if host in found}
    withdrawn = {host: Grant(groups.get(host, ""), None, why) for host, why in running.errors.items()}
    # At the end all others are through, or the cluster version tells them what to do.
    return {**({} if running.ended is not None else found), **late.grants(running), **withdrawn}


def next_look(running: Running, world: World) -> float | None:
    """Return in how many seconds time alone changes something; ``None``: never."""
    if running.ended is not None:
        return None
    if running.stage is not None:
        moments = list(phases.moments(running, running.stage))
    else:
        moments = [] if running.held is not None else list(_openings(running, world.now))
    return max(0.0, min(moments) - world.now) if moments else None


# What comes from outside


def take_acts(running: Running, acts: Iterable[RolloutAct], now: float) -> Running:
    """Return the rollout after what operators ask of it, in order; after its end nothing is taken any more."""
    for one in acts:
        if one.number <= running.taken or running.ended is not None:
            continue
        running = replace(running, taken=one.number, acts=(*running.acts, one))
        match one.directive:
            case Directive.PROMOTE:
                running = replace(running, promoted=running.promoted | {one.group or ""})
            case Directive.PAUSE:
                running = replace(running, paused=one.act)
            case Directive.RESUME:
                running = replace(running, paused=None)
            case Directive.ABORT:
                running = _end(running, Ending.ABORTED, now)
    return running


def _end(running: Running, ending: Ending, now: float) -> Running:
    return replace(running, ended=now, ending=ending, stage=None, waiting="", held=None, absent={})


def _note_look(running: Running, now: float) -> Running:
    """Note now and then that somebody coordinates; no limit counts when nobody did, nor how clocks differ."""
    stage = running.stage
    gap = 0.0 if stage is None or stage.looked is None else now - stage.looked
    if stage is None or (stage.looked is not None and abs(gap) < _BEAT):
        return running
    absent = running.absent
    if abs(gap) > _UNLED:
        absent = {host: since and since + gap for host, since in absent.items()}
        if running.held is None:  # else that time will not count either
            stage = replace(stage, begun=stage.begun + gap, moved=stage.moved + gap)
    return replace(running, stage=replace(stage, looked=now), absent=absent)


def _note_halt(running: Running, world: World) -> Running:
    """Note since when nothing new may begin; that time counts for no limit."""
    halted = running.paused is not None or not world.active
    if halted:
        return running if running.held is not None else replace(running, held=world.now)
    if running.held is None:
        return running
    stage, waited = running.stage, max(0.0, world.now - running.held)
    if stage is not None:
        stage = replace(stage, begun=stage.begun + waited, moved=stage.moved + waited)
    return replace(running, held=None, stage=stage)


def _note_absence(running: Running, world: World) -> Running:
    """Note since when the hosts that are not done are away."""
    undone = (HostState.NOT_STARTED, HostState.PREPARED)
    away = (host for host, state in running.rollout.hosts.items() if state in undone and host not in world.present)
    absent = {host: running.absent.get(host, world.now) for host in away}
    return running if absent == running.absent else replace(running, absent=absent)


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
            return replace(running, stage=Stage(task, world.now, world.now, looked=world.now), waiting="")
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
    """Say why a group may not start yet; one that was prepared goes on."""
    group = running.rollout.strategy.group(task.group)
    if task.phase is Phase.DEPLOY:
        return ""
    if group.pace.manual and group.name not in running.promoted:
        return f"{group.name} waits for 'zkdeployment rollout promote {group.name}'"
    return "" if is_open(group.pace.windows, now) else f"{group.name} waits for its time window"


def _openings(running: Running, now: float) -> Iterator[float]:
    """Return when the windows of groups open that wait for nothing else."""
    for task in engine.ready_tasks(running.rollout):
        group = running.rollout.strategy.group(task.group)
        if group.pace.windows and not (group.pace.manual and group.name not in running.promoted):
            yield next_opening(group.pace.windows, now)
