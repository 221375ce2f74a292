"""Rollouts as operators see them: states, sentences, the directives that a rollout accepts, and what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.act import Decision, DecisionForm
from zkdeployment.base.cluster import Revision, short
from zkdeployment.base.durations import age, clock_time
from zkdeployment.base.records import APART, OMITTED, Key, Record, shown
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.strategies.analysis_views import MetricStatus, metric_statuses, summarize_metrics
from zkdeployment.strategies.group_analysis import waiting_reason
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.progress import failures, has_failed, takes_late_joiners
from zkdeployment.strategies.state import ActivePhase, Directive, Ending, RolloutState
from zkdeployment.strategies.state_machine import (
    GroupVerdict,
    HostProgress,
    RolloutResult,
    held_groups,
    ready_tasks,
)
from zkdeployment.strategies.strategy import Group, MemberKind, Window, unmatched_selectors
from zkdeployment.strategies.timekeeping import bake_elapsed, baked_at, shortage

if TYPE_CHECKING:
    from zkdeployment.base.host import Facts


class GroupState(Enum):
    """The state of a group in a rollout."""

    WAITING = "waiting"
    PREPARING = "preparing"
    DEPLOYING = "deploying"
    BAKING = "baking"
    OPERATOR = "waiting for an operator"
    UNFINISHED = "unfinished"  # the rollout ended before the group had a result
    SUCCESS = "success"
    FAILED = "failed"


class RolloutProgressState(Enum):
    """The state of a whole rollout."""

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
_PHASES = {Phase.PREPARE: GroupState.PREPARING, Phase.DEPLOY: GroupState.DEPLOYING}


def rollout_state(state: RolloutState) -> RolloutProgressState:
    """Return the state of a rollout."""
    match state.ending:
        case Ending.ABORTED:
            return RolloutProgressState.ABORTED
        case Ending.SUPERSEDED:
            return RolloutProgressState.SUPERSEDED
        case Ending.COMPLETED:
            return _RESULTS[state.rollout.result]
    return RolloutProgressState.UNDER_WAY if state.paused is None else RolloutProgressState.PAUSED


def is_attempt_due(state: RolloutState | None) -> bool:
    """Return whether the coordinator has to begin a rollout, or another attempt after a failed one.

    A failed rollout stops the fleet, so if hosts may start after a failed rollout, an operator has resumed the
    fleet.
    """
    return state is None or rollout_state(state) in {RolloutProgressState.FAILED, RolloutProgressState.ABORTED}


def group_state(state: RolloutState, name: str) -> GroupState:
    """Return the state of a group."""
    verdict = state.rollout.progress[name].verdict
    if verdict is not None:
        return GroupState.SUCCESS if verdict is GroupVerdict.SUCCESS else GroupState.FAILED
    if state.ended is not None:
        return GroupState.UNFINISHED
    if name in held_groups(state.rollout):
        return GroupState.OPERATOR
    active_phase = state.active_phase
    if active_phase is None or active_phase.task.group != name:
        return GroupState.WAITING
    return _PHASES[active_phase.task.phase] if active_phase.baking_since is None else GroupState.BAKING


def host_states(state: RolloutState) -> dict[str, str]:
    """Return the state of each host by its id: a ``HostProgress``, or the phase that the host is in."""
    states = {host: progress.value for host, progress in state.rollout.hosts.items()}
    active_phase = state.active_phase
    if active_phase is not None:
        phase = _PHASES[active_phase.task.phase].value
        finished = HostProgress.PREPARED if active_phase.task.phase is Phase.PREPARE else HostProgress.SUCCESS
        states |= dict.fromkeys(active_phase.granted, phase)
        states |= {
            host: finished.value if report.error is None else HostProgress.FAILURE.value
            for host, report in active_phase.reports.items()
        }
    for host, late_phase in state.late_joiners.items():
        if state.rollout.hosts.get(host) not in {HostProgress.SUCCESS, HostProgress.FAILURE}:
            states[host] = _PHASES[late_phase].value
    return states


def last_movement(state: RolloutState) -> float:
    """Return when the rollout last changed, in seconds since the epoch."""
    acts = [taken.act.time for taken in state.acts]
    phase_progress = [] if state.active_phase is None else [state.active_phase.last_progress]
    ended = [] if state.ended is None else [state.ended]
    return max([state.begun, *acts, *phase_progress, *ended])


#: The limits of the hosts that a sentence names, and of the failed groups that the final report names.
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
        paused = f"; {state.paused}" if state.paused is not None and takes_late_joiners(state) else ""
        recovery = "" if state.recovery is None else f"; {state.recovery}"
        return f"{rollout_state(state).value}{_abortion(state)}: {progress}{paused}{recovery}"
    if not led:
        kind = state.kind
        return f"no {kind.leader} runs, so the {kind.whole} does not continue; {progress}"
    if state.paused is not None:
        return f"{state.paused}; {progress}"
    parts = [state.waiting, progress] if state.waiting else [progress]
    if state.active_phase is not None:
        group = state.active_phase.task.group
        parts.insert(0, f"{group} is {group_state(state, group).value}")
    return "; ".join(parts)


def describe_group(state: RolloutState, group: Group, now: float) -> str:
    """Return a sentence on a group: its fault, its work or its obstacle; empty for a group that succeeded.

    ``now`` is in seconds since the epoch.
    """
    course = state.rollout.progress[group.name]
    if course.verdict is not None:
        return course.reason
    active_phase = state.active_phase
    if active_phase is not None and active_phase.task.group == group.name:
        if active_phase.baking_since is not None:
            return _describe_baking(state, active_phase, group, now)
        task = active_phase.task
        noun = state.kind.noun
        return f"{len(active_phase.reports)} of {len(task.hosts)} {noun}s finished {task.phase.value}"
    if group.name in held_groups(state.rollout):
        advice = "; promote the group, or fail it" if state.ended is None else ""
        return f"{waiting_reason(state, group.name)}{advice}"
    if state.ended is not None:
        return _describe_unfinished(state, group)
    return _describe_waiting(state, group)


def _describe_unfinished(state: RolloutState, group: Group) -> str:
    """Return the hosts of a group without a verdict that have the revision, after the end of the rollout."""
    states = {host: state.rollout.hosts[host] for host in sorted(state.rollout.members[group.name])}
    if group.name not in state.rollout.order and set(states.values()) <= {HostProgress.NOT_STARTED}:
        return "never begun"
    noun, ended = state.kind.noun, f"the {rollout_state(state).value} {state.kind.whole}"
    having = [host for host, progress in states.items() if progress is HostProgress.SUCCESS]
    if not having:
        return f"no {noun} reported {short(state.revision)} of {ended}"
    verb = "runs" if len(having) == 1 else "run"
    return f"{listing(having, _NAMED_HOSTS)} {verb} {short(state.revision)} of {ended}"


def _describe_baking(state: RolloutState, active: ActivePhase, group: Group, now: float) -> str:
    noun = state.kind.noun
    left = group.pace.bake_time - (bake_elapsed(state, active, now) or 0.0)
    if left > 0:
        metrics = summarize_metrics(state, group)
        return f"all {noun}s are done; bake time ends in {age(left)}{metrics and f'; metrics: {metrics}'}"
    if waiting := waiting_reason(state, group.name):
        return (
            f"all {noun}s are done; {waiting}; it waits for {age(left + group.pace.analysis_clock.deadline)} more"
        )
    if group.pace.healthy_checks:
        return "all hosts are done; their checks have no results since the deployment yet"
    return f"all {noun}s are done; bake time ends in 0 s"


def _describe_waiting(state: RolloutState, group: Group) -> str:
    manual = group.pace.manual and group.name not in state.promoted
    if before := _groups_before(state, group):
        has_begun = state.active_phase is not None or before[0] in state.rollout.order
        manner = "is under way" if has_begun else "begins first"
        order = "" if set(before) <= set(group.depends_on) else f", which {manner}"
        return f"after {', '.join(before)}{order}{'; then the group waits to be promoted' if manual else ''}"
    if manual:
        return "the group is manual and waits to be promoted"
    if missing := shortage(state, group.name):
        return f"{missing}; the group waits for these {state.kind.noun}s, or to be promoted"
    return "" if not group.pace.windows else f"starts only {' or '.join(map(_window, group.pace.windows))}"


def _groups_before(state: RolloutState, group: Group) -> list[str]:
    """Return the groups that end before another group may begin: its parents, or the group under way.

    Without a group under way, as in a pause, these are the groups that begin before it without a decision.
    """
    courses = state.rollout.progress
    if parents := [name for name in group.depends_on if courses[name].verdict is not GroupVerdict.SUCCESS]:
        return parents
    if state.active_phase is not None:
        return [state.active_phase.task.group]
    ready = [task.group for task in ready_tasks(state.rollout)]
    if group.name not in ready:
        return ready
    return [name for name in ready[: ready.index(group.name)] if _begins_alone(state, name)]


def _begins_alone(state: RolloutState, name: str) -> bool:
    """Whether a ready group begins as soon as the rollout may continue: it waits for no person, host or window."""
    pace = state.rollout.strategy.group(name).pace
    return not (pace.manual and name not in state.promoted) and not pace.windows and not shortage(state, name)


def final_report(state: RolloutState) -> str:
    """Return the final report in one line: the result, counts of hosts, failed groups with reasons, some hosts."""
    kind = state.kind
    head = f"{kind.whole} {state.id} of {short(state.revision)}: {rollout_state(state).value}{_abortion(state)}"
    counts = host_counts(state.rollout.hosts.values(), kind)
    recovery = [] if state.recovery is None else [str(state.recovery)]
    return "; ".join([head, counts, *_failed_groups(state), *_unsuccessful_hosts(state), *recovery])


def _abortion(state: RolloutState) -> str:
    return f" ({state.acts[-1].act})" if state.ending is Ending.ABORTED and state.acts else ""


def aborted_rollout(state: RolloutState) -> str:
    """Return the sentence on the abort that an operator weighs before a resumption; empty for other rollouts."""
    if state.ending is not Ending.ABORTED:
        return ""
    having = sorted(host for host, progress in state.rollout.hosts.items() if progress is HostProgress.SUCCESS)
    runs = "run" if len(having) > 1 else "runs"
    where = f"; {listing(having, _NAMED_HOSTS)} {runs} its revision" if having else ""
    whole = f"the {state.kind.whole} {state.id} of {short(state.revision)}"
    return f"{whole} was aborted{_abortion(state)}{where}; it begins again at the first group"


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


def host_counts(states: Iterable[HostProgress], kind: MemberKind = MemberKind.HOST) -> str:
    """Return the number of hosts, and the number in each state."""
    counts = Counter(states)
    total = counts.total()
    parts = (f"{counts[state]} {_COUNTED[state]}" for state in _COUNTED if counts[state])
    return f"{counted(total, kind.noun)}: {', '.join(parts) or 'none'}"


def _window(window: Window) -> str:
    days = "" if len(window.days) == len(_DAYS) else " ".join(_DAYS[day] for day in sorted(window.days)) + " "
    return f"{days}{clock_time(window.start)}-{clock_time(window.end)} {window.zone}"


def directive_objection(state: RolloutState, directive: Directive, group: str | None = None) -> str | None:
    """Return why a directive would have no effect on a rollout; ``None`` if the rollout accepts the directive.

    The resumption of a failed promotion begins another attempt. Operators resume the fleet after a failed rollout.
    """
    whole = f"the {state.kind.whole} {state.id}"
    if directive is Directive.RESUME and state.kind is MemberKind.FLEET and has_failed(state):
        return None
    if state.ended is not None and not _acts_on_late_joiners(state, directive):
        return f"{whole} is over: {rollout_state(state).value}"
    match directive:
        case Directive.PROMOTE:
            return _promotion_objection(state, group)
        case Directive.FAIL:
            return _failure_objection(state, group)
        case Directive.PAUSE if state.paused is not None:
            return f"{whole} is paused already: {state.paused}"
        case Directive.RESUME if state.paused is None:
            return f"{whole} is not paused"
    return None


def directive_situation(state: RolloutState | None, directive: Directive, group: str | None = None) -> str:
    """Return a clause on the facts that an operator weighs before a directive; empty before a pause."""
    if state is None or directive is Directive.PAUSE:
        return ""
    paused = "" if state.paused is None else f" ({state.paused})"
    revision, kind = short(state.revision), state.rollout.strategy.member_kind
    whole = f"the {kind.whole} {state.id} of {revision} is {rollout_state(state).value}{paused}"
    known = group is not None and group in state.rollout.progress
    return f"{whole}, and its group {group} is {group_state(state, group).value}" if known and group else whole


def directive_description(
    directive: Directive, group: str | None = None, kind: MemberKind = MemberKind.HOST
) -> str:
    """Return a directive as text for the record of acts."""
    return f"{kind.whole} {directive.value}" + ("" if group is None else f" {group}")


def _acts_on_late_joiners(state: RolloutState, directive: Directive) -> bool:
    """Return whether a directive has an effect on hosts that join a rollout after its end."""
    if directive is Directive.ABORT:
        return bool(state.late_joiners) and takes_late_joiners(state)
    return directive in {Directive.PAUSE, Directive.RESUME} and takes_late_joiners(state)


def _failure_objection(state: RolloutState, name: str | None) -> str | None:
    if name is None or name not in state.rollout.progress:
        return _unknown_group(state, name)
    if waiting_reason(state, name):
        return None
    kind = state.kind
    abort = f"'zkdeployment {kind.verb} abort'"
    return f"the group {name} does not wait for its metrics; {abort} ends the whole {kind.whole}"


def _unknown_group(state: RolloutState, name: str | None) -> str:
    strategy = state.rollout.strategy
    names = ", ".join(group.name for group in strategy.groups)
    return f"there is no group {name} in {strategy.name}; expected one of: {names}"


def _promotion_objection(state: RolloutState, name: str | None) -> str | None:
    groups = {group.name: group for group in state.rollout.strategy.groups}
    if name not in groups:
        return _unknown_group(state, name)
    course = state.rollout.progress[name]
    if course.verdict is GroupVerdict.FAILED:
        return f"the group {name} failed: {course.reason}"
    if waiting_reason(state, name):
        return None
    needs_promotion = (groups[name].pace.manual and name not in state.promoted) or shortage(state, name)
    if course.verdict is None and needs_promotion:
        return _early_promotion(state, groups[name])
    if name in state.promoted | state.forced:
        return f"the group {name} was promoted already"
    kind = state.kind
    present = f"its required {kind.noun}s are {kind.takes_part}"
    return f"the group {name} is not manual, and {present}: it begins without a promotion"


def _early_promotion(state: RolloutState, group: Group) -> str | None:
    """Return why a group does not wait for its promotion yet: it would begin later, without a decision then."""
    before = [f"{name} is still {group_state(state, name).value}" for name in _groups_before(state, group)]
    if not before:
        return None
    return f"the group {group.name} does not wait for a promotion: {', '.join(before)}; promote it when it waits"


@dataclass(frozen=True, slots=True)
class GroupStatus(Record):
    """A group of a rollout, with the state of each of its ``hosts`` by host id.

    ``description`` is the reason of a failure, the current work, or the obstacle. ``depth`` is the number of
    groups on the longest path of dependencies above the group.
    """

    name: str
    critical: bool
    state: GroupState
    depends_on: tuple[str, ...] = ()
    depth: Annotated[int, APART] = 0
    hosts: Mapping[str, str] = field(default_factory=dict)
    description: Annotated[str, Key("words")] = ""
    analysis: Annotated[tuple[MetricStatus, ...], OMITTED] = ()

    def count(self, *states: HostProgress) -> int:
        """Return the number of the group's hosts in one of these states."""
        return sum(1 for state in self.hosts.values() if state in {counted.value for counted in states})

    @shown("successful")
    def _successful(self) -> int:
        return self.count(HostProgress.SUCCESS)

    @shown("failed")
    def _failed(self) -> int:
        return self.count(HostProgress.FAILURE)

    @shown("total")
    def _total(self) -> int:
        return len(self.hosts)


@dataclass(frozen=True, slots=True)
class RolloutStatus(Record):
    """The status of a rollout; ``errors`` and the states of ``hosts`` are keyed by host id.

    ``description`` is one sentence on the present state. Times are in seconds since the epoch; ``moved`` is the
    time of the last change. ``led`` means that a coordinator runs. ``due`` means that the rollout failed, an
    operator resumed the fleet, and the coordinator has to begin another attempt. ``warnings`` name mistakes in the
    strategy.
    """

    id: str
    revision: Revision
    strategy: str
    state: RolloutProgressState
    description: Annotated[str, Key("words")]
    groups: tuple[GroupStatus, ...]
    begun: float
    moved: float
    led: Annotated[bool, Key("coordinator")] = True
    due: Annotated[bool, APART] = False
    ended: float | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    hosts: Annotated[Mapping[str, HostProgress], APART] = field(default_factory=dict)
    acts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether the rollout ended, and no further attempt is due."""
        return self.ended is not None and not self.due

    @shown("counts")
    def _counts(self) -> Mapping[HostProgress, int]:
        return Counter(self.hosts.values())


def rollout_status(
    state: RolloutState,
    *,
    led: bool,
    now: float,
    governed: bool = False,
    known: Mapping[str, Facts] | None = None,
) -> RolloutStatus:
    """Return the status of a rollout at ``now``, in seconds since the epoch.

    ``led`` means that a coordinator runs, ``governed`` that hosts deploy the rollout's revision under its strategy
    at present. ``known`` are the facts of all known hosts by id; selectors that match none of them are warnings.
    """
    due, errors = governed and is_attempt_due(state), failures(state)
    attempt = f"; another attempt has not begun{'' if led else ': no coordinator runs'}" if due else ""
    return RolloutStatus(
        id=state.id,
        revision=state.revision,
        strategy=state.rollout.strategy.name,
        state=rollout_state(state),
        description=describe_rollout(state, led=led) + attempt,
        groups=tuple(_groups(state, now)),
        begun=state.begun,
        moved=last_movement(state),
        led=led,
        due=due,
        ended=state.ended,
        errors=errors,
        hosts={**state.rollout.hosts, **dict.fromkeys(errors, HostProgress.FAILURE)},
        acts=tuple(str(taken.act) for taken in state.acts),
        warnings=() if known is None else unmatched_selectors(state.rollout.strategy, known),
    )


def rollout_changes(
    before: RolloutStatus | None, after: RolloutStatus, whole: str = MemberKind.HOST.whole
) -> Iterator[str]:
    """Yield a line for each change between two views; without ``before``, a line for everything."""
    former = {} if before is None else {group.name: group for group in before.groups}
    for warning in after.warnings:
        if before is None or warning not in before.warnings:
            yield f"warning: {warning}"
    for group in after.groups:
        previous = former.get(group.name)
        description = f" ({group.description})" if group.description else ""
        if previous is None or previous.state is not group.state:
            yield f"{group.name}: {group.state.value}{description}"
        for host, state in group.hosts.items():
            if previous is not None and previous.hosts.get(host) != state:
                yield f"{group.name}: {host}: {state}"
    for host, error in after.errors.items():
        if before is None or host not in before.errors:
            yield f"{host}: failed: {error}"
    if before is None or before.description != after.description:
        yield f"{whole} {after.id}: {after.description}"


def _groups(state: RolloutState, now: float) -> Iterator[GroupStatus]:
    """Yield the groups, parents before those that depend on them, each group's children right after it."""
    states = host_states(state)
    depths: dict[str, int] = {}
    remaining = list(state.rollout.strategy.groups)
    while remaining:
        ready = [group for group in remaining if depths.keys() >= {*group.depends_on}]
        order = [*depths]
        group = max(ready, key=lambda group: max(map(order.index, group.depends_on), default=-1))
        remaining.remove(group)
        depths[group.name] = max((depths[parent] + 1 for parent in group.depends_on), default=0)
        hosts = sorted(state.rollout.members[group.name])
        yield GroupStatus(
            name=group.name,
            critical=group.critical,
            state=group_state(state, group.name),
            depends_on=group.depends_on,
            depth=depths[group.name],
            hosts={host: states.get(host, HostProgress.NOT_STARTED.value) for host in hosts},
            description=describe_group(state, group, now),
            analysis=metric_statuses(state, group),
        )


def decisions(state: RolloutState) -> tuple[Decision, ...]:
    """Return the decisions for which a rollout under way waits; none is due while it can begin another group."""
    if state.ended is not None:
        return ()
    if state.paused is not None:
        return (_decision(state, Directive.RESUME, str(state.paused), state.paused.time),)
    since = _still_since(state) if state.waiting_since is None else state.waiting_since
    return tuple(
        _decision(state, Directive.PROMOTE, reason, since, name) for name, reason in _waiting_groups(state)
    )


def _still_since(state: RolloutState) -> float:
    """Return when the rollout changed last, or when the bake time of its active group was over after that."""
    end = None if state.active_phase is None else baked_at(state, state.active_phase)
    return last_movement(state) if end is None else max(last_movement(state), end)


def _decision(
    state: RolloutState, directive: Directive, reason: str, since: float, group: str | None = None
) -> Decision:
    """Return the decision that lets a group continue, or the whole rollout without a group."""
    verb = state.kind.verb
    label = f"{directive.value.capitalize()} {group or 'the rollout'}"
    reason_option = "--reason TEXT" if directive is Directive.PROMOTE else ""
    return Decision(
        "the rollout" if group is None else f"group {group}",
        reason,
        since,
        " ".join(filter(None, ("zkdeployment", verb, directive.value, group, reason_option))),
        DecisionForm(f"{verb}-{directive.value}", label, {"group": group or ""}),
        group,
    )


def _waiting_groups(state: RolloutState) -> Iterator[tuple[str, str]]:
    """Yield the groups that wait for operators, each with the reason."""
    for group in state.rollout.strategy.groups:
        if reason := waiting_reason(state, group.name):
            yield group.name, f"its metrics do not decide: {reason}"
    if state.active_phase is not None or not state.waiting:
        return
    for task in ready_tasks(state.rollout):
        group = state.rollout.strategy.group(task.group)
        if _groups_before(state, group):
            return
        if group.pace.manual and group.name not in state.promoted:
            yield group.name, "it is manual"
        elif missing := shortage(state, group.name):
            yield group.name, f"it {missing}"
