"""The metrics of a rollout and its log lines, which coordinators and promoters have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.daemon.metrics import Metric, gauge, labelled
from zkdeployment.base.log import get_logger
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.progress import restarted_hosts
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress
from zkdeployment.strategies.strategy import MemberKind, unmatched_selectors
from zkdeployment.strategies.views import (
    GroupState,
    RolloutProgressState,
    final_report,
    group_state,
    last_movement,
    rollout_state,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.base.host import Facts
    from zkdeployment.strategies.state import ActivePhase, RolloutState


def rollout_metrics(kind: MemberKind, state: RolloutState | None, *, leads: bool) -> Iterator[Metric]:
    """Yield the metrics of a daemon that leads rollouts over members of a kind; those of rollouts may be empty.

    ``leads`` means that this daemon is the leader, which alone knows the newest rollout.
    """
    yield gauge(f"{kind.leader}_leads", f"1 if this {kind.leader} is the leader.", leads)
    whole, prefix = kind.whole, f"{kind.leader}_{kind.whole}"
    begun, moved, waiting = None, None, None
    labels: dict[tuple[str, ...], float] = {}
    states: dict[str, float] = {}
    groups: dict[str, float] = {}
    hosts: dict[str, float] = {}
    outcomes: dict[str, float] = {}
    measured: float | None = None
    if state is not None:
        strategy, rollout = state.rollout.strategy, state.rollout
        members = frozenset[str]().union(*rollout.members.values())
        host_progress = [progress for host, progress in rollout.hosts.items() if host in members]
        group_states = [group_state(state, group.name) for group in strategy.groups]
        labels = {(str(state.revision), state.id, strategy.name): 1.0}
        begun, moved, waiting = state.begun, last_movement(state), bool(state.waiting)
        states = {known.value: float(known is rollout_state(state)) for known in RolloutProgressState}
        groups = {known.value: group_states.count(known) for known in GroupState}
        hosts = {known.value: host_progress.count(known) for known in HostProgress}
        metrics = [each for analysis in state.analyses.values() for each in analysis.metrics.values()]
        counts = ((each.passed, each.failed, each.no_data) for each in metrics)
        outcomes = dict(zip(("passed", "failed", "no_data"), map(sum, zip(*counts, strict=True)), strict=False))
        measured = max((each.measurements[-1].time for each in metrics if each.measurements), default=None)
    yield Metric(
        f"zkdeployment_{prefix}_info",
        f"The newest {whole}, as labels.",
        labels,
        ("revision", whole, "strategy"),
    )
    yield labelled(f"{prefix}_state", f"1 for the state of the {whole}.", "state", states)
    yield gauge(f"{prefix}_begun_timestamp_seconds", f"When the {whole} began.", begun)
    yield gauge(f"{prefix}_moved_timestamp_seconds", f"When the {whole} last changed.", moved)
    yield gauge(
        f"{prefix}_waiting",
        f"1 while the {whole} waits: for a promotion, a window or a resume.",
        waiting,
    )
    yield labelled(f"{prefix}_groups", f"The groups of the {whole}, by state.", "state", groups)
    yield labelled(
        f"{prefix}_measurements",
        f"The measurements of metrics in the {whole}, by outcome.",
        "outcome",
        outcomes,
    )
    yield gauge(
        f"{prefix}_measured_timestamp_seconds",
        f"When a metric of the {whole} was last measured.",
        measured,
    )
    yield labelled(
        f"{prefix}_{kind.noun}s", f"The {kind.noun}s in groups of the {whole}, by state.", "state", hosts
    )


def log_unmatched_selectors(state: RolloutState, known: Mapping[str, Facts]) -> None:
    """Log the selectors of a new rollout's strategy that match none of the ``known`` hosts."""
    for warning in unmatched_selectors(state.rollout.strategy, known):
        get_logger().warning("selector-unmatched", **{state.kind.whole: state.id}, reason=warning)


def log_changes(before: RolloutState | None, after: RolloutState) -> None:
    """Log the changes between two states of a rollout, or its begin if there is no state ``before``."""
    kind = after.kind
    log = get_logger().bind(**{kind.whole: after.id}, revision=after.revision)
    if before is None:
        strategy = after.rollout.strategy
        members = {f"{kind.noun}s": len(after.rollout.hosts)}
        log.info(_event(kind.whole, "begun"), strategy=strategy.name, groups=len(strategy.groups), **members)
        return
    for act in after.acts[len(before.acts) :]:
        log.info("act-applied", act=str(act.act), group=act.group)
    _log_hosts(log, before, after)
    _log_groups(log, before, after)
    if after.active_phase is not None and _task(after.active_phase) != _task(before.active_phase):
        task = after.active_phase.task
        log.info("phase-begun", group=task.group, phase=task.phase.value, **{f"{kind.noun}s": len(task.hosts)})
    if after.waiting and after.waiting != before.waiting:
        log.info(_event(kind.whole, "blocked"), reason=after.waiting)
    if after.recovery is not None and after.recovery != before.recovery:
        log.warning("recovery-changed", stage=after.recovery.stage.value, reason=str(after.recovery))
    if after.ended is not None and before.ended is None:
        log.info(_event(kind.whole, "ended"), result=rollout_state(after).value, report=final_report(after))


def _log_hosts(log: Any, before: RolloutState, after: RolloutState) -> None:
    noun = after.kind.noun
    for host in sorted(after.errors.keys() - before.errors.keys()):
        log.warning(_event(noun, "failed"), **{noun: host}, reason=after.errors[host])
    for host in sorted(restarted_hosts(before, after)):
        reason = f"the {noun} no longer has the revision: it starts again"
        log.warning("deployment-restarted", **{noun: host}, reason=reason)


def _log_groups(log: Any, before: RolloutState, after: RolloutState) -> None:
    members = f"{after.kind.noun}s"
    for name in (group.name for group in after.rollout.strategy.groups):
        progress, former = after.rollout.progress[name], before.rollout.progress[name]
        for phase in (phase for phase in Phase if phase in progress.submitted and phase not in former.submitted):
            log.info("phase-judged", group=name, phase=phase.value, **{members: len(progress.submitted[phase])})
        if progress.verdict is not former.verdict:
            log_verdict = log.error if progress.verdict is GroupVerdict.FAILED else log.info
            log_verdict(
                "group-judged",
                group=name,
                verdict=progress.verdict and progress.verdict.value,
                reason=progress.reason,
            )


def _task(active: ActivePhase | None) -> tuple[str, str] | None:
    return None if active is None else (active.task.group, active.task.phase.value)


def _event(thing: str, happened: str) -> str:
    return f"{thing}-{happened}"
