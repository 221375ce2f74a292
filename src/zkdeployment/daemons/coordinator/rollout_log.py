"""What the log says of a rollout: all that changed from one state to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.rollouts import report, rollout_state
from zkdeployment.log import get_logger
from zkdeployment.rollout.engine import GroupVerdict, Phase
from zkdeployment.rollout.groups import unmatched_selectors
from zkdeployment.rollout.progress import readmitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import structlog

    from zkdeployment.model.strategy import Facts
    from zkdeployment.rollout.state import ActivePhase, RolloutState


def warn_of_selectors(running: RolloutState, known: Mapping[str, Facts]) -> None:
    """Log the selectors of a rollout that begins which match none of the ``known`` hosts."""
    for warning in unmatched_selectors(running.rollout.strategy, known):
        get_logger().warning("selector-matches-nothing", rollout=running.id, reason=warning)


def tell(before: RolloutState | None, after: RolloutState) -> None:
    """Log what is new; without a state ``before`` that it began."""
    log = get_logger().bind(rollout=after.id, revision=after.revision)
    if before is None:
        strategy = after.rollout.strategy
        log.info(
            "rollout-begun", strategy=strategy.name, groups=len(strategy.groups), hosts=len(after.rollout.hosts)
        )
        return
    for one in after.acts[len(before.acts) :]:
        log.info("rollout-act", act=str(one.act), group=one.group)
    _tell_hosts(log, before, after)
    for name in (group.name for group in after.rollout.strategy.groups):
        course, former = after.rollout.courses[name], before.rollout.courses[name]
        for phase in (phase for phase in Phase if phase in course.sent and phase not in former.sent):
            log.info("phase-judged", group=name, phase=phase.value, hosts=len(course.sent[phase]))
        if course.verdict is not former.verdict:
            say = log.error if course.verdict is GroupVerdict.FAILED else log.info
            say("group-judged", group=name, verdict=course.verdict and course.verdict.value, reason=course.reason)
    if after.stage is not None and _task(after.stage) != _task(before.stage):
        task = after.stage.task
        log.info("phase-begun", group=task.group, phase=task.phase.value, hosts=len(task.hosts))
    if after.waiting and after.waiting != before.waiting:
        log.info("rollout-waits", reason=after.waiting)
    if after.ended is not None and before.ended is None:
        log.info("rollout-ended", result=rollout_state(after).value, report=report(after))


def _tell_hosts(log: structlog.stdlib.BoundLogger, before: RolloutState, after: RolloutState) -> None:
    for host in sorted(after.errors.keys() - before.errors.keys()):
        log.warning("host-failed", host=host, reason=after.errors[host])
    for host in sorted(readmitted(before, after)):
        log.warning("host-begins-again", host=host, reason="it does not have the revision any more")


def _task(stage: ActivePhase | None) -> tuple[str, str] | None:
    return None if stage is None else (stage.task.group, stage.task.phase.value)
