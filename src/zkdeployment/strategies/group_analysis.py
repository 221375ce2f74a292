"""The criterion ``analysis``: which measurements of a rollout are due, and how their answers change the rollout.

The state machine of one metric is in ``analysis``. Measurements are taken outside; a coordinator that succeeds
another one asks again for what was not recorded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.values import dataclass
from zkdeployment.strategies.analysis import (
    AnalysisMetric,
    GroupAnalysis,
    MetricProgress,
    MetricStage,
    Reading,
    comparable,
    describe_failure,
    describe_waiting,
    measure,
    next_due,
    number_due,
    settle,
    take,
)
from zkdeployment.strategies.criteria import Criterion, Judgement
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress, Rollout
from zkdeployment.strategies.strategy import Group, MemberKind, Strategy
from zkdeployment.strategies.timekeeping import bake_elapsed, note_coordination

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from zkdeployment.base.cluster import Revision
    from zkdeployment.strategies.queries import QueryVariables
    from zkdeployment.strategies.state import ActivePhase, RolloutFacts, RolloutState

#: The name of the criterion.
ANALYSIS = "analysis"


class MetricKey(NamedTuple):
    """Identifies a measurement; the number ``None`` is the value before the deploy phase."""

    rollout: str
    group: str
    metric: str
    number: int | None


@dataclass(frozen=True, slots=True)
class MetricRequest:
    """A measurement that is due, ``at`` a time on the clock of the analysis, which is ``asked`` since the epoch.

    ``hosts`` are those of the group, ``others`` the hosts outside of it that do not have the revision, both by id.
    ``kind`` is what they are. The query is evaluated at ``time`` in seconds since the epoch, or else at present.
    A request that ``is_ahead`` only finds the values of variables. The request for the measurement before the
    deploy phase then has them as ``variables``.
    """

    key: MetricKey
    metric: AnalysisMetric
    metrics: tuple[AnalysisMetric, ...]
    at: float
    asked: float
    hosts: frozenset[str]
    others: frozenset[str]
    revision: Revision
    time: float | None = None
    is_ahead: bool = False
    kind: MemberKind = MemberKind.HOST
    variables: QueryVariables | None = None


@dataclass(frozen=True, slots=True)
class MetricAnswer:
    """The answer to a request: the reading, and the source; ``at`` and ``asked`` are those of the request.

    ``time`` is when it was answered, in seconds since the epoch. ``graph`` is the address of the server's own
    graphs, if it has one.
    """

    at: float
    asked: float
    time: float
    reading: Reading
    server: str = ""
    variables: QueryVariables | None = None
    graph: str = ""


def due_requests(state: RolloutState, now: float) -> tuple[MetricRequest, ...]:
    """Return the measurements of the active phase that are due now; a halted rollout has none.

    A time without a coordinator does not count, even if the rollout does not contain that gap yet.
    """
    state = note_coordination(state, now)
    active = state.active_phase
    if active is None or state.halted_since is not None:
        return ()
    group = state.rollout.strategy.group(active.task.group)
    return tuple(_requests(state, active, group, now)) if group.pace.analysis else ()


def _requests(state: RolloutState, active: ActivePhase, group: Group, now: float) -> Iterator[MetricRequest]:
    analysis = state.analyses.get(group.name, GroupAnalysis())
    at = bake_elapsed(state, active, now)
    hosts = state.rollout.members[group.name]
    others = frozenset(
        host
        for host, progress in state.rollout.hosts.items()
        if progress is not HostProgress.SUCCESS and host not in hosts
    )
    kind = state.kind
    if active.task.phase is Phase.PREPARE:
        for metric in [metric for metric in group.pace.analysis if metric.uses("before")][:1]:
            key = MetricKey(state.id, group.name, "", None)
            yield MetricRequest(
                key, metric, group.pace.analysis, 0.0, now, hosts, others, state.revision, is_ahead=True, kind=kind
            )
        return
    for metric in group.pace.analysis:
        progress = analysis.progress(metric)
        number, time = None, None
        if metric.uses("before") and progress.before_at is None:
            # Pauses move the begin of the phase, but not the times at which hosts entered it.
            time = min([now, active.begun, *active.granted.values()])
        elif at is not None:
            number = number_due(metric, progress, group.pace.analysis_clock, at)
        if number is not None or time is not None:
            key = MetricKey(state.id, group.name, metric.name, number)
            yield MetricRequest(
                key,
                metric,
                group.pace.analysis,
                at or 0.0,
                now,
                hosts,
                others,
                state.revision,
                time,
                kind=kind,
                variables=analysis.before if number is None else None,
            )


def _note(state: RolloutState, active: ActivePhase, facts: RolloutFacts) -> RolloutState:
    """Return the rollout with the answers to its requests, and with the stages that follow from the time."""
    group = state.rollout.strategy.group(active.task.group)
    if not group.pace.analysis:
        return state
    before = state.analyses.get(group.name, GroupAnalysis())
    analysis = before
    answers: Mapping[MetricKey, MetricAnswer] = facts.outside.get(ANALYSIS, {})
    ahead = MetricKey(state.id, group.name, "", None)
    if active.task.phase is Phase.PREPARE:
        analysis = replace(before, before=answers[ahead].variables) if ahead in answers else before
        return state if analysis == before else replace(state, analyses={**state.analyses, group.name: analysis})
    for key in sorted(key for key in answers if key[:2] == ahead[:2] and key.number is None and key != ahead):
        analysis = _with_before(analysis, key.metric, answers[key])
    if all(analysis.progress(each).before_at for each in group.pace.analysis if each.uses("before")):
        analysis = replace(analysis, before=None)
    at = bake_elapsed(state, active, facts.now)
    if at is None and not has_passed_before(state, active):  # a bake time that starts again is measured again
        analysis = replace(
            analysis, metrics={name: _anew(each) for name, each in analysis.metrics.items()}, promoted=False
        )
    elif at is not None:
        for metric in group.pace.analysis:
            taken = (
                sorted(
                    (key.number, answers[key])
                    for key in answers
                    if key[:3] == (state.id, group.name, metric.name) and is_open(state, key, answers[key])
                    if key.number is not None
                )
                if answers
                else ()
            )
            for number, answer in taken:
                if metric.due(number) > at:  # asked before a gap that does not count
                    break
                analysis = _with_measurement(analysis, metric, number, answer)
            clock, begun = group.pace.analysis_clock, facts.now - at
            settled = settle(metric, analysis.progress(metric), clock, at, begun=begun)
            analysis = replace(analysis, metrics={**analysis.metrics, metric.name: settled})
    return state if analysis == before else replace(state, analyses={**state.analyses, group.name: analysis})


def is_open(state: RolloutState, key: MetricKey, answer: MetricAnswer) -> bool:
    """Whether the rollout still needs this answer; one that was asked before the present bake time is dropped."""
    active = state.active_phase
    if active is None or key[:2] != (state.id, active.task.group):
        return False
    analysis = state.analyses.get(key.group, GroupAnalysis())
    if not key.metric:  # the variables for the value before the deploy phase
        return active.task.phase is Phase.PREPARE and answer.variables != analysis.before
    progress = analysis.metrics.get(key.metric, MetricProgress())
    if key.number is None:
        return progress.before_at is None
    is_current = active.baking_since is not None and answer.asked >= active.baking_since
    return is_current and key.number >= progress.next


def _anew(progress: MetricProgress) -> MetricProgress:
    return MetricProgress(before=progress.before, before_at=progress.before_at)


def kept_analyses(
    rollout: Rollout, analyses: Mapping[str, GroupAnalysis], strategy: Strategy, had: Collection[str]
) -> Mapping[str, GroupAnalysis]:
    """Return the analyses that the next attempt keeps, of groups that are the same in its strategy.

    A group that succeeded keeps its analysis. Another one keeps the values before the deploy phase if one of its
    hosts is among those that ``had`` the revision: the same query would measure the revision itself.
    """
    kept = {}
    for name, analysis in analyses.items():
        if rollout.strategy.group(name) not in strategy.groups:
            continue
        if rollout.progress[name].verdict is GroupVerdict.SUCCESS:
            kept[name] = analysis
        elif not rollout.members[name].isdisjoint(had):
            known = {
                metric: _anew(each) for metric, each in analysis.metrics.items() if each.before_at is not None
            }
            kept |= {name: GroupAnalysis(known)} if known else {}
    return kept


def has_passed_before(state: RolloutState, active: ActivePhase) -> bool:
    """Whether an earlier attempt let the group pass by its analysis, and all its hosts stayed healthy since."""
    name, states = active.task.group, state.rollout.hosts
    if active.task.hosts or active.baking_since is not None or name not in state.analyses:
        return False
    had = {host for host in state.rollout.members[name] if states[host] is HostProgress.SUCCESS}
    return had <= state.proven and _has_passed(state.rollout.strategy.group(name), state.analyses[name])


def _has_passed(group: Group, analysis: GroupAnalysis) -> bool:
    deciding = [metric for metric in group.pace.analysis if not metric.dry_run]
    return analysis.promoted or all(analysis.progress(each).stage is MetricStage.PASSED for each in deciding)


def _with_before(analysis: GroupAnalysis, metric: str, answer: MetricAnswer) -> GroupAnalysis:
    progress = analysis.metrics.get(metric, MetricProgress())
    if progress.before_at is not None:
        return analysis
    known = replace(progress, before=comparable(answer.reading.value), before_at=answer.time)
    return replace(analysis, metrics={**analysis.metrics, metric: known})


def _with_measurement(
    analysis: GroupAnalysis, metric: AnalysisMetric, number: int, answer: MetricAnswer
) -> GroupAnalysis:
    progress = analysis.progress(metric)
    if number < progress.next or progress.is_final:
        return analysis
    analysis, variables = analysis.remembering(answer.variables)
    if answer.graph and analysis.graphs.get(answer.server) != answer.graph:
        analysis = replace(analysis, graphs={**analysis.graphs, answer.server: answer.graph})
    measurement = measure(metric, answer.reading, progress.before, at=answer.at, time=answer.time)
    measurement = replace(measurement, server=answer.server, variables=variables)
    taken = take(metric, progress, measurement, number)
    return replace(analysis, metrics={**analysis.metrics, metric.name: taken})


def _judge(state: RolloutState, active: ActivePhase, _hosts: Collection[str], facts: RolloutFacts) -> Judgement:
    group = state.rollout.strategy.group(active.task.group)
    analysis = state.analyses.get(group.name)
    if not group.pace.analysis or analysis is None:
        return Judgement()
    fault = describe_failure(group.pace.analysis, analysis.metrics) or analysis.rejection
    if fault or analysis.promoted:
        return Judgement(fault=fault)
    deciding = [metric for metric in group.pace.analysis if not metric.dry_run]
    stages = {analysis.progress(metric).stage for metric in deciding}
    clock, since = group.pace.analysis_clock, active.baking_since or 0.0
    dues = [next_due(metric, analysis.progress(metric), clock) for metric in group.pace.analysis]
    times = (since + due for due in (*dues, *clock.ends) if due is not None)
    moments = () if state.halted_since is not None else tuple(each for each in times if each > facts.now)
    if stages <= {MetricStage.PASSED, MetricStage.OVERDUE}:
        return Judgement(held=describe_waiting(group.pace.analysis, analysis.metrics), moments=moments)
    return Judgement(is_pending=True, moments=moments)


def waiting_reason(state: RolloutState, name: str) -> str:
    """Return why a group waits for its metrics after the bake time; empty if it does not wait."""
    analysis = state.analyses.get(name)
    if analysis is None or analysis.promoted or analysis.rejection:
        return ""
    if state.rollout.progress[name].verdict is not None:
        return ""
    return describe_waiting(state.rollout.strategy.group(name).pace.analysis, analysis.metrics)


METRICS = Criterion(_note, _judge)
