"""The time that counts for the limits of a rollout, and the hosts that are absent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.host import RESTART
from zkdeployment.base.text import counted
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.state_machine import NEXT_PHASE, HostProgress
from zkdeployment.strategies.strategy import FLEET_DEADLINE, PROGRESS_DEADLINE, Group, MemberKind, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zkdeployment.strategies.state import ActivePhase, RolloutFacts, RolloutState


#: Seconds from the begin of one cycle of a coordinator to the next: at least, and in addition for each host.
_SHORTEST, _FOR_EACH = 0.2, 0.0001

#: Seconds between two records of the time of coordination.
_HEARTBEAT = 30.0

#: Seconds without such a record that count as a time without a leading coordinator.
_UNLED = 60.0


def cycle_interval(hosts: int) -> float:
    """Return the seconds between two cycles that coordinate a rollout over so many hosts.

    The coordinator handles all reports of this time together: the work of a cycle grows with the hosts.
    """
    return max(_SHORTEST, _FOR_EACH * hosts)


def limits(
    strategy: Strategy, group: Group, phase: Phase, *, begun: float, last_progress: float
) -> Iterator[tuple[float, str]]:
    """Return the deadlines of a phase, in seconds since the epoch, each with the end of its error message."""
    pace, deadline = group.pace, group.pace.progress_deadline
    own = pace.prepare_timeout if phase is Phase.PREPARE else pace.deploy_timeout
    default = strategy.prepare_timeout if phase is Phase.PREPARE else strategy.deploy_timeout
    timeout = default if own is None else own
    if timeout is not None:
        yield begun + timeout, f" within {timeout:g} s"
    elif deadline is None:
        deadline = FLEET_DEADLINE if strategy.member_kind is MemberKind.FLEET else PROGRESS_DEADLINE
    if deadline is not None:
        yield last_progress + deadline, f"; no progress for {deadline:g} s"


def note_coordination(state: RolloutState, now: float) -> RolloutState:
    """Return the rollout with this time of coordination; limits do not count the gap since the last one.

    A gap is a time without a coordinator, or a difference between the clocks of two coordinators, which may be
    negative.
    """
    if state.coordinated_at is None:
        return state
    gap = now - state.coordinated_at
    if 0 <= gap < _HEARTBEAT:
        return state
    if gap < 0 or gap > _UNLED:
        if gap < 0 or state.halted_since is None or not _is_analysed(state):
            state = _move_bake(state, lambda when: when + gap)
        if gap < 0 or state.halted_since is None:  # during a halt, the end of the halt subtracts the gap
            state = _move(state, lambda when: when + gap)
            state = replace(state, halted_since=None if state.halted_since is None else state.halted_since + gap)
    return replace(state, coordinated_at=now)


def track_coordination(state: RolloutState, now: float) -> RolloutState:
    """Return the rollout that records the times of coordination exactly while hosts may run a phase."""
    idle = state.active_phase is None and not state.late_joiners
    looked = None if idle else now if state.coordinated_at is None else state.coordinated_at
    return state if looked == state.coordinated_at else replace(state, coordinated_at=looked)


def note_halt(state: RolloutState, facts: RolloutFacts) -> RolloutState:
    """Return the rollout with the begin or end of a halt; limits and absences do not count the time of a halt."""
    if state.paused is not None or facts.halt:
        return state if state.halted_since is not None else replace(state, halted_since=facts.now)
    if state.halted_since is None:
        return state
    waited = max(0.0, facts.now - state.halted_since)

    def shift(when: float) -> float:
        return min(facts.now, when + waited)

    state = _move(replace(state, halted_since=None), shift)
    return _move_bake(state, shift) if _is_analysed(state) else state


def counted_until(state: RolloutState, now: float) -> float:
    """Return the end of the time that counts: now, or the beginning of the current halt."""
    return now if state.halted_since is None else min(now, state.halted_since)


def bake_elapsed(state: RolloutState, active: ActivePhase, now: float) -> float | None:
    """Return the seconds of the bake time that have passed; ``None`` before it begins.

    The bake time also runs during a halt, except for groups with an analysis.
    """
    if active.baking_since is None:
        return None
    elapsed = (counted_until(state, now) if _is_analysed(state) else now) - active.baking_since
    return round(elapsed, 3)  # times since the epoch are less exact


def baked_at(state: RolloutState, active: ActivePhase) -> float | None:
    """Return when the bake time of the active group is over; ``None`` before it begins."""
    if active.baking_since is None:
        return None
    return active.baking_since + state.rollout.strategy.group(active.task.group).pace.bake_time


def baking_for(state: RolloutState, now: float) -> float:
    """Return the seconds for which the active group has waited for its bake time; 0 without such a wait."""
    active = state.active_phase
    elapsed = None if active is None else bake_elapsed(state, active, now)
    if active is None or elapsed is None:
        return 0.0
    return min(elapsed, state.rollout.strategy.group(active.task.group).pace.bake_time)


def baked(state: RolloutState, active: ActivePhase, now: float) -> bool:
    """Whether the bake time of the active group is over."""
    end = baked_at(state, active)
    return end is not None and (counted_until(state, now) if _is_analysed(state) else now) >= end


def _is_analysed(state: RolloutState) -> bool:
    """Whether metrics of the active group are measured."""
    active = state.active_phase
    return active is not None and bool(state.rollout.strategy.group(active.task.group).pace.analysis)


def _move_bake(state: RolloutState, shift: Callable[[float], float]) -> RolloutState:
    """Move the begin of the bake time."""
    active = state.active_phase
    if active is None or active.baking_since is None:
        return state
    return replace(state, active_phase=replace(active, baking_since=shift(active.baking_since)))


def _move(state: RolloutState, shift: Callable[[float], float]) -> RolloutState:
    """Move all begins of limits and absences; 0 stays, because such an absence does not block the rollout."""
    active = state.active_phase
    if active is not None:
        active = replace(active, begun=shift(active.begun), last_progress=shift(active.last_progress))
    return replace(
        state,
        active_phase=active,
        absent={host: since and shift(since) for host, since in state.absent.items()},
        late_since={host: shift(when) for host, when in state.late_since.items()},
    )


def at_start(strategy: Strategy, facts: RolloutFacts) -> Mapping[str, float]:
    """Return the hosts that are absent when a rollout begins, with the time of absence that counts.

    Absent hosts do not block the rollout: their time is 0. A host that deregistered within the last ``RESTART``
    seconds is assumed to be restarting and is waited for.
    """
    here = facts.present.keys() | facts.rebooting
    absent = dict.fromkeys(sorted(facts.absent.keys() - here), 0.0)
    grace = RESTART - strategy.absent_after
    return absent | {host: facts.left_at[host] + grace for host in absent.keys() & facts.left_at.keys()}


def note(state: RolloutState, facts: RolloutFacts, proving: frozenset[str]) -> RolloutState:
    """Return the rollout with the absences of unfinished hosts, and of hosts in their bake time (``proving``)."""
    here = facts.present.keys() | facts.rebooting
    if state.ended is None:
        states = state.rollout.hosts
        away = [host for host in states if host not in here]
        tracked = [host for host in away if states[host] in NEXT_PHASE or host in proving]
    else:
        tracked = sorted(state.late_joiners.keys() - here)
    begins = dict.fromkeys(facts.maintenance, 0.0)  # such an absence does not block the rollout
    absent = {host: begins.get(host, state.absent.get(host, facts.now)) for host in tracked}
    return state if absent == state.absent else replace(state, absent=absent)


def is_gone(state: RolloutState, host: str, now: float) -> bool:
    """Whether a host has been absent for longer than ``absent_after``; the time of a halt does not count."""
    since = state.absent.get(host)
    return since is not None and counted_until(state, now) >= since + _absent_after(state)


def moment(state: RolloutState, host: str) -> float:
    """Return when an absent host counts as gone, in seconds since the epoch."""
    return state.absent[host] + _absent_after(state)


def error(state: RolloutState) -> str:
    """Return the error of a host that is gone."""
    return f"{state.kind.is_absent} for {_absent_after(state):g} s"


def shortage(state: RolloutState, name: str) -> str:
    """Return a sentence if a group has too few hosts for its next phase; empty if the phase may begin.

    A critical group requires at least one of its hosts, as a group whose hosts are all absent cannot fail. A
    prepared group requires one host that is prepared or has finished.
    """
    group, members = state.rollout.strategy.group(name), state.rollout.members[name]
    prepared = Phase.PREPARE in state.rollout.progress[name].verdicts
    required = group.require_hosts or (1 if group.critical and members else 0)
    required = min(1, required) if prepared else required
    useful = {HostProgress.PREPARED} if prepared else NEXT_PHASE.keys()
    states = {host: state.rollout.hosts[host] for host in members}
    present = sum(
        1
        for host, progress in states.items()
        if progress not in NEXT_PHASE or (progress in useful and host not in state.absent)
    )
    if present >= required or name in state.forced:
        return ""
    kind = state.kind
    requirement = f"prepared and {kind.takes_part}" if prepared else kind.takes_part
    return f"requires {counted(required, f'{requirement} {kind.noun}')}, found {present}"


def _absent_after(state: RolloutState) -> float:
    return state.rollout.strategy.absent_after
