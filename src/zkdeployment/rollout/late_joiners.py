"""Late hosts: those that come, or come back, after all their groups were judged, and these succeeded.

They enter both phases under the limits of their groups, and count by the criteria of these.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import absence, engine, timekeeping
from zkdeployment.rollout.engine import GroupVerdict, HostProgress, Phase, RolloutResult
from zkdeployment.rollout.groups import members
from zkdeployment.rollout.phases import brief
from zkdeployment.rollout.state import Ending, Grant, PhaseReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.rollout.engine import Rollout
    from zkdeployment.rollout.state import RolloutObservation, RolloutState

_FIRST = {HostProgress.NOT_STARTED: Phase.PREPARE, HostProgress.PREPARED: Phase.DEPLOY}
_REACHED = {Phase.PREPARE: HostProgress.PREPARED, Phase.DEPLOY: HostProgress.SUCCESS}


def is_open(running: RolloutState) -> bool:
    """Whether late hosts may enter: while the rollout is under way, and after an end that stopped nothing."""
    completed = running.ending is Ending.COMPLETED and running.rollout.result is not RolloutResult.FAILED
    return running.ended is None or completed


def close(running: RolloutState) -> RolloutState:
    """Return the rollout without late hosts, and what they wait for, if none may enter any more."""
    return running if is_open(running) else replace(running, late={}, entered={}, absent={}, held=None)


def take_reports(running: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Return the rollout with what late hosts report; a group that misses its criteria by that failed."""
    reports = {
        host: report
        for host, phase in running.late.items()
        if (report := _report(running, host, phase, observation)) is not None
    }
    if not reports:
        return running
    errors = {host: brief(report.error) for host, report in reports.items() if report.error is not None}
    states = {host: HostProgress.FAILURE if host in errors else _REACHED[running.late[host]] for host in reports}
    rollout = replace(running.rollout, hosts={**running.rollout.hosts, **states})
    under_way = None if running.stage is None else running.stage.task.group
    return close(
        replace(
            running,
            rollout=engine.rejudge(rollout, errors.keys(), under_way),
            late={host: phase for host, phase in running.late.items() if host not in reports},
            entered={host: when for host, when in running.entered.items() if host not in reports},
            errors={**running.errors, **errors},
        )
    )


def let_in(running: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Return the rollout with the late hosts that enter a phase now; those first that are prepared."""
    if running.held is not None or not is_open(running):
        return running
    rollout, states = running.rollout, running.rollout.hosts
    joined = _joined(running, observation)
    busy = Counter(name for host in running.late for name in _groups(rollout, host))
    new: dict[str, Phase] = {}
    for host in sorted(joined, key=lambda host: (states[host] is HostProgress.NOT_STARTED, host)):
        if all(busy[name] < engine.width(rollout, name) for name in joined[host]):
            busy.update(joined[host])
            new[host] = _FIRST[states[host]]
    entered = {host: running.entered.get(host, observation.now) for host in [*running.late, *new]}
    if not new and entered == running.entered:
        return running
    whole = {
        name: found | {host for host in new if name in joined[host]} for name, found in rollout.members.items()
    }
    return replace(running, rollout=replace(rollout, members=whole), late={**running.late, **new}, entered=entered)


def grants(running: RolloutState) -> dict[str, Grant]:
    """Return what late hosts may enter."""
    return {host: Grant(_groups(running.rollout, host)[0], phase) for host, phase in running.late.items()}


def moments(running: RolloutState) -> Iterator[float]:
    """Return when time alone changes something, in seconds since the epoch."""
    if running.held is None:
        for host, phase in running.late.items():
            yield from (moment for moment, _ in _limits(running, host, phase))
        yield from (absence.moment(running, host) for host in running.late.keys() & running.absent.keys())


def _report(running: RolloutState, host: str, phase: Phase, observation: RolloutObservation) -> PhaseReport | None:
    report = observation.reports.get((phase, host))
    if report is not None:
        return report
    if absence.is_gone(running, host, observation.now):
        return PhaseReport(observation.now, absence.error(running))
    for moment, words in _limits(running, host, phase):
        if running.held is None and observation.now >= moment:
            return PhaseReport(observation.now, f"{phase.value}: it did not end{words}")
    return None


def _limits(running: RolloutState, host: str, phase: Phase) -> Iterator[tuple[float, str]]:
    """Return when a late host is out of time in its phase; each has the time that its group has."""
    entered = running.entered.get(host)
    if entered is not None:
        strategy = running.rollout.strategy
        group = strategy.group(_groups(running.rollout, host)[0])
        yield from timekeeping.limits(strategy, group, phase, begun=entered, moved=entered)


def _groups(rollout: Rollout, host: str) -> list[str]:
    """Return the groups of a host, in the order of the document."""
    return [group.name for group in rollout.strategy.groups if host in rollout.members[group.name]]


def _joined(running: RolloutState, observation: RolloutObservation) -> Mapping[str, list[str]]:
    """Return the hosts that may enter, with their groups, of which some are no members yet.

    A host that has a group which is not judged goes with that; one that has a group which failed does not go.
    """
    rollout = running.rollout
    verdicts = {name: course.verdict for name, course in rollout.courses.items()}
    if GroupVerdict.SUCCESS not in verdicts.values():
        return {}
    judged_otherwise = [name for name, verdict in verdicts.items() if verdict is not GroupVerdict.SUCCESS]
    others = frozenset[str]().union(*(rollout.members[name] for name in judged_otherwise), running.late)
    came = {
        host: observation.present[host]
        for host, state in rollout.hosts.items()
        if host not in others and state in _FIRST and host in observation.present
    }
    if not came:
        return {}
    joined: dict[str, list[str]] = {host: [] for host in came}
    for group in rollout.strategy.groups:
        for host in members(group, came) | (rollout.members[group.name] & came.keys()):
            joined[host].append(group.name)
    return {
        host: names
        for host, names in joined.items()
        if names and all(verdicts[name] is GroupVerdict.SUCCESS for name in names)
    }
