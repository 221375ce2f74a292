"""Decides which hosts enter the active phase of a group, how their reports change it, and when it ends.

The variable ``active`` is always the ``ActivePhase`` of the state, before or during the decision.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.strategies import state_machine, timekeeping
from zkdeployment.strategies.criteria import HEALTHY_CHECKS, Judgement, proving, proving_in
from zkdeployment.strategies.group_analysis import METRICS, has_passed_before
from zkdeployment.strategies.permission import Grant, Phase, PhaseReport
from zkdeployment.strategies.state_machine import GroupVerdict, Task

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.strategies.state import ActivePhase, RolloutFacts, RolloutState
    from zkdeployment.strategies.strategy import Group

#: The criteria that wait for something outside of the rollout, and decide from its facts. Other criteria read a
#: ``Judgement`` instead of facts.
CRITERIA = (HEALTHY_CHECKS, METRICS)

#: Characters of an error that are kept: the state fits into one node even if thousands of hosts fail.
_LONGEST_ERROR = 200


def advance(state: RolloutState, active: ActivePhase, facts: RolloutFacts) -> RolloutState:
    """Return the state after the reports of hosts: the phase gets its verdict, or further hosts enter it.

    The active phase is the same object if nothing changed. The result has no active phase if the phase got its
    verdict or waits for an operator, or if the group's required hosts left before any host entered the phase.
    """
    group = state.rollout.strategy.group(active.task.group)
    for criterion in CRITERIA:
        state = criterion.note(state, active, facts)
    active = _update_hosts(state, _record_reports(state, active, facts), facts)
    if not active.granted and timekeeping.shortage(state, group.name):
        return replace(state, active_phase=None)
    if all(host in active.reports for host in active.task.hosts):
        return _finish(state, active, group, facts)
    if state.halted_since is None:
        for deadline, ending in _limits(state, active):
            if facts.now >= deadline:
                undone = len(active.task.hosts) - len(active.reports)
                noun = state.kind.noun
                fault = f"{undone} of {len(active.task.hosts)} {noun}s did not end{ending}"
                return _judge(state, active, _errors(active, fault), fault)
        active = _grant_phase(active, state_machine.width(state.rollout, group.name), facts)
    return state if active is state.active_phase else replace(state, active_phase=active)


def moments(state: RolloutState, active: ActivePhase, facts: RolloutFacts) -> Iterator[float]:
    """Return the times at which the state changes without any event, in seconds since the epoch."""
    group = state.rollout.strategy.group(active.task.group)
    halted = state.halted_since is not None
    if active.baking_since is not None:
        away = {host for host in state.absent.keys() & proving(state) if not _is_gone_for_good(state, host)}
        if not (halted and away):
            judgements = _judgements(state, active, proving(state), facts)
            yield from (moment for judgement in judgements for moment in judgement.moments)
            if not any(judgement.is_pending for judgement in judgements):
                gone = (timekeeping.moment(state, host) for host in away)
                yield max([active.baking_since + group.pace.bake_time, *gone])
    elif not halted:
        yield from (moment for moment, _ in _limits(state, active))
    if not halted:
        waited_for = state.absent.keys() & active.task.hosts - active.reports.keys()
        yield from (timekeeping.moment(state, host) for host in waited_for)


def _is_gone_for_good(state: RolloutState, host: str) -> bool:
    """Whether a host was gone before the current halt began, so that the end of the halt changes nothing."""
    return state.halted_since is not None and timekeeping.is_gone(state, host, state.halted_since)


def awaited(state: RolloutState) -> list[tuple[Phase, str]]:
    """Return the reports that are expected now, as pairs of phase and host."""
    late = [(phase, host) for host, phase in state.late_joiners.items()]
    if state.active_phase is None:
        return late
    phase = state.active_phase.task.phase
    return late + [(phase, host) for host in state.active_phase.granted.keys() - state.active_phase.reports.keys()]


def tolerated(state: RolloutState) -> Mapping[str, Grant]:
    """Return withdrawn grants for the hosts that failed in the active phase while their group may succeed."""
    active = state.active_phase
    if active is None or _is_closed(state, active):
        return {}
    failed = {host: report.error for host, report in active.reports.items() if report.error is not None}
    return {host: Grant(active.task.group, None, error) for host, error in failed.items()}


def brief(error: str) -> str:
    """Return an error, shortened to the length that is kept."""
    return error if len(error) <= _LONGEST_ERROR else error[: _LONGEST_ERROR - 1] + "…"


def _update_hosts(state: RolloutState, active: ActivePhase, facts: RolloutFacts) -> ActivePhase:
    """Return the active phase with its current hosts: those that entered it, and those that still may.

    A host that is gone may not enter. After a deadline, the phase no longer waits for absent hosts. Once the group
    is certain to miss its criteria, no further host enters, and the phase ends when the hosts that entered it have
    reported.
    """
    eligible = state_machine.eligible_hosts(state.rollout, active.task.group, active.task.phase)
    over = state.halted_since is None and any(facts.now >= moment for moment, _ in _limits(state, active))
    if _is_closed(state, active) or (over and active.baking_since is not None):
        left_out: Collection[str] = frozenset(eligible)
    elif over:
        left_out = {host for host in eligible if host not in facts.present}
    else:
        left_out = {host for host in state.absent if timekeeping.is_gone(state, host, facts.now)}
    hosts = tuple(host for host in eligible if host in active.granted or host not in left_out)
    if hosts == active.task.hosts:
        return active
    return replace(active, task=replace(active.task, hosts=hosts), baking_since=None)


def _is_closed(state: RolloutState, active: ActivePhase) -> bool:
    failed = {host for host, report in active.reports.items() if report.error is not None}
    return state_machine.is_closed(state.rollout, active.task, begun=bool(active.granted), failed=failed)


def _record_reports(state: RolloutState, active: ActivePhase, facts: RolloutFacts) -> ActivePhase:
    new = {}
    for host in active.granted.keys() - active.reports.keys():
        report = facts.reports.get((active.task.phase, host))
        if report is not None:
            new[host] = report if report.error is None else replace(report, error=brief(report.error))
        elif timekeeping.is_gone(state, host, facts.now):
            new[host] = PhaseReport(facts.now, timekeeping.error(state))
    return replace(active, reports={**active.reports, **new}, last_progress=facts.now) if new else active


def _grant_phase(active: ActivePhase, width: int, facts: RolloutFacts) -> ActivePhase:
    room = width - len(active.granted) + len(active.reports)
    waiting = [host for host in active.task.hosts if host not in active.granted and host in facts.present]
    if room <= 0 or not waiting:
        return active
    new = dict.fromkeys(waiting[:room], facts.now)
    return replace(active, granted={**active.granted, **new}, last_progress=facts.now)


def _limits(state: RolloutState, active: ActivePhase) -> Iterator[tuple[float, str]]:
    """Return the deadlines of the active phase, each with the end of its error message."""
    strategy, task = state.rollout.strategy, active.task
    return timekeeping.limits(
        strategy, strategy.group(task.group), task.phase, begun=active.begun, last_progress=active.last_progress
    )


def _finish(state: RolloutState, active: ActivePhase, group: Group, facts: RolloutFacts) -> RolloutState:
    """Return the state after all hosts have reported: with a verdict, or within the group's bake time."""
    ancestor = state_machine.failed_ancestor(state.rollout, group.name)
    bakes = active.task.phase is Phase.DEPLOY and group.pace.bake_time > 0 and not _is_closed(state, active)
    hosts = proving_in(state, active) if bakes and not has_passed_before(state, active) else frozenset()
    hosts -= frozenset(facts.maintenance)
    if not hosts:
        return _judge(state, active, _errors(active), "" if ancestor is None else f"{ancestor} failed")
    if active.baking_since is None:
        return replace(state, active_phase=replace(active, baking_since=facts.now))
    restarting = [
        host for host in hosts if host not in facts.present and not timekeeping.is_gone(state, host, facts.now)
    ]
    judgements = _judgements(state, active, hosts, facts)
    if fault := "; ".join(judgement.fault for judgement in judgements if judgement.fault):
        return _judge(state, active, _errors(active), fault)
    pending = any(judgement.is_pending for judgement in judgements)
    if restarting or pending or not timekeeping.baked(state, active, facts.now):
        return state if active is state.active_phase else replace(state, active_phase=active)
    spoiled = _spoiled(state, hosts, facts, judgements)
    judged = _judge(state, active, spoiled | _errors(active))
    if judged.rollout.progress[group.name].verdict is GroupVerdict.SUCCESS and any(
        judgement.held for judgement in judgements
    ):
        return _hold(state, active, spoiled | _errors(active))
    return replace(judged, proven=state.proven | (hosts - spoiled.keys()))


def _judgements(
    state: RolloutState, active: ActivePhase, hosts: Collection[str], facts: RolloutFacts
) -> list[Judgement]:
    judgements = [criterion.judge(state, active, hosts, facts) for criterion in CRITERIA]
    return judgements + [fact for fact in facts.outside.values() if isinstance(fact, Judgement)]


def _spoiled(
    state: RolloutState,
    hosts: frozenset[str],
    facts: RolloutFacts,
    judgements: Iterable[Judgement],
) -> dict[str, str]:
    """Return the errors of hosts that did not stay healthy during their bake time."""
    noun = state.kind.noun
    error = f"the {noun} showed an error or lost the revision after its deployment"
    failing = dict.fromkeys(sorted(facts.failing & hosts), error)
    gone = sorted(hosts - facts.present.keys())
    for judgement in judgements:
        failing |= {host: brief(judgement.errors[host]) for host in sorted(hosts & judgement.errors.keys())}
    return failing | dict.fromkeys(gone, f"{timekeeping.error(state)}, since its deployment")


def _errors(active: ActivePhase, fault: str = "") -> dict[str, str]:
    """Return the errors by host; a host that has not reported failed because of the ``fault``."""
    reported = {host: report.error for host, report in active.reports.items() if report.error is not None}
    unfinished = dict.fromkeys(
        active.granted.keys() - active.reports.keys(), f"{active.task.phase.value}: {fault}"
    )
    return reported | unfinished


def _judge(state: RolloutState, active: ActivePhase, errors: Mapping[str, str], fault: str = "") -> RolloutState:
    """Return the state with the phase's verdict; hosts that never entered the phase were not submitted."""
    task, succeeded, spoiled = _outcomes(active, errors)
    rollout = state_machine.record(state.rollout, task, succeeded, fault=fault, spoiled=spoiled)
    return replace(state, rollout=rollout, active_phase=None, errors={**state.errors, **errors})


def _hold(state: RolloutState, active: ActivePhase, errors: Mapping[str, str]) -> RolloutState:
    """Return the state in which the group waits for an operator, while other groups may begin."""
    rollout = state_machine.hold(state.rollout, *_outcomes(active, errors))
    return replace(state, rollout=rollout, active_phase=None, errors={**state.errors, **errors})


def _outcomes(active: ActivePhase, errors: Mapping[str, str]) -> tuple[Task, set[str], set[str]]:
    """Return the task with the hosts that entered it, those of them that succeeded, and others that failed."""
    task = replace(active.task, hosts=tuple(host for host in active.task.hosts if host in active.granted))
    return task, set(task.hosts) - errors.keys(), errors.keys() - task.hosts
