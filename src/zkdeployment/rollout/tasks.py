"""Selects a rollout's next task, and the hosts that may enter its phase.

The functions here only read a ``Rollout``; the transitions are in ``engine``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.strategy import Criteria
from zkdeployment.rollout.groups import misses
from zkdeployment.rollout.permission import Phase
from zkdeployment.rollout.state_machine import PHASE_RULES, GroupVerdict, HostProgress, Task

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zkdeployment.rollout.state_machine import Rollout


def next_task(rollout: Rollout) -> Task | None:
    """Return the task that runs now; ``None`` once every group has succeeded or failed."""
    return next(ready_tasks(rollout), None)


def ready_tasks(rollout: Rollout) -> Iterator[Task]:
    """Return the tasks of which one may run now: that of the group begun last, or else of each ready group."""
    begun = [name for name in rollout.order[-1:] if rollout.progress[name].verdict is None]
    for name in begun or _ready(rollout):
        progress = rollout.progress[name]
        if progress.verdict is None:
            phase = Phase.DEPLOY if Phase.PREPARE in progress.verdicts else Phase.PREPARE
            yield Task(name, phase, eligible_hosts(rollout, name, phase))


def done_tasks(rollout: Rollout, group: str) -> Iterator[Task]:
    """Return the finished phases of a group, each with the hosts that still count as successful in the phase."""
    for phase, rule in PHASE_RULES.items():
        submitted = rollout.progress[group].submitted.get(phase, ())
        yield Task(group, phase, tuple(host for host in submitted if rollout.hosts[host] in rule.successful))


def eligible_hosts(rollout: Rollout, group: str, phase: Phase) -> tuple[str, ...]:
    """Return the hosts of a group, sorted, that may be submitted to a phase."""
    eligible = PHASE_RULES[phase].eligible
    return tuple(sorted(host for host in rollout.members[group] if rollout.hosts[host] is eligible))


def width(rollout: Rollout, group: str) -> int:
    """Return how many hosts of a group may run a phase at the same time: all hosts, without ``max_parallel``."""
    share = rollout.strategy.group(group).pace.max_parallel
    if share is None:
        return len(rollout.hosts)
    return max(1, len(rollout.members[group]) * share.number // 100) if share.percent else share.number


def certain_misses(rollout: Rollout, group: str, phase: Phase, failed: Collection[str] = ()) -> list[str]:
    """Return the criteria that a group misses in a phase even if all its remaining hosts succeed.

    ``failed`` are hosts that failed in this phase and whose failure is not in the rollout yet.
    """
    rule, criteria = PHASE_RULES[phase], rollout.strategy.group(group).criteria
    if criteria == Criteria():
        return []
    states = [HostProgress.FAILURE if host in failed else rollout.hosts[host] for host in rollout.members[group]]
    return list(
        misses(
            criteria,
            successful=sum(map(states.count, {rule.eligible, *rule.successful})),
            failed=states.count(HostProgress.FAILURE),
            total=len(states),
        )
    )


def is_closed(rollout: Rollout, task: Task, *, begun: bool, failed: Collection[str]) -> bool:
    """Whether no further host may enter a phase, because its group misses its criteria for certain.

    ``begun`` is whether any host has entered the phase, ``failed`` are the hosts that failed in it. As in
    Shipyard's document, a group without ``max_parallel`` is prepared as a whole: preparing changes nothing on its
    hosts. A phase is also closed once a group has failed that this group depends on, at any depth.
    """
    if failed_ancestor(rollout, task.group) is not None:
        return True
    whole = rollout.strategy.group(task.group).pace.max_parallel is None and task.phase is Phase.PREPARE
    return (begun or not whole) and bool(certain_misses(rollout, task.group, task.phase, failed))


def failed_ancestor(rollout: Rollout, name: str) -> str | None:
    """Return a failed group on which the named group depends, at any depth; ``None`` without one."""
    parents = {group.name: group.depends_on for group in rollout.strategy.groups}
    seen: set[str] = set()
    waiting = [*parents[name]]
    while waiting:
        ancestor = waiting.pop()
        if rollout.progress[ancestor].verdict is GroupVerdict.FAILED:
            return ancestor
        if ancestor not in seen:
            seen.add(ancestor)
            waiting += parents[ancestor]
    return None


def _ready(rollout: Rollout) -> Iterator[str]:
    """Return the groups whose dependencies all succeeded, in the order of the document."""
    for group in rollout.strategy.groups:
        if all(rollout.progress[parent].verdict is GroupVerdict.SUCCESS for parent in group.depends_on):
            yield group.name
