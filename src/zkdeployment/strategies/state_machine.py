"""The state machine of a rollout's groups and hosts: its value, the table of its transitions, and their functions.

A host proceeds from ``NOT_STARTED`` through ``PREPARED`` to ``SUCCESS``; a failure in either phase leads to
``FAILURE``. A group gets a verdict for each phase. Only ``PHASE_RULES`` defines these transitions.

A ``Rollout`` is a value; each function returns the next one. Groups run one at a time: each is prepared and then
deployed, after the groups that it depends on. The rules are those of the document "Deployment Grouping for
Baremetal Nodes" of Airship's Shipyard.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.base.values import dataclass
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.strategy import Criteria, Strategy, members, misses

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from zkdeployment.base.host import Facts


class HostProgress(Enum):
    """The progress of one host in this rollout."""

    NOT_STARTED = "not started"
    PREPARED = "prepared"
    SUCCESS = "success"
    FAILURE = "failure"


class GroupVerdict(Enum):
    """The outcome of a group, or of one of its phases."""

    SUCCESS = "success"
    FAILED = "failed"


class RolloutResult(Enum):
    """The outcome of a rollout."""

    SUCCESS = "success"
    PARTIAL = "success with failures"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PhaseRule:
    """The transitions of one phase.

    ``required`` are the verdicts that a group has when the phase begins. ``eligible`` is the progress of the hosts
    that may enter the phase and ``reached`` their progress when they succeed; a host that fails becomes
    ``FAILURE``. ``successful`` are the states that count as successful when the group is judged.
    """

    required: Mapping[Phase, GroupVerdict]
    eligible: HostProgress
    reached: HostProgress
    successful: frozenset[HostProgress]


#: The transitions of hosts and groups, by phase.
PHASE_RULES: Mapping[Phase, PhaseRule] = {
    Phase.PREPARE: PhaseRule(
        required={},
        eligible=HostProgress.NOT_STARTED,
        reached=HostProgress.PREPARED,
        successful=frozenset({HostProgress.PREPARED, HostProgress.SUCCESS}),
    ),
    Phase.DEPLOY: PhaseRule(
        required={Phase.PREPARE: GroupVerdict.SUCCESS},
        eligible=HostProgress.PREPARED,
        reached=HostProgress.SUCCESS,
        successful=frozenset({HostProgress.SUCCESS}),
    ),
}

#: The phase that a host enters next, by its progress; hosts in other states have finished.
NEXT_PHASE: Mapping[HostProgress, Phase] = {rule.eligible: phase for phase, rule in PHASE_RULES.items()}


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """The verdicts on a group's phases, the hosts submitted to each phase, and the reason of a failure."""

    verdicts: Mapping[Phase, GroupVerdict] = field(default_factory=dict)
    submitted: Mapping[Phase, tuple[str, ...]] = field(default_factory=dict)
    reason: str = ""

    @property
    def verdict(self) -> GroupVerdict | None:
        """The group's verdict; ``None`` before it is known."""
        if GroupVerdict.FAILED in self.verdicts.values():
            return GroupVerdict.FAILED
        return self.verdicts.get(Phase.DEPLOY)


@dataclass(frozen=True, slots=True)
class Task:
    """One phase of one group, for these hosts, sorted by name; the hosts may be empty."""

    group: str
    phase: Phase
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rollout:
    """The progress of a strategy over its hosts.

    ``members`` and ``progress`` are keyed by group, ``hosts`` by host name. ``order`` are the groups that were
    begun, in the order in which they began.
    """

    strategy: Strategy
    members: Mapping[str, frozenset[str]]
    hosts: Mapping[str, HostProgress]
    progress: Mapping[str, GroupProgress]
    order: tuple[str, ...] = ()

    @property
    def critical_failed(self) -> bool:
        """Whether a critical group failed."""
        return any(
            group.critical and self.progress[group.name].verdict is GroupVerdict.FAILED
            for group in self.strategy.groups
        )

    @property
    def result(self) -> RolloutResult:
        """The outcome of the rollout; meaningful once there is no next task."""
        if self.critical_failed:
            return RolloutResult.FAILED
        failed = any(progress.verdict is GroupVerdict.FAILED for progress in self.progress.values())
        return (
            RolloutResult.PARTIAL
            if failed or HostProgress.FAILURE in self.hosts.values()
            else RolloutResult.SUCCESS
        )


def next_task(rollout: Rollout) -> Task | None:
    """Return the task that runs now; ``None`` once every group has succeeded or failed."""
    return next(ready_tasks(rollout), None)


def ready_tasks(rollout: Rollout) -> Iterator[Task]:
    """Return the tasks of which one may run now: that of the group begun last, or else of each ready group."""
    held = held_groups(rollout)
    begun = [name for name in rollout.order if rollout.progress[name].verdict is None and name not in held]
    for name in begun or _ready(rollout):
        progress = rollout.progress[name]
        if progress.verdict is None and name not in held:
            phase = Phase.DEPLOY if Phase.PREPARE in progress.verdicts else Phase.PREPARE
            yield Task(name, phase, eligible_hosts(rollout, name, phase))


def held_groups(rollout: Rollout) -> tuple[str, ...]:
    """Return the groups that have deployed and wait for their verdicts, in the order in which they began."""
    return tuple(
        name
        for name in rollout.order
        if Phase.DEPLOY in rollout.progress[name].submitted and rollout.progress[name].verdict is None
    )


def done_tasks(rollout: Rollout, group: str) -> Iterator[Task]:
    """Return the finished phases of a group, each with the hosts that still count as successful in the phase."""
    progress = rollout.hosts
    for phase, rule in PHASE_RULES.items():
        submitted = rollout.progress[group].submitted.get(phase, ())
        successful = (*rule.successful,)  # in contrast to a set, a tuple calls no function for each host
        yield Task(group, phase, tuple([host for host in submitted if progress[host] in successful]))


def eligible_hosts(rollout: Rollout, group: str, phase: Phase) -> tuple[str, ...]:
    """Return the hosts of a group, sorted, that may be submitted to a phase."""
    eligible = PHASE_RULES[phase].eligible
    return tuple(sorted(host for host in rollout.members[group] if rollout.hosts[host] is eligible))


def width(rollout: Rollout, group: str) -> int:
    """Return the number of hosts of a group that may run a phase at once: all hosts, without ``max_parallel``."""
    share = rollout.strategy.group(group).pace.max_parallel
    if share is None:
        return len(rollout.hosts)
    return max(1, len(rollout.members[group]) * share.number // 100) if share.percent else share.number


def certain_misses(rollout: Rollout, group: str, phase: Phase, failed: Collection[str] = ()) -> list[str]:
    """Return the criteria that a group misses in a phase even if all its remaining hosts succeed.

    ``failed`` are hosts that failed in this phase, and whose failures the rollout does not contain yet.
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
            kind=rollout.strategy.member_kind,
        )
    )


def is_closed(rollout: Rollout, task: Task, *, begun: bool, failed: Collection[str]) -> bool:
    """Whether no further host may enter a phase, because its group is certain to miss its criteria.

    ``begun``: whether any host has entered the phase. ``failed``: the hosts that failed in it. As in Shipyard's
    document, a group without ``max_parallel`` is prepared as a whole: preparing changes nothing on its hosts. A
    phase is also closed after the failure of a group on which this group depends, at any depth.
    """
    if failed_ancestor(rollout, task.group) is not None:
        return True
    whole = rollout.strategy.group(task.group).pace.max_parallel is None and task.phase is Phase.PREPARE
    return (begun or not whole) and bool(certain_misses(rollout, task.group, task.phase, failed))


def failed_ancestor(rollout: Rollout, name: str) -> str | None:
    """Return a failed group on which the named group depends, at any depth; ``None`` without one."""
    if not any(GroupVerdict.FAILED in progress.verdicts.values() for progress in rollout.progress.values()):
        return None
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


def begin(strategy: Strategy, hosts: Mapping[str, Facts], *, successful: Collection[str] = ()) -> Rollout:
    """Return a new rollout of a strategy over hosts, by name; ``successful`` hosts already have the revision."""
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
    """Return the rollout with further hosts; each joins those of its groups that have no verdict yet."""
    admitted = dict.fromkeys(sorted(hosts), HostProgress.NOT_STARTED) | dict.fromkeys(
        sorted(hosts.keys() & successful), HostProgress.SUCCESS
    )
    joined = {
        group.name: rollout.members[group.name] | members(group, hosts)
        for group in rollout.strategy.groups
        if not rollout.progress[group.name].verdicts
    }
    return replace(rollout, members={**rollout.members, **joined}, hosts={**rollout.hosts, **admitted})


def dismiss(rollout: Rollout, hosts: Collection[str]) -> Rollout:
    """Return the rollout without the entries of some hosts, which have not deployed."""
    return replace(
        rollout,
        members={name: names.difference(hosts) for name, names in rollout.members.items()},
        hosts={name: state for name, state in rollout.hosts.items() if name not in hosts},
        progress={name: _without(progress, hosts) for name, progress in rollout.progress.items()},
    )


def _without(progress: GroupProgress, hosts: Collection[str]) -> GroupProgress:
    """Return the progress of a group as if some hosts had not been submitted to any phase."""
    submitted = {
        phase: tuple(name for name in names if name not in hosts) for phase, names in progress.submitted.items()
    }
    return progress if submitted == progress.submitted else replace(progress, submitted=submitted)


def restart(rollout: Rollout, hosts: Collection[str]) -> Rollout:
    """Return the rollout in which hosts that lost the revision count as not started."""
    return replace(rollout, hosts={**rollout.hosts, **dict.fromkeys(hosts, HostProgress.NOT_STARTED)})


def record(
    rollout: Rollout,
    task: Task,
    succeeded: Collection[str],
    *,
    fault: str = "",
    spoiled: Collection[str] = (),
) -> Rollout:
    """Return the rollout after a task, with a verdict on the phase; the task's hosts outside ``succeeded`` failed.

    A ``fault`` of the phase, such as a timeout, fails the group independent of its criteria. ``spoiled`` are
    further hosts of the group that failed: they had succeeded and did not stay healthy. Raises ``ValueError`` for
    a phase that is not the group's next.
    """
    _check_next(rollout.progress[task.group], task)
    rule = PHASE_RULES[task.phase]
    reached = {host: rule.reached if host in succeeded else HostProgress.FAILURE for host in task.hosts}
    hosts = {**rollout.hosts, **reached, **dict.fromkeys(spoiled, HostProgress.FAILURE)}

    # The verdict covers the whole group, including hosts that were deployed with an earlier group.
    states = [hosts[host] for host in rollout.members[task.group]]
    missed = list(
        misses(
            rollout.strategy.group(task.group).criteria,
            successful=sum(state in rule.successful for state in states),
            failed=states.count(HostProgress.FAILURE),
            total=len(states),
            kind=rollout.strategy.member_kind,
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
    skipped = _skipped_dependants(rollout, task.group) if missed else {}
    progress_by_group = {**rollout.progress, task.group: judged, **skipped}
    return replace(rollout, hosts=hosts, progress=progress_by_group, order=order)


def hold(rollout: Rollout, task: Task, succeeded: Collection[str], spoiled: Collection[str] = ()) -> Rollout:
    """Return the rollout after the last task of a group whose verdict has to wait for ``release``."""
    rule, progress = PHASE_RULES[task.phase], rollout.progress[task.group]
    reached = {host: rule.reached if host in succeeded else HostProgress.FAILURE for host in task.hosts}
    hosts = {**rollout.hosts, **reached, **dict.fromkeys(spoiled, HostProgress.FAILURE)}
    held = replace(progress, submitted={**progress.submitted, task.phase: task.hosts})
    return replace(rollout, hosts=hosts, progress={**rollout.progress, task.group: held})


def release(rollout: Rollout, group: str, fault: str = "") -> Rollout:
    """Return the rollout with the verdict on a held group; a ``fault`` fails the group."""
    ended = (HostProgress.SUCCESS, HostProgress.FAILURE)
    submitted = rollout.progress[group].submitted[Phase.DEPLOY]
    task = Task(group, Phase.DEPLOY, tuple(host for host in submitted if rollout.hosts[host] in ended))
    succeeded = [host for host in task.hosts if rollout.hosts[host] is HostProgress.SUCCESS]
    return record(rollout, task, succeeded, fault=fault)


def _check_next(progress: GroupProgress, task: Task) -> None:
    if progress.verdicts != PHASE_RULES[task.phase].required:
        verdicts = ", ".join(f"{phase.value}: {verdict.value}" for phase, verdict in progress.verdicts.items())
        raise ValueError(
            f"{task.phase.value} is not the next phase of group {task.group}: {verdicts or 'not begun'}"
        )


def rejudge(rollout: Rollout, failed: Collection[str], under_way: str | None = None) -> Rollout:
    """Return the rollout after late joiners ``failed``: successful groups that now miss their criteria fail.

    Groups that depend on the failed groups are no longer attempted. The group ``under_way`` gets its verdict at
    the end of its phase.
    """
    for group in rollout.strategy.groups:
        progress = rollout.progress[group.name]
        if progress.verdict is not GroupVerdict.SUCCESS or rollout.members[group.name].isdisjoint(failed):
            continue
        missed = certain_misses(rollout, group.name, Phase.PREPARE)
        if missed:
            verdicts = {**progress.verdicts, Phase.DEPLOY: GroupVerdict.FAILED}
            judged = replace(progress, verdicts=verdicts, reason=f"late hosts: {'; '.join(missed)}")
            skipped = _skipped_dependants(rollout, group.name, under_way)
            rollout = replace(rollout, progress={**rollout.progress, group.name: judged, **skipped})
    return rollout


def _skipped_dependants(rollout: Rollout, failed: str, under_way: str | None = None) -> dict[str, GroupProgress]:
    """Return the progress of the groups, at any depth, that are skipped because a group failed."""
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
    skipped = sorted(name for name in seen - {under_way} if rollout.progress[name].verdict is None)
    return {name: _skip(rollout.progress[name], failed) for name in skipped}


def _skip(progress: GroupProgress, failed: str) -> GroupProgress:
    step = "deployed" if progress.verdicts else "attempted"
    verdicts = {**dict.fromkeys(Phase, GroupVerdict.FAILED), **progress.verdicts}
    return replace(progress, verdicts=verdicts, reason=f"not {step}: {failed} failed")
