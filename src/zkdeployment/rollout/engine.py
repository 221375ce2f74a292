"""The transitions of a rollout: begin, admit and dismiss hosts, record the outcome of a task.

A ``Rollout`` is a value; each function returns the next one. Groups run one at a time: each is prepared and then
deployed, after the groups that it depends on. The rules are those of the document "Deployment Grouping for
Baremetal Nodes" of Airship's Shipyard.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout.groups import members, misses
from zkdeployment.rollout.state_machine import (
    PHASE_RULES,
    GroupProgress,
    GroupVerdict,
    HostProgress,
    Phase,
    Rollout,
)
from zkdeployment.rollout.tasks import certain_misses

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.model.strategy import Facts, Strategy
    from zkdeployment.rollout.state_machine import Task


def begin(strategy: Strategy, hosts: Mapping[str, Facts], *, successful: Collection[str] = ()) -> Rollout:
    """Return a rollout of a strategy over these hosts, by name, of which nothing was done yet.

    Those that are ``successful`` have already what it brings.
    """
    return admit(
        Rollout(
            strategy,
            members={group.name: frozenset() for group in strategy.groups},
            hosts={},
            progress={group.name: GroupProgress() for group in strategy.groups},
        ),
        hosts,
        successful=successful,
    )


def admit(rollout: Rollout, hosts: Mapping[str, Facts], *, successful: Collection[str] = ()) -> Rollout:
    """Return the rollout with further hosts, in those of the groups that no verdict was given on."""
    came = dict.fromkeys(sorted(hosts), HostProgress.NOT_STARTED) | dict.fromkeys(
        sorted(hosts.keys() & successful), HostProgress.SUCCESS
    )
    joined = {
        group.name: rollout.members[group.name] | members(group, hosts)
        for group in rollout.strategy.groups
        if not rollout.progress[group.name].verdicts
    }
    return replace(rollout, members={**rollout.members, **joined}, hosts={**rollout.hosts, **came})


def dismiss(rollout: Rollout, hosts: Collection[str]) -> Rollout:
    """Return the rollout without hosts that are none."""
    return replace(
        rollout,
        members={name: found.difference(hosts) for name, found in rollout.members.items()},
        hosts={name: state for name, state in rollout.hosts.items() if name not in hosts},
    )


def restart(rollout: Rollout, hosts: Collection[str]) -> Rollout:
    """Return the rollout in which hosts that lost the revision have not started."""
    return replace(rollout, hosts={**rollout.hosts, **dict.fromkeys(hosts, HostProgress.NOT_STARTED)})


def record(
    rollout: Rollout,
    task: Task,
    succeeded: Collection[str],
    *,
    fault: str = "",
    spoiled: Collection[str] = (),
) -> Rollout:
    """Return the rollout after a task: its hosts that are not among the ``succeeded`` failed; the group is judged.

    A ``fault`` of the phase, such as that it took too long, fails its group, whatever the criteria say. The
    ``spoiled`` are further hosts of the group that failed: they had succeeded and did not stay well.

    Raises ``ValueError`` for a phase that is not the group's next.
    """
    _check_next(rollout.progress[task.group], task)
    rule = PHASE_RULES[task.phase]
    good = frozenset(succeeded).intersection(task.hosts)
    became = {host: rule.reached if host in good else HostProgress.FAILURE for host in task.hosts}
    hosts = {**rollout.hosts, **became, **dict.fromkeys(spoiled, HostProgress.FAILURE)}

    # Judged is the whole group, also those of its hosts that went with an earlier one.
    states = [hosts[host] for host in rollout.members[task.group]]
    missed = list(
        misses(
            rollout.strategy.group(task.group).criteria,
            successful=sum(state in rule.successful for state in states),
            failed=states.count(HostProgress.FAILURE),
            total=len(states),
        )
    )
    if fault:
        missed.insert(0, fault)

    progress = rollout.progress[task.group]
    verdicts = {**progress.verdicts, task.phase: GroupVerdict.FAILED if missed else GroupVerdict.SUCCESS}
    if missed:
        verdicts[Phase.DEPLOY] = GroupVerdict.FAILED  # a group that was not prepared is not deployed
    judged = GroupProgress(
        verdicts,
        submitted={**progress.submitted, task.phase: task.hosts},
        reason=f"{task.phase.value}: {'; '.join(missed)}" if missed else "",
    )
    order = rollout.order if task.group in rollout.order else (*rollout.order, task.group)
    held = _dependants(rollout, task.group) if missed else {}
    return replace(rollout, hosts=hosts, progress={**rollout.progress, task.group: judged, **held}, order=order)


def _check_next(progress: GroupProgress, task: Task) -> None:
    if progress.verdicts != PHASE_RULES[task.phase].required:
        found = ", ".join(f"{phase.value}: {verdict.value}" for phase, verdict in progress.verdicts.items())
        raise ValueError(f"{task.phase.value} is not the next phase of group {task.group}: {found or 'not begun'}")


def rejudge(rollout: Rollout, failed: Collection[str], under_way: str | None = None) -> Rollout:
    """Return the rollout after hosts ``failed`` late: groups of theirs that miss their criteria by that failed.

    No group that depends on these is attempted any more; the group that is ``under_way`` is judged at its end.
    """
    for group in rollout.strategy.groups:
        progress = rollout.progress[group.name]
        if progress.verdict is not GroupVerdict.SUCCESS or rollout.members[group.name].isdisjoint(failed):
            continue
        missed = certain_misses(rollout, group.name, Phase.PREPARE)
        if missed:
            verdicts = {**progress.verdicts, Phase.DEPLOY: GroupVerdict.FAILED}
            judged = replace(progress, verdicts=verdicts, reason=f"late hosts: {'; '.join(missed)}")
            held = _dependants(rollout, group.name, under_way)
            rollout = replace(rollout, progress={**rollout.progress, group.name: judged, **held})
    return rollout


def _dependants(rollout: Rollout, failed: str, under_way: str | None = None) -> dict[str, GroupProgress]:
    """Return the courses of the groups, at any depth, that are not to be attempted as another failed."""
    children = defaultdict(list)
    for group in rollout.strategy.groups:
        for parent in group.depends_on:
            children[parent].append(group.name)
    seen: set[str] = set()
    waiting = [*children[failed]]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += children[name]
    held = sorted(name for name in seen - {under_way} if rollout.progress[name].verdict is None)
    return {name: _held_back(rollout.progress[name], failed) for name in held}


def _held_back(progress: GroupProgress, failed: str) -> GroupProgress:
    what = "deployed" if progress.verdicts else "attempted"
    verdicts = {**dict.fromkeys(Phase, GroupVerdict.FAILED), **progress.verdicts}
    return replace(progress, verdicts=verdicts, reason=f"not {what}: {failed} failed")
