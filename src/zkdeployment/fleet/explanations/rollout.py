"""Explains why a rollout has not granted a phase to a host, and the consequences of a failure in a rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.durations import ago
from zkdeployment.base.text import listing
from zkdeployment.fleet.explanations.explanation import Cause, Explanation
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress, width
from zkdeployment.strategies.timekeeping import shortage
from zkdeployment.strategies.views import describe_group, is_attempt_due, rollout_state

if TYPE_CHECKING:
    from zkdeployment.base.host import Identity
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.strategies.strategy import Group

#: The most hosts that a sentence names.
_NAMED = 5

_SHOW = "'zkdeployment rollout show' shows all groups"
_RETRY = "push a fix; or begin a new rollout of the branch's tip with 'zkdeployment resume --latest'"
_RESUME = "'zkdeployment rollout resume' continues the rollout"


def explain_missing_grant(snapshot: FleetSnapshot, identity: Identity, now: float) -> Explanation | None:
    """Explain why the rollout does not let a host start; ``None`` if the host may, or if there is no strategy.

    ``now`` is in seconds since the epoch.
    """
    if not snapshot.governed:
        return None
    state = snapshot.rollout
    if state is None or is_attempt_due(state) or (state.ended is None and snapshot.coordinator is None):
        return _explain_standstill(snapshot, identity)
    if _is_granted(state, identity.id):
        return None
    groups = [group for group in state.rollout.strategy.groups if identity.id in state.rollout.members[group.name]]
    if not groups:
        strategy = state.rollout.strategy.name
        return _explanation(
            f"{identity} is in no group of the strategy {strategy}, so the host keeps its present version.",
            advice=(
                "to add the host to a group: change the host's facts in its configuration, or a group's selector",
            ),
        )
    if identity.id in state.errors:
        return _explain_failure(state, identity, state.errors[identity.id])
    if state.ended is not None:
        return _explain_ended(state, identity, groups)
    return _explain_turn(state, identity, groups, now)


def explain_rollout_failure(snapshot: FleetSnapshot, identity: Identity, error: str) -> Explanation | None:
    """Explain a host's failure that did not stop the fleet; ``None`` for failures outside of a rollout."""
    state = snapshot.rollout
    if not snapshot.governed or state is None or is_attempt_due(state) or identity.id not in state.errors:
        return None
    return _explain_failure(state, identity, error)


def _explain_standstill(snapshot: FleetSnapshot, identity: Identity) -> Explanation:
    problem = "has not begun" if is_attempt_due(snapshot.rollout) else "does not continue"
    sentence = f"{identity} waits: the rollout of {short(snapshot.published)} by {snapshot.strategy} {problem}."
    if snapshot.coordinator is not None:
        return _explanation(sentence, (f"{snapshot.coordinator} is the coordinator",))
    return _explanation(sentence, ("no coordinator runs",), ("systemctl start zkdeployment-coordinator",))


def _explanation(sentence: str, facts: tuple[str, ...] = (), advice: tuple[str, ...] = ()) -> Explanation:
    return Explanation(Cause.ROLLOUT, sentence, facts, (*advice, _SHOW))


def _is_granted(state: RolloutState, host_id: str) -> bool:
    active_phase = state.active_phase
    in_phase = active_phase is not None and host_id in active_phase.granted and host_id not in active_phase.reports
    joins_late = host_id in state.late_joiners and state.rollout.hosts.get(host_id) is not HostProgress.FAILURE
    return in_phase or joins_late


def _explain_failure(state: RolloutState, identity: Identity, error: str) -> Explanation:
    return Explanation(
        Cause.FAILED,
        f"{identity} failed, and this rollout does not retry the host: {error}",
        (
            *_end(state),
            "the failure counts in the group's success criteria; it does not stop other hosts",
        ),
        ("on the host: the output is under /var/log/zkdeployment", _RETRY, _SHOW),
    )


def _explain_ended(state: RolloutState, identity: Identity, groups: list[Group]) -> Explanation:
    failed = [group for group in groups if state.rollout.progress[group.name].verdict is GroupVerdict.FAILED]
    if failed:
        reason = state.rollout.progress[failed[0].name].reason
        return _explanation(
            f"{identity} was left out of the rollout: its group {failed[0].name} failed ({reason}).",
            _end(state),
            (_RETRY,),
        )
    return _explain_late_joiner(state, identity, groups)


def _end(state: RolloutState) -> tuple[str, ...]:
    return () if state.ended is None else (f"the rollout is over: {rollout_state(state).value}",)


def _explain_late_joiner(state: RolloutState, identity: Identity, groups: list[Group]) -> Explanation:
    """Explain the wait of a host whose groups have all succeeded."""
    facts = _end(state)
    late = f"{identity} was absent or without the revision when its group {groups[0].name} succeeded"
    if state.paused is not None:
        return _explanation(
            f"{late}; the host waits because the rollout is paused: {state.paused}.", facts, (_RESUME,)
        )
    for group in groups:
        busy = sorted(host for host in state.late_joiners if host in state.rollout.members[group.name])
        if len(busy) >= width(state.rollout, group.name):
            return _explanation(
                f"{late}; max_parallel of {group.name} lets the host begin after {listing(busy, _NAMED)}.", facts
            )
    return _explanation(f"{late}; the coordinator starts the host next.", facts)


def _explain_turn(state: RolloutState, identity: Identity, groups: list[Group], now: float) -> Explanation:
    courses, active_phase = state.rollout.progress, state.active_phase
    facts = [state.waiting] if state.waiting and active_phase is not None else []
    if state.paused is not None:
        return _explanation(
            f"{identity} waits because the rollout is paused: {state.paused} ({ago(state.paused.time, now)}).",
            tuple(facts),
            (_RESUME,),
        )
    undecided = [group for group in groups if courses[group.name].verdict is None]
    if active_phase is not None and any(active_phase.task.group == group.name for group in undecided):
        phase = active_phase.task.phase.value
        finished = f"{len(active_phase.reports)} of {len(active_phase.task.hosts)} hosts finished {phase}"
        return _explanation(
            f"{identity} waits for its turn in group {active_phase.task.group}, whose {phase} is under way.",
            (finished, *facts),
        )
    if not undecided:
        return _explain_ended(state, identity, groups)
    return _explain_waiting_group(state, identity, undecided[0], facts, now)


def _explain_waiting_group(
    state: RolloutState, identity: Identity, group: Group, facts: list[str], now: float
) -> Explanation:
    needs_promotion = (group.pace.manual and group.name not in state.promoted) or bool(shortage(state, group.name))
    if state.active_phase is not None:
        active = state.rollout.strategy.group(state.active_phase.task.group)
        facts = [f"{active.name}: {describe_group(state, active, now)}", *facts]
    waits_for = describe_group(state, group, now) or "the group is about to begin"
    return _explanation(
        f"{identity} waits for its group {group.name}: {waits_for}.",
        tuple(facts),
        (f"'zkdeployment rollout promote {group.name} --reason TEXT' lets the group begin",)
        if needs_promotion
        else (),
    )
