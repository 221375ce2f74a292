"""Sentences that describe a rollout and its groups: the state, what a group waits for, the final report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import age
from zkdeployment.fleet.rollouts.states import group_state, rollout_state
from zkdeployment.model.cluster import short
from zkdeployment.model.listing import listing
from zkdeployment.rollout.absence import shortage
from zkdeployment.rollout.late_joiners import is_open
from zkdeployment.rollout.state import Ending
from zkdeployment.rollout.state_machine import GroupVerdict, HostProgress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zkdeployment.model.strategy import Group, Window
    from zkdeployment.rollout.state import RolloutState

#: How many hosts a sentence names, and how many failed groups the final report names.
_NAMED_HOSTS = 5
_NAMED_GROUPS = 20

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

#: The headings of lists of hosts that did not succeed, by state.
UNSUCCESSFUL = {
    HostProgress.FAILURE: "failed",
    HostProgress.PREPARED: "prepared only",
    HostProgress.NOT_STARTED: "not started",
}
_COUNTED = {HostProgress.SUCCESS: "succeeded", **UNSUCCESSFUL}


def describe_rollout(state: RolloutState, *, led: bool) -> str:
    """Return a sentence on the state of a rollout; ``led`` means that a coordinator runs."""
    verdicts = [course.verdict for course in state.rollout.progress.values()]
    progress = f"{verdicts.count(GroupVerdict.SUCCESS)} of {len(verdicts)} groups succeeded"
    if GroupVerdict.FAILED in verdicts:
        progress += f", {verdicts.count(GroupVerdict.FAILED)} failed"
    if state.ended is not None:
        paused = f"; {state.paused}" if state.paused is not None and is_open(state) else ""
        recovery = "" if state.recovery is None else f"; {state.recovery}"
        return f"{rollout_state(state).value}: {progress}{paused}{recovery}"
    if not led:
        return f"no coordinator runs, so the rollout does not continue; {progress}"
    if state.paused is not None:
        return f"{state.paused}; {progress}"
    parts = [state.waiting, progress] if state.waiting else [progress]
    if state.active_phase is not None:
        group = state.active_phase.task.group
        parts.insert(0, f"{group} is {group_state(state, group).value}")
    return "; ".join(parts)


def describe_group(state: RolloutState, group: Group, now: float) -> str:
    """Return why a group failed, what it is doing, or what it waits for; empty for a group that succeeded.

    ``now`` is in seconds since the epoch.
    """
    course = state.rollout.progress[group.name]
    if course.verdict is not None:
        return course.reason
    active_phase = state.active_phase
    if active_phase is not None and active_phase.task.group == group.name:
        if active_phase.baking_since is not None:
            left = active_phase.baking_since + group.pace.bake_time - now
            if left <= 0 and group.pace.healthy_checks:
                return "all hosts are done; their checks have no results since the deployment yet"
            return f"all hosts are done; bake time ends in {age(left)}"
        task = active_phase.task
        return f"{len(active_phase.reports)} of {len(task.hosts)} hosts finished {task.phase.value}"
    if state.ended is not None:
        return "never begun"
    return _describe_waiting(state, group)


def _describe_waiting(state: RolloutState, group: Group) -> str:
    courses = state.rollout.progress
    before = [parent for parent in group.depends_on if courses[parent].verdict is not GroupVerdict.SUCCESS]
    if before:
        return f"after {', '.join(before)}"
    if group.pace.manual and group.name not in state.promoted:
        return "the group is manual and waits to be promoted"
    if state.active_phase is not None:
        return f"after {state.active_phase.task.group}, which is under way"
    if missing := shortage(state, group.name):
        return f"{missing}; the group waits for these hosts, or to be promoted"
    return "" if not group.pace.windows else f"starts only {' or '.join(map(_window, group.pace.windows))}"


def final_report(state: RolloutState) -> str:
    """Return the final report in one line: the result, counts of hosts, failed groups with reasons, some hosts."""
    aborted = f" ({state.acts[-1].act})" if state.ending is Ending.ABORTED and state.acts else ""
    head = f"rollout {state.id} of {short(state.revision)}: {rollout_state(state).value}{aborted}"
    counts = host_counts(state.rollout.hosts.values())
    recovery = [] if state.recovery is None else [str(state.recovery)]
    return "; ".join([head, counts, *_failed_groups(state), *_unsuccessful_hosts(state), *recovery])


def _failed_groups(state: RolloutState) -> list[str]:
    failures = []
    for group in state.rollout.strategy.groups:
        course = state.rollout.progress[group.name]
        if course.verdict is GroupVerdict.FAILED:
            failures.append(f"{'critical ' if group.critical else ''}group {group.name} failed ({course.reason})")
    more = len(failures) - _NAMED_GROUPS
    return failures if more <= 0 else [*failures[:_NAMED_GROUPS], f"{more} more groups failed"]


def _unsuccessful_hosts(state: RolloutState) -> Iterator[str]:
    for unsuccessful, heading in UNSUCCESSFUL.items():
        hosts = sorted(host for host, progress in state.rollout.hosts.items() if progress is unsuccessful)
        if hosts:
            yield f"{heading}: {listing(hosts, _NAMED_HOSTS)}"


def host_counts(states: Iterable[HostProgress]) -> str:
    """Return how many hosts there are, and how many in each state."""
    counts = Counter(states)
    total = counts.total()
    parts = (f"{counts[state]} {_COUNTED[state]}" for state in _COUNTED if counts[state])
    return f"{total} {'host' if total == 1 else 'hosts'}: {', '.join(parts) or 'none'}"


def _window(window: Window) -> str:
    days = "" if len(window.days) == len(_DAYS) else " ".join(_DAYS[day] for day in sorted(window.days)) + " "
    return f"{days}{_clock(window.start)}-{_clock(window.end)} {window.zone}"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
