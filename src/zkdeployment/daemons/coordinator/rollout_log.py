"""The log events of a rollout: one for each change from one state to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.rollouts.states import rollout_state
from zkdeployment.fleet.rollouts.text import final_report
from zkdeployment.log import get_logger
from zkdeployment.rollout.groups import unmatched_selectors
from zkdeployment.rollout.membership import restarted_hosts
from zkdeployment.rollout.permission import Phase
from zkdeployment.rollout.state_machine import GroupVerdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    import structlog

    from zkdeployment.model.host import Facts
    from zkdeployment.rollout.state import ActivePhase, RolloutState


def log_unmatched_selectors(state: RolloutState, known: Mapping[str, Facts]) -> None:
    """Log the selectors of a new rollout's strategy that match none of the ``known`` hosts."""
    for warning in unmatched_selectors(state.rollout.strategy, known):
        get_logger().warning("selector-unmatched", rollout=state.id, reason=warning)


def log_changes(before: RolloutState | None, after: RolloutState) -> None:
    """Log the changes between two states of a rollout; without a state ``before``, that it began."""
    log = get_logger().bind(rollout=after.id, revision=after.revision)
    if before is None:
        strategy = after.rollout.strategy
        log.info(
            "rollout-begun", strategy=strategy.name, groups=len(strategy.groups), hosts=len(after.rollout.hosts)
        )
        return
    for act in after.acts[len(before.acts) :]:
        log.info("act-applied", act=str(act.act), group=act.group)
    _log_hosts(log, before, after)
    _log_groups(log, before, after)
    if after.active_phase is not None and _task(after.active_phase) != _task(before.active_phase):
        task = after.active_phase.task
        log.info("phase-begun", group=task.group, phase=task.phase.value, hosts=len(task.hosts))
    if after.waiting and after.waiting != before.waiting:
        log.info("rollout-blocked", reason=after.waiting)
    if after.recovery is not None and after.recovery != before.recovery:
        log.warning("recovery-changed", stage=after.recovery.stage.value, reason=str(after.recovery))
    if after.ended is not None and before.ended is None:
        log.info("rollout-ended", result=rollout_state(after).value, report=final_report(after))


def _log_hosts(log: structlog.stdlib.BoundLogger, before: RolloutState, after: RolloutState) -> None:
    for host in sorted(after.errors.keys() - before.errors.keys()):
        log.warning("host-failed", host=host, reason=after.errors[host])
    for host in sorted(restarted_hosts(before, after)):
        log.warning(
            "deployment-restarted", host=host, reason="the host no longer has the revision: it starts again"
        )


def _log_groups(log: structlog.stdlib.BoundLogger, before: RolloutState, after: RolloutState) -> None:
    for name in (group.name for group in after.rollout.strategy.groups):
        progress, former = after.rollout.progress[name], before.rollout.progress[name]
        for phase in (phase for phase in Phase if phase in progress.submitted and phase not in former.submitted):
            log.info("phase-judged", group=name, phase=phase.value, hosts=len(progress.submitted[phase]))
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
