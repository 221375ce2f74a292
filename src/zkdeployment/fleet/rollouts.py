"""A rollout in words: how far it and its groups are, what each waits for, what may be asked, the final report."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import age
from zkdeployment.model.cluster import short
from zkdeployment.model.listing import listing
from zkdeployment.rollout.absence import shortage
from zkdeployment.rollout.late_joiners import is_open
from zkdeployment.rollout.state import Directive, Ending
from zkdeployment.rollout.state_machine import GroupVerdict, HostProgress, Phase, RolloutResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.model.strategy import Group, Window
    from zkdeployment.rollout.state import RolloutState

#: How many hosts a sentence names, and how many failed groups the final report.
_NAMED = 5
_REPORTED = 20

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class GroupState(Enum):
    """How far a group is."""

    WAITING = "waiting"
    PREPARING = "preparing"
    DEPLOYING = "deploying"
    BAKING = "baking"
    SUCCESS = "success"
    FAILED = "failed"


class RolloutProgressState(Enum):
    """How far a rollout is."""

    UNDER_WAY = "under way"
    PAUSED = "paused"
    SUCCESS = "success"
    PARTIAL = "success with failures"
    FAILED = "failed"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"


_RESULTS = {
    RolloutResult.SUCCESS: RolloutProgressState.SUCCESS,
    RolloutResult.PARTIAL: RolloutProgressState.PARTIAL,
    RolloutResult.FAILED: RolloutProgressState.FAILED,
}
#: The states of hosts that did not succeed, in words that introduce their names.
UNSUCCESSFUL = {
    HostProgress.FAILURE: "failed",
    HostProgress.PREPARED: "prepared only",
    HostProgress.NOT_STARTED: "not started",
}
_COUNTED = {HostProgress.SUCCESS: "succeeded", **UNSUCCESSFUL}
_PHASES = {Phase.PREPARE: GroupState.PREPARING, Phase.DEPLOY: GroupState.DEPLOYING}


def rollout_state(running: RolloutState) -> RolloutProgressState:
    """Say how far a rollout is."""
    match running.ending:
        case Ending.ABORTED:
            return RolloutProgressState.ABORTED
        case Ending.SUPERSEDED:
            return RolloutProgressState.SUPERSEDED
        case Ending.COMPLETED:
            return _RESULTS[running.rollout.result]
    return RolloutProgressState.UNDER_WAY if running.paused is None else RolloutProgressState.PAUSED


def is_due(running: RolloutState | None) -> bool:
    """Whether a rollout, or another attempt, is to begin where hosts go by the strategy: the last one failed.

    Its end stopped the fleet; if hosts may go on, somebody has resumed.
    """
    return running is None or rollout_state(running) in {RolloutProgressState.FAILED, RolloutProgressState.ABORTED}


def rollout_words(running: RolloutState, *, led: bool) -> str:
    """Say in a sentence how a rollout stands; ``led`` says whether a coordinator is there."""
    verdicts = [course.verdict for course in running.rollout.progress.values()]
    ready = f"{verdicts.count(GroupVerdict.SUCCESS)} of {len(verdicts)} groups succeeded"
    if GroupVerdict.FAILED in verdicts:
        ready += f", {verdicts.count(GroupVerdict.FAILED)} failed"
    if running.ended is not None:
        halted = f"; {running.paused}" if running.paused is not None and is_open(running) else ""
        return f"{rollout_state(running).value}: {ready}{halted}"
    if not led:
        return f"no coordinator runs, so nothing goes on; {ready}"
    if running.paused is not None:
        return f"{running.paused}; {ready}"
    parts = [running.waiting, ready] if running.waiting else [ready]
    if running.active_phase is not None:
        group = running.active_phase.task.group
        parts.insert(0, f"{group} is {group_state(running, group).value}")
    return "; ".join(parts)


def last_movement(running: RolloutState) -> float:
    """Return when anything last happened, in seconds since the epoch."""
    taken = [one.act.time for one in running.acts]
    stage = [] if running.active_phase is None else [running.active_phase.last_progress]
    return max([running.begun, *taken, *stage, *([] if running.ended is None else [running.ended])])


def report(running: RolloutState) -> str:
    """Return the final report in one line: the result, counts of hosts, failed groups with reasons, some hosts."""
    aborted = f" ({running.acts[-1].act})" if running.ending is Ending.ABORTED and running.acts else ""
    parts = [f"rollout {running.id} of {short(running.revision)}: {rollout_state(running).value}{aborted}"]
    parts.append(host_counts(running.rollout.hosts.values()))
    failed = []
    for group in running.rollout.strategy.groups:
        course = running.rollout.progress[group.name]
        if course.verdict is GroupVerdict.FAILED:
            failed.append(f"{'critical ' if group.critical else ''}group {group.name} failed ({course.reason})")
    parts += failed[:_REPORTED]
    if len(failed) > _REPORTED:
        parts.append(f"{len(failed) - _REPORTED} more groups failed")
    for state, words in UNSUCCESSFUL.items():
        hosts = sorted(host for host, found in running.rollout.hosts.items() if found is state)
        if hosts:
            parts.append(f"{words}: {listing(hosts, _NAMED)}")
    return "; ".join(parts)


def host_counts(states: Iterable[HostProgress]) -> str:
    """Return how many hosts there are, and how many in each state."""
    counts = Counter(states)
    total = counts.total()
    found = (f"{counts[state]} {_COUNTED[state]}" for state in _COUNTED if counts[state])
    return f"{total} {'host' if total == 1 else 'hosts'}: {', '.join(found) or 'none'}"


def host_words(running: RolloutState) -> dict[str, str]:
    """Return the state of each host in a word, also of those that are in a phase now."""
    words = {host: state.value for host, state in running.rollout.hosts.items()}
    stage = running.active_phase
    if stage is not None:
        at_work = _PHASES[stage.task.phase].value
        reached = HostProgress.PREPARED if stage.task.phase is Phase.PREPARE else HostProgress.SUCCESS
        words |= dict.fromkeys(stage.granted, at_work)
        words |= {
            host: reached.value if one.error is None else HostProgress.FAILURE.value
            for host, one in stage.reports.items()
        }
    for host, phase in running.late_joiners.items():
        if running.rollout.hosts.get(host) not in {HostProgress.SUCCESS, HostProgress.FAILURE}:
            words[host] = _PHASES[phase].value
    return words


def group_words(running: RolloutState, group: Group, now: float) -> str:
    """Say why a group failed, what it is doing, or what it waits for; nothing of one that succeeded."""
    course = running.rollout.progress[group.name]
    if course.verdict is not None:
        return course.reason
    stage = running.active_phase
    if stage is not None and stage.task.group == group.name:
        if stage.baking_since is not None:
            left = stage.baking_since + group.pace.bake_time - now
            return f"all hosts are done; it proves itself for {age(left)} more"
        return f"{len(stage.reports)} of {len(stage.task.hosts)} hosts are through with {stage.task.phase.value}"
    if running.ended is not None:
        return "never begun"
    courses = running.rollout.progress
    before = [parent for parent in group.depends_on if courses[parent].verdict is not GroupVerdict.SUCCESS]
    if before:
        return f"after {', '.join(before)}"
    if group.pace.manual and group.name not in running.promoted:
        return "it is manual and waits to be promoted"
    if stage is not None:
        return f"after {stage.task.group}, which is under way"
    if short := shortage(running, group.name):
        return f"{short}; it waits for them, or to be promoted"
    return "" if not group.pace.windows else f"starts only {' or '.join(map(_window, group.pace.windows))}"


def group_state(running: RolloutState, name: str) -> GroupState:
    """Say how far a group is."""
    verdict = running.rollout.progress[name].verdict
    if verdict is not None:
        return GroupState.SUCCESS if verdict is GroupVerdict.SUCCESS else GroupState.FAILED
    stage = running.active_phase
    if stage is None or stage.task.group != name:
        return GroupState.WAITING
    return _PHASES[stage.task.phase] if stage.baking_since is None else GroupState.BAKING


def _window(window: Window) -> str:
    days = "" if len(window.days) == len(_DAYS) else " ".join(_DAYS[day] for day in sorted(window.days)) + " "
    return f"{days}{_clock(window.start)}-{_clock(window.end)} {window.zone}"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def objection(running: RolloutState, directive: Directive, group: str | None = None) -> str | None:
    """Say why an operator's act on a rollout would do nothing; ``None`` if it makes sense."""
    lasts = directive in {Directive.PAUSE, Directive.RESUME} or (
        directive is Directive.ABORT and running.late_joiners
    )
    if running.ended is not None and not (lasts and is_open(running)):
        return f"the rollout {running.id} is over: {rollout_state(running).value}"
    match directive:
        case Directive.PROMOTE:
            return _promotion_objection(running, group)
        case Directive.PAUSE if running.paused is not None:
            return f"the rollout {running.id} is paused already: {running.paused}"
        case Directive.RESUME if running.paused is None:
            return f"the rollout {running.id} is not paused"
    return None


def _promotion_objection(running: RolloutState, name: str | None) -> str | None:
    groups = {group.name: group for group in running.rollout.strategy.groups}
    if name not in groups:
        return f"there is no group {name} in {running.rollout.strategy.name}; expected one of: {', '.join(groups)}"
    course = running.rollout.progress[name]
    if course.verdict is GroupVerdict.FAILED:
        return f"the group {name} failed: {course.reason}"
    if groups[name].pace.manual and name not in running.promoted:
        return None
    if course.verdict is None and shortage(running, name):
        return None
    if name in running.promoted | running.forced:
        return f"the group {name} was promoted already"
    return f"the group {name} is not manual, and has the hosts that it requires: it begins by itself"
