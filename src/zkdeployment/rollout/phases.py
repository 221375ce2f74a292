"""A phase of a group that is under way: which hosts enter it, what they report, and when it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import absence, engine, timekeeping
from zkdeployment.rollout.engine import HostProgress, Phase
from zkdeployment.rollout.state import Grant, PhaseReport

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from zkdeployment.model.strategy import Group
    from zkdeployment.rollout.state import ActivePhase, RolloutObservation, RolloutState

#: Characters of an error that are kept: the state has to fit into a node, whatever thousands of hosts say.
_LONGEST_ERROR = 200


def go_on(running: RolloutState, stage: ActivePhase, observation: RolloutObservation) -> RolloutState:
    """Take in what hosts report; judge the phase if it is over, else let in as many hosts as may be.

    The same stage comes back if there was nothing to do; none, if it was judged, or if the hosts that its group
    requires went away before any host entered it.
    """
    group = running.rollout.strategy.group(stage.task.group)
    stage = _gather(running, _take_reports(running, stage, observation), observation)
    if not stage.granted and absence.shortage(running, group.name):
        return replace(running, stage=None)
    if all(host in stage.reports for host in stage.task.hosts):
        return _finish(running, stage, group, observation)
    if running.held is None:
        for moment, words in _limits(running, stage):
            if observation.now >= moment:
                undone = len(stage.task.hosts) - len(stage.reports)
                fault = f"{undone} of {len(stage.task.hosts)} hosts did not end{words}"
                return _judge(running, stage, _errors(stage, fault), fault)
        stage = _let_in(stage, engine.width(running.rollout, group.name), observation)
    return running if stage is running.stage else replace(running, stage=stage)


def moments(running: RolloutState, stage: ActivePhase) -> Iterator[float]:
    """Return when time alone changes something, in seconds since the epoch."""
    group = running.rollout.strategy.group(stage.task.group)
    halted = running.held is not None
    if stage.baking is not None:
        away = {host for host in running.absent.keys() & proving(running) if not _is_gone_for_good(running, host)}
        if not (halted and away):
            yield max([stage.baking + group.pace.bake_time, *(absence.moment(running, host) for host in away)])
    elif not halted:
        yield from (moment for moment, _ in _limits(running, stage))
    if not halted:
        waited_for = running.absent.keys() & stage.task.hosts - stage.reports.keys()
        yield from (absence.moment(running, host) for host in waited_for)


def _is_gone_for_good(running: RolloutState, host: str) -> bool:
    """Whether a host is gone, and no end of a halt changes that."""
    return running.held is not None and absence.is_gone(running, host, running.held)


def awaited(running: RolloutState) -> list[tuple[Phase, str]]:
    """Return what hosts are expected to report now: the phase and the host."""
    late = [(phase, host) for host, phase in running.late.items()]
    if running.stage is None:
        return late
    phase = running.stage.task.phase
    return late + [(phase, host) for host in running.stage.granted.keys() - running.stage.reports.keys()]


def proving(running: RolloutState) -> frozenset[str]:
    """Return the hosts that have to prove themselves now."""
    stage = running.stage
    return frozenset() if stage is None or stage.baking is None else _proving(running, stage)


def tolerated(running: RolloutState) -> Mapping[str, Grant]:
    """Return withdrawn grants for hosts that failed in the phase under way, while their group may succeed."""
    stage = running.stage
    if stage is None or _is_closed(running, stage):
        return {}
    failed = {host: report.error for host, report in stage.reports.items() if report.error is not None}
    return {host: Grant(stage.task.group, None, error) for host, error in failed.items()}


def brief(error: str) -> str:
    """Return as much of an error as is kept."""
    return error if len(error) <= _LONGEST_ERROR else error[: _LONGEST_ERROR - 1] + "…"


def _gather(running: RolloutState, stage: ActivePhase, observation: RolloutObservation) -> ActivePhase:
    """Return the stage with the hosts of the phase: those that entered it, and those that still can.

    A host that is gone cannot. Once a limit is reached the phase does not wait for any host that is away. Once
    the group misses its criteria for certain no further host enters, and the phase ends with those that did.
    """
    eligible = engine.eligible_hosts(running.rollout, stage.task.group, stage.task.phase)
    over = running.held is None and any(observation.now >= moment for moment, _ in _limits(running, stage))
    if _is_closed(running, stage) or (over and stage.baking is not None):
        left_out: Collection[str] = frozenset(eligible)
    elif over:
        left_out = {host for host in eligible if host not in observation.present}
    else:
        left_out = {host for host in running.absent if absence.is_gone(running, host, observation.now)}
    hosts = tuple(host for host in eligible if host in stage.granted or host not in left_out)
    if hosts == stage.task.hosts:
        return stage
    return replace(stage, task=replace(stage.task, hosts=hosts), baking=None)


def _is_closed(running: RolloutState, stage: ActivePhase) -> bool:
    failed = {host for host, report in stage.reports.items() if report.error is not None}
    return engine.is_closed(running.rollout, stage.task, begun=bool(stage.granted), failed=failed)


def _take_reports(running: RolloutState, stage: ActivePhase, observation: RolloutObservation) -> ActivePhase:
    new = {}
    for host in stage.granted.keys() - stage.reports.keys():
        report = observation.reports.get((stage.task.phase, host))
        if report is not None:
            new[host] = report if report.error is None else replace(report, error=brief(report.error))
        elif absence.is_gone(running, host, observation.now):
            new[host] = PhaseReport(observation.now, absence.error(running))
    return replace(stage, reports={**stage.reports, **new}, moved=observation.now) if new else stage


def _let_in(stage: ActivePhase, width: int, observation: RolloutObservation) -> ActivePhase:
    room = width - len(stage.granted) + len(stage.reports)
    waiting = [host for host in stage.task.hosts if host not in stage.granted and host in observation.present]
    if room <= 0 or not waiting:
        return stage
    new = dict.fromkeys(waiting[:room], observation.now)
    return replace(stage, granted={**stage.granted, **new}, moved=observation.now)


def _limits(running: RolloutState, stage: ActivePhase) -> Iterator[tuple[float, str]]:
    """Return when the phase is out of time, and the words that end a sentence on it."""
    strategy, task = running.rollout.strategy, stage.task
    return timekeeping.limits(
        strategy, strategy.group(task.group), task.phase, begun=stage.begun, moved=stage.moved
    )


def _finish(
    running: RolloutState, stage: ActivePhase, group: Group, observation: RolloutObservation
) -> RolloutState:
    """Judge a phase of which all hosts have reported; after the bake, where the group has one."""
    ancestor = engine.failed_ancestor(running.rollout, group.name)
    bakes = stage.task.phase is Phase.DEPLOY and group.pace.bake_time > 0 and not _is_closed(running, stage)
    hosts = _proving(running, stage) if bakes else frozenset()
    if not hosts:
        return _judge(running, stage, _errors(stage), "" if ancestor is None else f"{ancestor} failed")
    if stage.baking is None:
        return replace(running, stage=replace(stage, baking=observation.now))
    restarting = [
        host
        for host in hosts
        if host not in observation.present and not absence.is_gone(running, host, observation.now)
    ]
    if restarting or observation.now < stage.baking + group.pace.bake_time:
        return running if stage is running.stage else replace(running, stage=stage)
    spoiled = _spoiled(running, hosts, observation)
    running = replace(running, proven=running.proven | (hosts - spoiled.keys()))
    return _judge(running, stage, spoiled | _errors(stage))


def _proving(running: RolloutState, stage: ActivePhase) -> frozenset[str]:
    """Return the hosts of a group that have the revision, and were not watched with it for the time of a bake."""
    states = running.rollout.hosts
    had = {
        host for host in running.rollout.members[stage.task.group] if states[host] is HostProgress.SUCCESS
    } - running.proven
    return frozenset(had.union(host for host, report in stage.reports.items() if report.error is None))


def _spoiled(running: RolloutState, hosts: frozenset[str], observation: RolloutObservation) -> dict[str, str]:
    """Return the hosts that had to prove themselves and did not stay well, with the reasons."""
    failing = dict.fromkeys(
        sorted(observation.failing & hosts), "it showed an error, or lost the revision, after its deployment"
    )
    gone = sorted(hosts - observation.present.keys())
    return failing | dict.fromkeys(gone, f"{absence.error(running)}, since its deployment")


def _errors(stage: ActivePhase, fault: str = "") -> dict[str, str]:
    """Return the hosts that failed; those that did not end are such because of the ``fault``."""
    found = {host: report.error for host, report in stage.reports.items() if report.error is not None}
    late = dict.fromkeys(stage.granted.keys() - stage.reports.keys(), f"{stage.task.phase.value}: {fault}")
    return found | late


def _judge(running: RolloutState, stage: ActivePhase, errors: Mapping[str, str], fault: str = "") -> RolloutState:
    """Judge the group; a host that never entered the phase was not submitted."""
    task = replace(stage.task, hosts=tuple(host for host in stage.task.hosts if host in stage.granted))
    spoiled = errors.keys() - task.hosts
    rollout = engine.record(running.rollout, task, set(task.hosts) - errors.keys(), fault=fault, spoiled=spoiled)
    return replace(running, rollout=rollout, stage=None, errors={**running.errors, **errors})
