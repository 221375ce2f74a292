"""Late joiners: hosts that register after all their groups succeeded.

A late joiner runs both phases under the limits of its groups, and its outcome counts for their criteria.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import absence, engine, tasks, timekeeping
from zkdeployment.rollout.groups import members
from zkdeployment.rollout.permission import Grant, Phase, PhaseReport
from zkdeployment.rollout.phases import brief
from zkdeployment.rollout.state import Ending
from zkdeployment.rollout.state_machine import NEXT_PHASE, PHASE_RULES, GroupVerdict, HostProgress, RolloutResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.rollout.state import RolloutObservation, RolloutState
    from zkdeployment.rollout.state_machine import Rollout


def is_open(state: RolloutState) -> bool:
    """Whether hosts may still enter: the rollout is under way, or ended without stopping the fleet."""
    completed = state.ending is Ending.COMPLETED and state.rollout.result is not RolloutResult.FAILED
    return state.ended is None or completed


def close(state: RolloutState) -> RolloutState:
    """Return the rollout without late joiners, absences and halt if no host may enter any more."""
    return (
        state if is_open(state) else replace(state, late_joiners={}, late_since={}, absent={}, halted_since=None)
    )


def record_reports(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Return the rollout with the reports of late joiners; a group that now misses its criteria fails."""
    reports = {
        host: report
        for host, phase in state.late_joiners.items()
        if (report := _report(state, host, phase, observation)) is not None
    }
    if not reports:
        return state
    errors = {host: brief(report.error) for host, report in reports.items() if report.error is not None}
    reached = {host: PHASE_RULES[state.late_joiners[host]].reached for host in reports}
    states = reached | dict.fromkeys(errors, HostProgress.FAILURE)
    rollout = replace(state.rollout, hosts={**state.rollout.hosts, **states})
    under_way = None if state.active_phase is None else state.active_phase.task.group
    return close(
        replace(
            state,
            rollout=engine.rejudge(rollout, errors.keys(), under_way),
            late_joiners={host: phase for host, phase in state.late_joiners.items() if host not in reports},
            late_since={host: when for host, when in state.late_since.items() if host not in reports},
            errors={**state.errors, **errors},
        )
    )


def grant_phases(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Return the rollout with the late joiners that enter a phase now, prepared hosts first."""
    if state.halted_since is not None or not is_open(state):
        return state
    rollout, states = state.rollout, state.rollout.hosts
    joined = _joined(state, observation)
    busy = Counter(name for host in state.late_joiners for name in _groups(rollout, host))
    new: dict[str, Phase] = {}
    for host in sorted(joined, key=lambda host: (states[host] is HostProgress.NOT_STARTED, host)):
        if all(busy[name] < tasks.width(rollout, name) for name in joined[host]):
            busy.update(joined[host])
            new[host] = NEXT_PHASE[states[host]]
    entered = {host: state.late_since.get(host, observation.now) for host in [*state.late_joiners, *new]}
    if not new and entered == state.late_since:
        return state
    whole = {
        name: hosts | {host for host in new if name in joined[host]} for name, hosts in rollout.members.items()
    }
    return replace(
        state,
        rollout=replace(rollout, members=whole),
        late_joiners={**state.late_joiners, **new},
        late_since=entered,
    )


def grants(state: RolloutState) -> dict[str, Grant]:
    """Return the grants of late joiners, by host."""
    return {host: Grant(_groups(state.rollout, host)[0], phase) for host, phase in state.late_joiners.items()}


def moments(state: RolloutState) -> Iterator[float]:
    """Return when the passage of time changes the state, in seconds since the epoch."""
    if state.halted_since is None:
        for host, phase in state.late_joiners.items():
            yield from (moment for moment, _ in _limits(state, host, phase))
        yield from (absence.moment(state, host) for host in state.late_joiners.keys() & state.absent.keys())


def _report(state: RolloutState, host: str, phase: Phase, observation: RolloutObservation) -> PhaseReport | None:
    report = observation.reports.get((phase, host))
    if report is not None:
        return report
    if absence.is_gone(state, host, observation.now):
        return PhaseReport(observation.now, absence.error(state))
    for deadline, ending in _limits(state, host, phase):
        if state.halted_since is None and observation.now >= deadline:
            return PhaseReport(observation.now, f"{phase.value}: it did not end{ending}")
    return None


def _limits(state: RolloutState, host: str, phase: Phase) -> Iterator[tuple[float, str]]:
    """Return the deadlines of a late joiner in its phase, which are those of its first group."""
    entered = state.late_since.get(host)
    if entered is not None:
        strategy = state.rollout.strategy
        group = strategy.group(_groups(state.rollout, host)[0])
        yield from timekeeping.limits(strategy, group, phase, begun=entered, last_progress=entered)


def _groups(rollout: Rollout, host: str) -> list[str]:
    """Return the groups of a host, in the order of the document."""
    return [group.name for group in rollout.strategy.groups if host in rollout.members[group.name]]


def _joined(state: RolloutState, observation: RolloutObservation) -> Mapping[str, list[str]]:
    """Return the hosts that may enter, each with its groups; the host may not be a member of all of them yet.

    A host with a group that has no verdict runs with that group. A host with a failed group does not run.
    """
    rollout = state.rollout
    verdicts = {name: progress.verdict for name, progress in rollout.progress.items()}
    if GroupVerdict.SUCCESS not in verdicts.values():
        return {}
    not_successful = [name for name, verdict in verdicts.items() if verdict is not GroupVerdict.SUCCESS]
    others = frozenset[str]().union(*(rollout.members[name] for name in not_successful), state.late_joiners)
    came = {
        host: observation.present[host]
        for host, progress in rollout.hosts.items()
        if host not in others and progress in NEXT_PHASE and host in observation.present
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
