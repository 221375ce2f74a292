"""The course of a rollout: which group is next, who of it, and what follows from what became of them.

A ``Rollout`` is a value; each function returns the next one. Groups go one at a time, each prepared and then
deployed, parents before those that depend on them. The rules are those of the document "Deployment Grouping for
Baremetal Nodes" of Airship's Shipyard.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.model.strategy import Criteria
from zkdeployment.rollout.groups import members, misses

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from zkdeployment.model.strategy import Facts, Strategy


class HostProgress(Enum):
    """How far one host is in this rollout."""

    NOT_STARTED = "not started"
    PREPARED = "prepared"
    SUCCESS = "success"
    FAILURE = "failure"


class Phase(Enum):
    """What is done with a group: first the one, then the other."""

    PREPARE = "prepare"
    DEPLOY = "deploy"


class GroupVerdict(Enum):
    """What became of a group, or of one of its phases."""

    SUCCESS = "success"
    FAILED = "failed"


class RolloutResult(Enum):
    """How a rollout ended."""

    SUCCESS = "success"
    PARTIAL = "success with failures"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class _Rule:
    """Who may be submitted to a phase, what they become by it, and who counts as successful after it."""

    eligible: HostProgress
    reached: HostProgress
    successful: frozenset[HostProgress]


_RULES = {
    Phase.PREPARE: _Rule(
        HostProgress.NOT_STARTED, HostProgress.PREPARED, frozenset({HostProgress.PREPARED, HostProgress.SUCCESS})
    ),
    Phase.DEPLOY: _Rule(HostProgress.PREPARED, HostProgress.SUCCESS, frozenset({HostProgress.SUCCESS})),
}


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How a group went: the verdicts on its phases, who was submitted to them, and why it failed."""

    verdicts: Mapping[Phase, GroupVerdict] = field(default_factory=dict)
    sent: Mapping[Phase, tuple[str, ...]] = field(default_factory=dict)
    reason: str = ""

    @property
    def verdict(self) -> GroupVerdict | None:
        """The group's verdict; ``None`` before it is known."""
        if GroupVerdict.FAILED in self.verdicts.values():
            return GroupVerdict.FAILED
        return self.verdicts.get(Phase.DEPLOY)


@dataclass(frozen=True, slots=True)
class Task:
    """A phase of a group, for these hosts, sorted; there may be none."""

    group: str
    phase: Phase
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rollout:
    """Where a rollout stands: each group's members and course, each host's state, the groups that were begun."""

    strategy: Strategy
    members: Mapping[str, frozenset[str]]
    hosts: Mapping[str, HostProgress]
    courses: Mapping[str, GroupProgress]
    order: tuple[str, ...] = ()

    @property
    def critical_failed(self) -> bool:
        """Whether a critical group failed."""
        return any(
            group.critical and self.courses[group.name].verdict is GroupVerdict.FAILED
            for group in self.strategy.groups
        )

    @property
    def result(self) -> RolloutResult:
        """How it ended, once there is no next task."""
        if self.critical_failed:
            return RolloutResult.FAILED
        failed = any(course.verdict is GroupVerdict.FAILED for course in self.courses.values())
        return (
            RolloutResult.PARTIAL
            if failed or HostProgress.FAILURE in self.hosts.values()
            else RolloutResult.SUCCESS
        )


def begin(strategy: Strategy, hosts: Mapping[str, Facts], *, successful: Collection[str] = ()) -> Rollout:
    """Return a rollout of a strategy over these hosts, by name, of which nothing was done yet.

    Those that are ``successful`` have already what it brings.
    """
    return admit(
        Rollout(
            strategy,
            members={group.name: frozenset() for group in strategy.groups},
            hosts={},
            courses={group.name: GroupProgress() for group in strategy.groups},
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
        if not rollout.courses[group.name].verdicts
    }
    return replace(rollout, members={**rollout.members, **joined}, hosts={**rollout.hosts, **came})


def dismiss(rollout: Rollout, hosts: Collection[str]) -> Rollout:
    """Return the rollout without hosts that are none."""
    return replace(
        rollout,
        members={name: found.difference(hosts) for name, found in rollout.members.items()},
        hosts={name: state for name, state in rollout.hosts.items() if name not in hosts},
    )


def next_task(rollout: Rollout) -> Task | None:
    """Return what is to be done now; ``None`` is the end: every group has succeeded or failed."""
    return next(ready_tasks(rollout), None)


def ready_tasks(rollout: Rollout) -> Iterator[Task]:
    """Return what may be done now: of the group that was begun, else of each that is ready, to choose one."""
    begun = [name for name in rollout.order[-1:] if rollout.courses[name].verdict is None]
    for name in begun or _ready(rollout):
        course = rollout.courses[name]
        if course.verdict is None:
            phase = Phase.DEPLOY if Phase.PREPARE in course.verdicts else Phase.PREPARE
            yield Task(name, phase, eligible_hosts(rollout, name, phase))


def done_tasks(rollout: Rollout, group: str) -> Iterator[Task]:
    """Return the phases that a group has been through, each with the hosts that are still as that left them."""
    for phase, rule in _RULES.items():
        sent = rollout.courses[group].sent.get(phase, ())
        yield Task(group, phase, tuple(host for host in sent if rollout.hosts[host] in rule.successful))


def eligible_hosts(rollout: Rollout, group: str, phase: Phase) -> tuple[str, ...]:
    """Return the hosts of a group, sorted, that may be submitted to a phase."""
    eligible = _RULES[phase].eligible
    return tuple(sorted(host for host in rollout.members[group] if rollout.hosts[host] is eligible))


def width(rollout: Rollout, group: str) -> int:
    """Return how many hosts of a group may be at work at the same time; without a limit, as many as there are."""
    share = rollout.strategy.group(group).pace.max_parallel
    if share is None:
        return len(rollout.hosts)
    return max(1, len(rollout.members[group]) * share.number // 100) if share.percent else share.number


def certain_misses(rollout: Rollout, group: str, phase: Phase, failed: Collection[str] = ()) -> list[str]:
    """Return the criteria that a group misses in a phase even if each host that can still succeed does.

    ``failed`` are hosts that failed in this phase, and that the rollout does not count yet.
    """
    rule, criteria = _RULES[phase], rollout.strategy.group(group).criteria
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
    """Whether no further host may enter a phase: its group misses its criteria for certain.

    ``begun`` says whether any host has entered the phase, ``failed`` are the hosts that failed in it. A group
    without ``max_parallel`` is prepared as a whole, as the document has it: that changes nothing on its hosts.
    No host enters either once a group failed that this group depends on, at any depth.
    """
    if failed_ancestor(rollout, task.group) is not None:
        return True
    whole = rollout.strategy.group(task.group).pace.max_parallel is None and task.phase is Phase.PREPARE
    return (begun or not whole) and bool(certain_misses(rollout, task.group, task.phase, failed))


def failed_ancestor(rollout: Rollout, name: str) -> str | None:
    """Return a group that failed and that another depends on, at any depth; ``None`` if there is none."""
    parents = {group.name: group.depends_on for group in rollout.strategy.groups}
    seen: set[str] = set()
    waiting = [*parents[name]]
    while waiting:
        ancestor = waiting.pop()
        if rollout.courses[ancestor].verdict is GroupVerdict.FAILED:
            return ancestor
        if ancestor not in seen:
            seen.add(ancestor)
            waiting += parents[ancestor]
    return None


def _ready(rollout: Rollout) -> Iterator[str]:
    """Return the groups whose parents all succeeded, in the order of the document."""
    for group in rollout.strategy.groups:
        if all(rollout.courses[parent].verdict is GroupVerdict.SUCCESS for parent in group.depends_on):
            yield group.name


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
    _check_next(rollout.courses[task.group], task)
    rule = _RULES[task.phase]
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

    course = rollout.courses[task.group]
    verdicts = {**course.verdicts, task.phase: GroupVerdict.FAILED if missed else GroupVerdict.SUCCESS}
    if missed:
        verdicts[Phase.DEPLOY] = GroupVerdict.FAILED  # a group that was not prepared is not deployed
    judged = GroupProgress(
        verdicts,
        sent={**course.sent, task.phase: task.hosts},
        reason=f"{task.phase.value}: {'; '.join(missed)}" if missed else "",
    )
    order = rollout.order if task.group in rollout.order else (*rollout.order, task.group)
    held = _dependants(rollout, task.group) if missed else {}
    return replace(rollout, hosts=hosts, courses={**rollout.courses, task.group: judged, **held}, order=order)


def _check_next(course: GroupProgress, task: Task) -> None:
    judged = {Phase.PREPARE: {}, Phase.DEPLOY: {Phase.PREPARE: GroupVerdict.SUCCESS}}[task.phase]
    if course.verdicts != judged:
        found = ", ".join(f"{phase.value}: {verdict.value}" for phase, verdict in course.verdicts.items())
        raise ValueError(f"{task.phase.value} is not the next phase of group {task.group}: {found or 'not begun'}")


def rejudge(rollout: Rollout, failed: Collection[str], under_way: str | None = None) -> Rollout:
    """Return the rollout after hosts ``failed`` late: groups of theirs that miss their criteria by that failed.

    No group that depends on these is attempted any more; the group that is ``under_way`` is judged at its end.
    """
    for group in rollout.strategy.groups:
        course = rollout.courses[group.name]
        if course.verdict is not GroupVerdict.SUCCESS or rollout.members[group.name].isdisjoint(failed):
            continue
        missed = certain_misses(rollout, group.name, Phase.PREPARE)
        if missed:
            verdicts = {**course.verdicts, Phase.DEPLOY: GroupVerdict.FAILED}
            judged = replace(course, verdicts=verdicts, reason=f"late hosts: {'; '.join(missed)}")
            held = _dependants(rollout, group.name, under_way)
            rollout = replace(rollout, courses={**rollout.courses, group.name: judged, **held})
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
    held = sorted(name for name in seen - {under_way} if rollout.courses[name].verdict is None)
    return {name: _held_back(rollout.courses[name], failed) for name in held}


def _held_back(course: GroupProgress, failed: str) -> GroupProgress:
    what = "deployed" if course.verdicts else "attempted"
    verdicts = {**dict.fromkeys(Phase, GroupVerdict.FAILED), **course.verdicts}
    return replace(course, verdicts=verdicts, reason=f"not {what}: {failed} failed")
