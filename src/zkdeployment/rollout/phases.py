"""A phase of a group that is under way: who is let in, what they report, and when that is enough, or too late."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import engine
from zkdeployment.rollout.engine import Phase
from zkdeployment.rollout.running import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.model.strategy import Group
    from zkdeployment.rollout.running import Running, Stage, World

#: Seconds that an agent may be away: less is a restart.
ABSENCE = 300.0

#: The same of an agent that left before the rollout began, when it had nothing to do yet.
RESTART = 60.0

#: Characters of an error that are kept: the state has to fit into a node, whatever thousands of hosts say.
_LONGEST_ERROR = 200


def go_on(running: Running, stage: Stage, world: World) -> Running:
    """Take in what hosts report; judge the phase if it is over, else let in as many hosts as may be.

    The same stage comes back if there was nothing to do; none, if it was judged.
    """
    group = running.rollout.strategy.group(stage.task.group)
    stage = _gather(running, _take_reports(running, stage, world), group, world)
    if all(host in stage.reports for host in stage.task.hosts):
        return _finish(running, stage, group, world)
    if running.held is None:
        for moment, fault in _limits(stage, group):
            if world.now >= moment:
                return _judge(running, stage, _errors(stage, fault), fault)
        stage = _let_in(stage, engine.width(running.rollout, group.name), world)
    return running if stage is running.stage else replace(running, stage=stage)


def moments(running: Running, stage: Stage) -> Iterator[float]:
    """Return when time alone changes something, in seconds since the epoch."""
    group = running.rollout.strategy.group(stage.task.group)
    if stage.baking is not None:
        away = running.absent.keys() & _done(stage)
        yield max([stage.baking + group.pace.bake_time, *(running.absent[host] + ABSENCE for host in away)])
    elif running.held is None:
        yield from (moment for moment, _ in _limits(stage, group))
    waited_for = running.absent.keys() & stage.task.hosts - stage.reports.keys()
    yield from (running.absent[host] + ABSENCE for host in waited_for)


def awaited(running: Running) -> list[tuple[Phase, str]]:
    """Return what hosts are expected to report now: the phase and the host."""
    late = [(phase, host) for host, phase in running.late.items()]
    if running.stage is None:
        return late
    phase = running.stage.task.phase
    return late + [(phase, host) for host in running.stage.granted.keys() - running.stage.reports.keys()]


def brief(error: str) -> str:
    """Return as much of an error as is kept."""
    return error if len(error) <= _LONGEST_ERROR else error[: _LONGEST_ERROR - 1] + "…"


def _gather(running: Running, stage: Stage, group: Group, world: World) -> Stage:
    """Return the stage with the hosts of the phase: those that entered it, and those that still can.

    A host that is absent cannot. Once a limit is reached the phase does not wait for any host that is away. Once
    the group misses its criteria for certain no further host enters, and the phase ends with those that did.
    """
    eligible = engine.eligible_hosts(running.rollout, stage.task.group, stage.task.phase)
    over = running.held is None and any(world.now >= moment for moment, _ in _limits(stage, group))
    closed = _is_closed(running, stage)
    left_out = {
        host
        for host in eligible
        if closed
        or _is_gone(running, host, world.now)
        or (over and (host not in world.present or stage.baking is not None))
    }
    hosts = tuple(host for host in eligible if host in stage.granted or host not in left_out)
    if hosts == stage.task.hosts:
        return stage
    return replace(stage, task=replace(stage.task, hosts=hosts), baking=None)


def _is_closed(running: Running, stage: Stage) -> bool:
    failed = {host for host, report in stage.reports.items() if report.error is not None}
    return engine.is_closed(running.rollout, stage.task, begun=bool(stage.granted), failed=failed)


def _is_gone(running: Running, host: str, now: float) -> bool:
    since = running.absent.get(host)
    return since is not None and now >= since + ABSENCE


def _take_reports(running: Running, stage: Stage, world: World) -> Stage:
    new = {}
    for host in stage.granted.keys() - stage.reports.keys():
        report = world.reports.get((stage.task.phase, host))
        if report is not None:
            new[host] = report if report.error is None else replace(report, error=brief(report.error))
        elif _is_gone(running, host, world.now):
            new[host] = Report(world.now, f"its agent is gone for {ABSENCE:g} s")
    return replace(stage, reports={**stage.reports, **new}, moved=world.now) if new else stage


def _let_in(stage: Stage, width: int, world: World) -> Stage:
    room = width - len(stage.granted) + len(stage.reports)
    waiting = [host for host in stage.task.hosts if host not in stage.granted and host in world.present]
    if room <= 0 or not waiting:
        return stage
    new = dict.fromkeys(waiting[:room], world.now)
    return replace(stage, granted={**stage.granted, **new}, moved=world.now)


def _limits(stage: Stage, group: Group) -> Iterator[tuple[float, str]]:
    """Return when the phase is over without an end, and what is to be said of it then."""
    pace, undone = group.pace, len(stage.task.hosts) - len(stage.reports)
    timeout = pace.prepare_timeout if stage.task.phase is Phase.PREPARE else pace.deploy_timeout
    words = f"{undone} of {len(stage.task.hosts)} hosts did not end"
    if timeout is not None:
        yield stage.begun + timeout, f"{words} within {timeout:g} s"
    if pace.progress_deadline is not None:
        yield (
            stage.moved + pace.progress_deadline,
            f"{words}, and nothing went on for {pace.progress_deadline:g} s",
        )


def _finish(running: Running, stage: Stage, group: Group, world: World) -> Running:
    """All have reported: judge them, if need be after the time that they have to prove themselves."""
    bakes = (
        stage.task.phase is Phase.DEPLOY
        and group.pace.bake_time > 0
        and stage.task.hosts
        and not _is_closed(running, stage)
    )
    if bakes and stage.baking is None:
        return replace(running, stage=replace(stage, baking=world.now))
    if bakes and stage.baking is not None:
        restarting = [
            host for host in _done(stage) if host not in world.present and not _is_gone(running, host, world.now)
        ]
        if restarting or world.now < stage.baking + group.pace.bake_time:
            return running if stage is running.stage else replace(running, stage=stage)
    return _judge(running, stage, (_spoiled(stage, world) if bakes else {}) | _errors(stage))


def _done(stage: Stage) -> list[str]:
    """Return the hosts that have reported a success."""
    return [host for host, report in stage.reports.items() if report.error is None]


def _spoiled(stage: Stage, world: World) -> dict[str, str]:
    """Return the hosts that were done and did not stay so."""
    failing = dict.fromkeys(world.failing.intersection(stage.reports), "it showed an error after its deployment")
    return failing | {
        host: f"its agent is gone for {ABSENCE:g} s, since its deployment"
        for host in stage.reports
        if host not in world.present
    }


def _errors(stage: Stage, fault: str = "") -> dict[str, str]:
    """Return the hosts that failed; those that did not end are such because of the ``fault``."""
    found = {host: report.error for host, report in stage.reports.items() if report.error is not None}
    late = dict.fromkeys(stage.granted.keys() - stage.reports.keys(), f"{stage.task.phase.value}: {fault}")
    return found | late


def _judge(running: Running, stage: Stage, errors: Mapping[str, str], fault: str = "") -> Running:
    """Judge the group; who was never let in was not submitted."""
    task = replace(stage.task, hosts=tuple(host for host in stage.task.hosts if host in stage.granted))
    rollout = engine.record(running.rollout, task, set(task.hosts) - errors.keys(), fault=fault)
    return replace(running, rollout=rollout, stage=None, errors={**running.errors, **errors})
