"""Hosts that come when their rollout is over: they are let through one by one, and what they do stops nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout.engine import HostState, Phase, Result, Verdict
from zkdeployment.rollout.groups import members
from zkdeployment.rollout.phases import brief
from zkdeployment.rollout.running import Ending, Grant

if TYPE_CHECKING:
    from zkdeployment.rollout.running import Running, World

_FIRST = {HostState.NOT_STARTED: Phase.PREPARE, HostState.PREPARED: Phase.DEPLOY}
_REACHED = {Phase.PREPARE: HostState.PREPARED, Phase.DEPLOY: HostState.SUCCESS}


def is_open(running: Running) -> bool:
    """Whether hosts may still come: after an end that stopped nothing."""
    return running.ending is Ending.COMPLETED and running.rollout.result is not Result.FAILED


def let_through(running: Running, world: World) -> Running:
    """Take in what late hosts report, and let in those that came."""
    if not is_open(running):
        return running
    running = _take_reports(running, world)
    return _let_in(running, world) if world.active else running


def grants(running: Running) -> dict[str, Grant]:
    """Return what late hosts may enter."""
    rollout = running.rollout
    succeeded = [
        one.name for one in rollout.strategy.groups if rollout.courses[one.name].verdict is Verdict.SUCCESS
    ]
    return {
        host: Grant(next(name for name in succeeded if host in rollout.members[name]), phase)
        for host, phase in running.late.items()
    }


def _take_reports(running: Running, world: World) -> Running:
    late, states, errors = dict(running.late), {}, {}
    for host in running.late:
        while host in late and (report := world.reports.get((late[host], host))) is not None:
            phase = late.pop(host)
            states[host] = _REACHED[phase] if report.error is None else HostState.FAILURE
            if report.error is not None:
                errors[host] = brief(report.error)
            elif phase is Phase.PREPARE:
                late[host] = Phase.DEPLOY
    if not states:
        return running
    rollout = replace(running.rollout, hosts={**running.rollout.hosts, **states})
    return replace(running, rollout=rollout, late=late, errors={**running.errors, **errors})


def _let_in(running: Running, world: World) -> Running:
    """Let in hosts of groups that succeeded, unless another of their groups failed."""
    rollout = running.rollout
    came = {
        host: world.present[host]
        for host, state in rollout.hosts.items()
        if state in _FIRST and host in world.present and host not in running.late
    }
    if not came:
        return running
    # Some registered when their groups were judged already, and are no members yet.
    joined = {
        group.name: members(group, came) | (rollout.members[group.name] & came.keys())
        for group in rollout.strategy.groups
    }
    verdicts = {name: course.verdict for name, course in rollout.courses.items()}
    failed = {host for name, found in joined.items() if verdicts[name] is Verdict.FAILED for host in found}
    good = {host for name, found in joined.items() if verdicts[name] is Verdict.SUCCESS for host in found}
    new = {host: _FIRST[rollout.hosts[host]] for host in sorted(good - failed)}
    if not new:
        return running
    whole = {name: found | joined[name] for name, found in rollout.members.items()}
    return replace(running, rollout=replace(rollout, members=whole), late={**running.late, **new})
