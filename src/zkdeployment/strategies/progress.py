"""The progress of a rollout: begin and end, joining hosts, operators' acts, recovery, and the next state.

``RECOVERY_TRANSITIONS`` is the whole state machine of a recovery. Each stage is recorded with the rollout, so that
a succeeding coordinator continues after its predecessor was killed.

A late joiner runs both phases under the limits of its groups, and its outcome counts for their criteria.

All functions are pure: the recorded state contains everything that the successor of a killed coordinator needs.
``advance`` combines operators' acts, halts, absences, membership, the groups and the late joiners.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from zkdeployment.base.cluster import ClusterState, Revision, short
from zkdeployment.strategies import phases, state_machine, timekeeping
from zkdeployment.strategies.criteria import proving
from zkdeployment.strategies.group_analysis import kept_analyses, waiting_reason
from zkdeployment.strategies.permission import Grant, Phase, PhaseReport, without_hosts
from zkdeployment.strategies.phases import brief
from zkdeployment.strategies.state import (
    ActivePhase,
    Directive,
    Ending,
    Recovery,
    RecoveryStage,
    RolloutAct,
    RolloutFacts,
    RolloutSnapshot,
    RolloutState,
)
from zkdeployment.strategies.state_machine import (
    NEXT_PHASE,
    PHASE_RULES,
    GroupVerdict,
    HostProgress,
    Rollout,
    RolloutResult,
    Task,
)
from zkdeployment.strategies.strategy import OnFailure, Strategy, is_open, members, next_opening

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


class RecoveryEvent(Enum):
    """An event that changes the stage of a recovery."""

    CRITICAL_GROUP_FAILED = "a critical group failed"
    COMMITTED = "the rollback was committed"
    PUBLISHED = "a syncer published the rollback"
    REFUSED = "the rollback is impossible or unwanted"


#: The stage after an event, by the stage before it (``None``: no recovery) and the event.
RECOVERY_TRANSITIONS: Mapping[tuple[RecoveryStage | None, RecoveryEvent], RecoveryStage] = {
    (None, RecoveryEvent.CRITICAL_GROUP_FAILED): RecoveryStage.DUE,
    (RecoveryStage.DUE, RecoveryEvent.COMMITTED): RecoveryStage.COMMITTED,
    (RecoveryStage.DUE, RecoveryEvent.REFUSED): RecoveryStage.REFUSED,
    (RecoveryStage.COMMITTED, RecoveryEvent.PUBLISHED): RecoveryStage.PUBLISHED,
    (RecoveryStage.COMMITTED, RecoveryEvent.REFUSED): RecoveryStage.REFUSED,
}

#: The stages in which the recovery still has work.
_UNFINISHED = frozenset({RecoveryStage.DUE, RecoveryStage.COMMITTED})


def begin_recovery(state: RolloutState) -> RolloutState:
    """Return a rollout with a failed critical group, with the recovery that its strategy requests."""
    if state.rollout.strategy.on_failure is not OnFailure.ROLLBACK:
        return state
    return recover(state, RecoveryEvent.CRITICAL_GROUP_FAILED)


def recover(state: RolloutState, event: RecoveryEvent, *, commit: str = "", reason: str = "") -> RolloutState:
    """Return the rollout after an event of its recovery."""
    before = state.recovery
    stage = RECOVERY_TRANSITIONS[None if before is None else before.stage, event]
    commit = commit or ("" if before is None else before.commit)
    return replace(state, recovery=Recovery(stage, commit, reason))


def is_recovery_pending(snapshot: RolloutSnapshot) -> bool:
    """Whether the recovery still has work: the fleet is still stopped in the publication whose rollout failed.

    Later publications that changed nothing for hosts continued the rollout.
    """
    state, cluster = snapshot.state, snapshot.cluster
    if state is None or state.recovery is None or state.sequence != snapshot.published.effective_since:
        return False
    stopped = cluster is not None and cluster.state is ClusterState.STOPPED
    return stopped and state.recovery.stage in _UNFINISHED


def settle_recovery(snapshot: RolloutSnapshot) -> RolloutState | None:
    """Return the rollout with the end of its recovery if the fleet no longer waits for it, else ``None``.

    An operator resumed the fleet, or the last coordinator ended before it recorded the publication.
    """
    state, cluster = snapshot.state, snapshot.cluster
    recovery = None if state is None else state.recovery
    if state is None or recovery is None or recovery.stage not in _UNFINISHED:
        return None
    if cluster is None or cluster.revision is None:
        return None  # a publication may be under way
    if recovery.commit and recovery.commit == snapshot.published.ordered:
        return recover(state, RecoveryEvent.PUBLISHED)
    committed = f"{recovery.commit} is committed, but " if recovery.commit else ""
    reason = f"{committed}the fleet continues with {short(cluster.revision)}"
    return recover(state, RecoveryEvent.REFUSED, reason=reason)


def takes_late_joiners(state: RolloutState) -> bool:
    """Whether hosts may still enter: the rollout is under way, or ended without stopping the fleet."""
    completed = state.ending is Ending.COMPLETED and state.rollout.result is not RolloutResult.FAILED
    return state.ended is None or completed


def close(state: RolloutState) -> RolloutState:
    """Return the rollout, without late joiners, absences and halt if hosts may no longer enter."""
    return (
        state
        if takes_late_joiners(state)
        else replace(state, late_joiners={}, late_since={}, absent={}, halted_since=None)
    )


def record_reports(state: RolloutState, facts: RolloutFacts) -> RolloutState:
    """Return the rollout with the reports of late joiners; a group that now misses its criteria fails."""
    reports = {
        host: report
        for host, phase in state.late_joiners.items()
        if (report := _report(state, host, phase, facts)) is not None
    }
    if not reports:
        return state
    errors = {host: brief(report.error) for host, report in reports.items() if report.error is not None}
    reached = {host: PHASE_RULES[state.late_joiners[host]].reached for host in reports}
    states = reached | dict.fromkeys(errors, HostProgress.FAILURE)
    rollout = replace(state.rollout, hosts={**state.rollout.hosts, **states})
    under_way = None if state.active_phase is None else state.active_phase.task.group
    return close(
        replace(
            state,
            rollout=state_machine.rejudge(rollout, errors.keys(), under_way),
            late_joiners={host: phase for host, phase in state.late_joiners.items() if host not in reports},
            late_since={host: when for host, when in state.late_since.items() if host not in reports},
            errors={**state.errors, **errors},
        )
    )


def grant_phases(state: RolloutState, facts: RolloutFacts) -> RolloutState:
    """Return the rollout with the late joiners that enter a phase now, prepared hosts first."""
    if state.halted_since is not None or not takes_late_joiners(state):
        return state
    rollout, states = state.rollout, state.rollout.hosts
    joined = _joined(state, facts)
    busy = Counter(name for host in state.late_joiners for name in _groups(rollout, host))
    new: dict[str, Phase] = {}
    for host in sorted(joined, key=lambda host: (states[host] is HostProgress.NOT_STARTED, host)):
        if all(busy[name] < state_machine.width(rollout, name) for name in joined[host]):
            busy.update(joined[host])
            new[host] = NEXT_PHASE[states[host]]
    entered = {host: state.late_since.get(host, facts.now) for host in [*state.late_joiners, *new]}
    if not new and entered == state.late_since:
        return state
    whole = {
        name: hosts | {host for host in new if name in joined[host]} for name, hosts in rollout.members.items()
    }
    return replace(
        state,
        rollout=replace(rollout, members=whole),
        late_joiners={**state.late_joiners, **new},
        late_since=entered,
    )


def late_grants(state: RolloutState) -> dict[str, Grant]:
    """Return the grants of late joiners, by host."""
    return {host: Grant(_groups(state.rollout, host)[0], phase) for host, phase in state.late_joiners.items()}


def late_moments(state: RolloutState) -> Iterator[float]:
    """Return when the passage of time changes the state, in seconds since the epoch."""
    if state.halted_since is None:
        for host, phase in state.late_joiners.items():
            yield from (moment for moment, _ in _limits(state, host, phase))
        yield from (timekeeping.moment(state, host) for host in state.late_joiners.keys() & state.absent.keys())


def _report(state: RolloutState, host: str, phase: Phase, facts: RolloutFacts) -> PhaseReport | None:
    report = facts.reports.get((phase, host))
    if report is not None:
        return report
    if timekeeping.is_gone(state, host, facts.now):
        return PhaseReport(facts.now, timekeeping.error(state))
    for deadline, ending in _limits(state, host, phase):
        if state.halted_since is None and facts.now >= deadline:
            return PhaseReport(facts.now, f"{phase.value}: it did not end{ending}")
    return None


def _limits(state: RolloutState, host: str, phase: Phase) -> Iterator[tuple[float, str]]:
    """Return the deadlines of a late joiner in its phase, which are those of its first group."""
    entered = state.late_since.get(host)
    if entered is not None:
        strategy = state.rollout.strategy
        group = strategy.group(_groups(state.rollout, host)[0])
        yield from timekeeping.limits(strategy, group, phase, begun=entered, last_progress=entered)


def _groups(rollout: Rollout, host: str) -> list[str]:
    """Return the groups of a host, in the order of the document."""
    return [group.name for group in rollout.strategy.groups if host in rollout.members[group.name]]


def _joined(state: RolloutState, facts: RolloutFacts) -> Mapping[str, list[str]]:
    """Return the hosts that may enter, each with its groups, which it may not have joined yet.

    A host that has a group without a verdict runs with that group. A host that has a failed group does not run.
    """
    rollout = state.rollout
    verdicts = {name: progress.verdict for name, progress in rollout.progress.items()}
    if GroupVerdict.SUCCESS not in verdicts.values():
        return {}
    not_successful = [name for name, verdict in verdicts.items() if verdict is not GroupVerdict.SUCCESS]
    others = frozenset[str]().union(*(rollout.members[name] for name in not_successful), state.late_joiners)
    unfinished, present = (*NEXT_PHASE,), facts.present
    came = {
        host: present[host]
        for host in rollout.hosts.keys() - others
        if rollout.hosts[host] in unfinished and host in present
    }
    if not came:
        return {}
    joined: dict[str, list[str]] = {host: [] for host in came}
    for group in rollout.strategy.groups:
        for host in members(group, came) | (rollout.members[group.name] & came.keys()):
            joined[host].append(group.name)
    return {
        host: names
        for host, names in joined.items()
        if names and all(verdicts[name] is GroupVerdict.SUCCESS for name in names)
    }


def admit_registered(state: RolloutState, facts: RolloutFacts) -> RolloutState:
    """Return the rollout with newly registered hosts; a host replaces the entry for its bare name."""
    new = {host: facts.present[host] for host in facts.present.keys() - state.rollout.hosts.keys()}
    if not new:
        return state
    host_names = {facts.name for facts in new.values()} - {None}
    replaced = {host for host in state.rollout.hosts.keys() & host_names if _is_bare_name(state, host, facts)}
    rollout = state_machine.dismiss(state.rollout, replaced) if replaced else state.rollout
    absent = {host: since for host, since in state.absent.items() if host not in replaced}
    return replace(state, rollout=state_machine.admit(rollout, new, successful=facts.current), absent=absent)


def _is_bare_name(state: RolloutState, host: str, facts: RolloutFacts) -> bool:
    """Whether an entry is only a target's host name: not registered, and never granted anything."""
    granted = {} if state.active_phase is None else state.active_phase.granted
    not_started = state.rollout.hosts[host] is HostProgress.NOT_STARTED
    absent = host not in facts.present
    return not_started and absent and host not in granted and host not in state.late_joiners


def withdraw(state: RolloutState, hosts: Collection[str]) -> RolloutState:
    """Return the rollout without those of the hosts that have not begun to deploy: they leave their groups."""
    active = state.active_phase
    deploying = {host for host, phase in state.late_joiners.items() if phase is Phase.DEPLOY}
    if active is not None and active.task.phase is Phase.DEPLOY:
        deploying |= active.granted.keys()
    return dismiss(state, set(hosts) - deploying)


def dismiss(state: RolloutState, hosts: Collection[str]) -> RolloutState:
    """Return the rollout without those of the hosts that have not finished: they leave their groups."""
    gone = {host for host in hosts if state.rollout.hosts.get(host) in NEXT_PHASE}
    if not gone:
        return state
    state = replace(_leave_phase(state, gone), absent=without_hosts(state.absent, gone))
    return replace(state, rollout=state_machine.dismiss(state.rollout, gone))


def stand_down(state: RolloutState, maintenance: Collection[str]) -> RolloutState:
    """Return the rollout in which hosts in maintenance leave the phase under way, without an outcome.

    They remain in their groups, and join late after their maintenance. A failure that a host has reported remains.
    """
    active = state.active_phase
    failed = set() if active is None else {host for host, report in active.reports.items() if report.error}
    busy = state.late_joiners.keys() | (set() if active is None else {*active.task.hosts})
    away = busy & set(maintenance) - failed
    return _leave_phase(state, away) if away else state


def _leave_phase(state: RolloutState, hosts: Collection[str]) -> RolloutState:
    """Return the rollout in which hosts are in no phase."""
    active = state.active_phase
    if active is not None:
        active = replace(
            active,
            task=replace(active.task, hosts=tuple(host for host in active.task.hosts if host not in hosts)),
            granted=without_hosts(active.granted, hosts),
            reports=without_hosts(active.reports, hosts),
        )
    return replace(
        state,
        active_phase=active,
        late_joiners=without_hosts(state.late_joiners, hosts),
        late_since=without_hosts(state.late_since, hosts),
    )


def restart_outdated(state: RolloutState, facts: RolloutFacts) -> tuple[RolloutState, RolloutFacts]:
    """Return the rollout in which hosts that lost the revision start again, and the matching facts.

    The facts has no reports by these hosts, because they reported before they lost the revision.
    """
    lost = {host for host in facts.outdated if state.rollout.hosts.get(host) is HostProgress.SUCCESS}
    if not lost or facts.halt:
        return state, facts
    reports = {key: report for key, report in facts.reports.items() if key[1] not in lost}
    state = replace(state, rollout=state_machine.restart(state.rollout, lost), proven=state.proven - lost)
    return state, replace(facts, reports=reports)


def restarted_hosts(before: RolloutState, after: RolloutState) -> frozenset[str]:
    """Return the hosts that had succeeded and start again: their reports have to be removed."""
    return frozenset(
        host
        for host, progress in before.rollout.hosts.items()
        if progress is HostProgress.SUCCESS and after.rollout.hosts.get(host) in NEXT_PHASE
    )


def start(
    strategy: Strategy,
    facts: RolloutFacts,
    *,
    sequence: int,
    attempt: int,
    revision: Revision,
    before: RolloutState | None = None,
) -> RolloutState:
    """Return the first state of a rollout; hosts that already have the revision count as successful.

    Hosts that stayed healthy with the revision in the rollout ``before`` need no second bake time, and its groups
    that passed no second analysis; values before the deploy phase are those of the rollout ``before``.
    """
    had = facts.current & facts.present.keys()
    same = before if before is not None and before.revision == revision else None
    return RolloutState(
        sequence=sequence,
        attempt=attempt,
        revision=revision,
        rollout=state_machine.begin(strategy, {**facts.absent, **facts.present}, successful=had),
        begun=facts.now,
        absent=timekeeping.at_start(strategy, facts),
        proven=frozenset() if same is None else same.proven & had,
        analyses={} if same is None else kept_analyses(same.rollout, same.analyses, strategy, had),
    )


def is_superseded(snapshot: RolloutSnapshot) -> bool:
    """Whether the newest rollout has not ended and belongs to an earlier publication."""
    state = snapshot.state
    return state is not None and state.ended is None and state.sequence != snapshot.published.effective_since


def next_attempt(snapshot: RolloutSnapshot) -> int | None:
    """Return the number of the attempt that begins now; ``None`` if none begins.

    A failed attempt stops the fleet at its end. If the fleet is active again, an operator resumed it: the next
    attempt begins.
    """
    state = snapshot.state
    if not snapshot.active:
        return None
    if state is None or state.sequence != snapshot.published.effective_since:
        return 1
    return state.attempt + 1 if has_failed(state) else None


def has_failed(state: RolloutState) -> bool:
    """Whether the rollout ended in a way that stops the fleet: aborted, or with a failed critical group."""
    completed = state.ending is Ending.COMPLETED
    return state.ending is Ending.ABORTED or (completed and state.rollout.result is RolloutResult.FAILED)


def supersede(state: RolloutState, now: float) -> RolloutState:
    """Return the rollout ended by a newer publication."""
    return end(state, Ending.SUPERSEDED, now)


def end(state: RolloutState, ending: Ending, now: float) -> RolloutState:
    """Return the ended rollout; late joiners may enter it only after a successful end.

    Hosts keep the progress that they reported in the phase under way. The failure of a critical group begins the
    recovery that the strategy requests.
    """
    state = _with_reports_of_phase(state)
    absent = {host: since for host, since in state.absent.items() if host in state.late_joiners}
    ended = close(
        replace(state, ended=now, ending=ending, active_phase=None, waiting="", waiting_since=None, absent=absent)
    )
    failed = ending is Ending.COMPLETED and ended.rollout.result is RolloutResult.FAILED
    return begin_recovery(ended) if failed else ended


def _with_reports_of_phase(state: RolloutState) -> RolloutState:
    """Return the rollout with the reports of the phase under way as the progress and the errors of hosts."""
    active = state.active_phase
    if active is None or not active.reports:
        return state
    errors = _reported_errors(active)
    reached = dict.fromkeys(active.reports, PHASE_RULES[active.task.phase].reached)
    hosts = {**state.rollout.hosts, **reached, **dict.fromkeys(errors, HostProgress.FAILURE)}
    return replace(state, rollout=replace(state.rollout, hosts=hosts), errors=failures(state))


def failures(state: RolloutState) -> Mapping[str, str]:
    """Return the errors of all hosts that failed, by host id, including those that the phase under way reported.

    The errors of the rollout include the errors of a phase only after its verdict.
    """
    active = state.active_phase
    return state.errors if active is None else {**state.errors, **_reported_errors(active)}


def _reported_errors(active: ActivePhase) -> dict[str, str]:
    return {host: brief(report.error) for host, report in active.reports.items() if report.error is not None}


def apply_acts(state: RolloutState, acts: Iterable[RolloutAct], now: float) -> RolloutState:
    """Return the rollout after the acts that are new to it, in order.

    An act on a rollout that hosts may no longer enter has no effect.
    """
    for act in acts:
        if act.number <= state.last_act_number or not takes_late_joiners(state):
            continue
        state = replace(state, last_act_number=act.number, acts=(*state.acts, act))
        match act.directive:
            case Directive.PROMOTE:
                state = _promote_group(state, act.group or "")
            case Directive.FAIL:
                state = _decide(state, act.group or "", rejection=str(act.act))
            case Directive.PAUSE:
                state = replace(state, paused=act.act)
            case Directive.RESUME:
                state = replace(state, paused=None)
            case Directive.ABORT:
                state = end(state, Ending.ABORTED, now)
    return state


def _promote_group(state: RolloutState, name: str) -> RolloutState:
    """Let a group pass whose metrics wait, or allow a group to begin.

    A manual group may begin; a promoted or automatic group may then begin without its required hosts.
    """
    if waiting_reason(state, name):
        return _decide(state, name, promoted=True)
    manual = {group.name for group in state.rollout.strategy.groups if group.pace.manual}
    if name in manual - state.promoted:
        return replace(state, promoted=state.promoted | {name})
    return replace(state, forced=state.forced | {name})


def _decide(state: RolloutState, name: str, **decision: Any) -> RolloutState:
    """Return the rollout with an operator's decision on a group whose metrics wait."""
    if not waiting_reason(state, name):
        return state
    state = replace(state, analyses={**state.analyses, name: replace(state.analyses[name], **decision)})
    if name not in state_machine.held_groups(state.rollout):
        return state
    analysis, states = state.analyses[name], state.rollout.hosts
    rollout = state_machine.release(state.rollout, name, analysis.rejection)
    healthy = {host for host in rollout.members[name] if states[host] is HostProgress.SUCCESS}
    return replace(state, rollout=rollout, proven=state.proven | (healthy if analysis.promoted else set()))


def advance(state: RolloutState, facts: RolloutFacts) -> RolloutState:
    """Return the rollout after all transitions that the facts allows.

    A second call with the same facts changes nothing.
    """
    state = timekeeping.note_coordination(state, facts.now)
    state = apply_acts(state, facts.acts, facts.now)
    if takes_late_joiners(state):
        state = timekeeping.note_halt(state, facts)
        state = stand_down(state, facts.maintenance)
        state = _track_absence(state, facts)
        state = admit_registered(state, facts)
        state, facts = restart_outdated(state, facts)
        state = _advance_hosts(state, facts)
        state = _track_absence(state, facts)  # some absent hosts may have finished in the meantime
    return timekeeping.track_coordination(state, facts.now)


def _advance_hosts(state: RolloutState, facts: RolloutFacts) -> RolloutState:
    """Record reports and grant phases until neither changes anything."""
    while True:
        before = state
        state = record_reports(state, facts)
        state = _advance_groups(state, facts)
        state = grant_phases(state, facts)
        if state is before:
            return state


def _advance_groups(state: RolloutState, facts: RolloutFacts) -> RolloutState:
    while state.ended is None:
        if state.active_phase is None:
            state = _open_phase(state, facts)
        before = state.active_phase
        if before is not None:
            state = phases.advance(state, before, facts)
        if state.active_phase is before and state.ended is None:
            return _record_halt(state, facts) if before is not None else state
    return state


def grants(state: RolloutState) -> Mapping[str, Grant]:
    """Return the grants by host, including withdrawn ones; all other hosts have none."""
    entered: dict[str, Grant] = {}
    for name in state.rollout.order:
        for task in state_machine.done_tasks(state.rollout, name):
            entered.update(dict.fromkeys(task.hosts, Grant(name, task.phase)))
    if state.active_phase is not None:
        task = state.active_phase.task
        entered.update(dict.fromkeys(state.active_phase.granted, Grant(task.group, task.phase)))
    groups = _last_groups(state.rollout) if state.errors else {}
    withdrawn = {host: Grant(groups.get(host, ""), None, error) for host, error in state.errors.items()}
    withdrawn |= phases.tolerated(state)
    # After the end the other hosts have finished, or follow the cluster version.
    return {**({} if state.ended is not None else entered), **late_grants(state), **withdrawn}


def _last_groups(rollout: Rollout) -> Mapping[str, str]:
    """Return the group with which each host was submitted to a phase last."""
    return {
        host: name
        for name in rollout.order
        for hosts in rollout.progress[name].submitted.values()
        for host in hosts
    }


def seconds_until_change(state: RolloutState, facts: RolloutFacts) -> float | None:
    """Return the seconds until the passage of time changes the state; ``None`` if it never does."""
    moments = [*late_moments(state)]
    if state.active_phase is not None:
        moments += phases.moments(state, state.active_phase, facts)
    elif state.ended is None and state.halted_since is None:
        moments += _openings(state, facts.now)
    return max(0.0, min(moments) - facts.now) if moments else None


def _track_absence(state: RolloutState, facts: RolloutFacts) -> RolloutState:
    return timekeeping.note(state, facts, proving(state))


def _open_phase(state: RolloutState, facts: RolloutFacts) -> RolloutState:
    """Begin the phase of the first group that may start.

    If no group may start, the rollout records the reasons of all groups. If no group is left, the rollout ends.
    After a critical group failed, groups that wait for an operator or for hosts delay neither the stop nor the
    rollback.
    """
    obstacles, halt, now = [], _halt_reason(state, facts), facts.now
    tasks = tuple(state_machine.ready_tasks(state.rollout))
    for task in tasks:
        obstacle = halt or _obstacle(state, task, now)
        if not obstacle:
            return replace(
                state,
                active_phase=ActivePhase(task, now, now),
                waiting="",
                waiting_since=None,
            )
        obstacles.append(obstacle)
    held = [
        f"{name} waits for {_promote_command(state, name)}: {waiting_reason(state, name)}"
        for name in state_machine.held_groups(state.rollout)
    ]
    failed = state.rollout.critical_failed
    awaited = [task for task in tasks if halt or not failed or _waits_for_window(state, task, now)]
    if not awaited and (failed or not held):
        return end(state, Ending.COMPLETED, now)
    return _record_waiting(state, "; ".join(dict.fromkeys([*held, *obstacles])), now)


def _record_halt(state: RolloutState, facts: RolloutFacts) -> RolloutState:
    return _record_waiting(state, _halt_reason(state, facts), facts.now)


def _record_waiting(state: RolloutState, reason: str, now: float) -> RolloutState:
    since = now if reason else None
    return state if state.waiting == reason else replace(state, waiting=reason, waiting_since=since)


def _halt_reason(state: RolloutState, facts: RolloutFacts) -> str:
    if state.paused is not None:
        return f"paused by {state.paused.by}"
    return "" if state.halted_since is None else facts.halt


def _promote_command(state: RolloutState, name: str) -> str:
    return f"'zkdeployment {state.kind.verb} promote {name}'"


def _obstacle(state: RolloutState, task: Task, now: float) -> str:
    """Return why a group may not start yet; a prepared group waits only for its required hosts."""
    if _waits_for_promotion(state, task):
        return f"{task.group} waits for {_promote_command(state, task.group)}"
    if _waits_for_window(state, task, now):
        return f"{task.group} waits for its time window"
    shortage = timekeeping.shortage(state, task.group)
    return f"{task.group} {shortage}" if shortage else ""


def _waits_for_promotion(state: RolloutState, task: Task) -> bool:
    group = state.rollout.strategy.group(task.group)
    return task.phase is Phase.PREPARE and group.pace.manual and group.name not in state.promoted


def _waits_for_window(state: RolloutState, task: Task, now: float) -> bool:
    """Whether a group waits for its time window, and not for a promotion, too."""
    windows = state.rollout.strategy.group(task.group).pace.windows
    return task.phase is Phase.PREPARE and not is_open(windows, now) and not _waits_for_promotion(state, task)


def _openings(state: RolloutState, now: float) -> Iterator[float]:
    """Return the opening times of windows, for groups that wait only for their window."""
    for task in state_machine.ready_tasks(state.rollout):
        if _waits_for_window(state, task, now):
            yield next_opening(state.rollout.strategy.group(task.group).pace.windows, now)
