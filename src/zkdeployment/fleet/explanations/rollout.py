"""Explains why a rollout does not let a host start: its turn, its failure, its group or the coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.durations import ago
from zkdeployment.base.stop import output_place
from zkdeployment.base.text import listing
from zkdeployment.fleet.explanations.explanation import Advice, Cause, Explanation
from zkdeployment.publishing.rules.convergence import is_excluded
from zkdeployment.strategies.progress import failures, takes_late_joiners
from zkdeployment.strategies.state import Directive
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress, width
from zkdeployment.strategies.strategy import members
from zkdeployment.strategies.views import describe_group, directive_objection, is_attempt_due, rollout_state

if TYPE_CHECKING:
    from zkdeployment.base.host import Host, Identity
    from zkdeployment.base.stop import FailureOutput
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.strategies.strategy import Group

#: The most hosts that a sentence names.
_NAMED_BUSY = 5

_SHOW = Advice("'zkdeployment rollout show' shows all groups", "rollout", "see all groups")
_RESUME = Advice("'zkdeployment rollout resume' continues the rollout", "rollout-resume", "continue the rollout")


def explain_following(host: Host) -> Explanation | None:
    """Explain the wait of a host that can be leased and is in no group; ``None`` if it does not wait."""
    if not host.is_waiting:
        return None
    return Explanation(
        Cause.ROLLOUT,
        f"{host.identity} can be leased, so it is in no group: it follows when the rollout has ended.",
        (f"the host {host.step}",),
        (Advice("'zkdeployment rollout show' shows the rollout", "rollout", "see the rollout"),),
    )


def explain_missing_grant(
    snapshot: FleetSnapshot, host: Host, output: FailureOutput | None, now: float
) -> Explanation | None:
    """Explain why the rollout does not let a host start; ``None`` if the host may, or if there is no strategy."""
    identity = host.identity
    if not snapshot.governed:
        return None
    state = snapshot.rollout
    if state is None or is_attempt_due(state):
        return _explain_standstill(snapshot, identity)
    if _is_granted(state, identity.id):
        return None
    if (error := failures(state).get(identity.id)) is not None:
        return _explain_failed_attempt(state, identity, error, output)
    if is_excluded(state, identity.id, host.facts):
        strategy = state.rollout.strategy.name
        return _explanation(
            f"{identity} is in no group of the strategy {strategy}, so the host keeps its present version.",
            advice=(
                "to add the host to a group: change the host's facts in its configuration, or a group's selector",
            ),
        )
    if snapshot.coordinator is None and takes_late_joiners(state):
        return _explain_standstill(snapshot, identity)
    groups = _groups_of(state, host)
    if state.ended is not None:
        return _explain_ended(state, identity, groups)
    return _explain_turn(state, identity, groups, now)


def _groups_of(state: RolloutState, host: Host) -> list[Group]:
    """Return the groups of a host; a host that registered after their verdicts is no member, but joins late."""
    groups, joined = state.rollout.strategy.groups, state.rollout.members
    return [group for group in groups if host.identity.id in joined[group.name]] or [
        group for group in groups if members(group, {host.identity.id: host.facts})
    ]


def explain_rollout_failure(
    snapshot: FleetSnapshot, identity: Identity, error: str, output: FailureOutput | None
) -> Explanation | None:
    """Explain a host's failure that did not stop the fleet; ``None`` for failures outside of a rollout."""
    state = snapshot.rollout
    if not snapshot.governed or state is None or is_attempt_due(state) or identity.id not in failures(state):
        return None
    return _explain_failed_attempt(state, identity, error, output)


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


def _explain_failed_attempt(
    state: RolloutState, identity: Identity, error: str, output: FailureOutput | None
) -> Explanation:
    return Explanation(
        Cause.FAILED,
        f"{identity} failed, and this rollout does not retry the host: {error}",
        (
            *_end(state),
            "the failure counts in the group's success criteria; it does not stop other hosts",
        ),
        (f"on the host: the output is {output_place(output)}", _retry(state), _SHOW),
    )


def _explain_ended(state: RolloutState, identity: Identity, groups: list[Group]) -> Explanation:
    failed = [group for group in groups if state.rollout.progress[group.name].verdict is GroupVerdict.FAILED]
    if failed:
        reason = state.rollout.progress[failed[0].name].reason
        return _explanation(
            f"{identity} was left out of the rollout: its group {failed[0].name} failed ({reason}).",
            _end(state),
            (_retry(state),),
        )
    return _explain_late_joiner(state, identity, groups)


def _retry(state: RolloutState) -> str:
    """Return the advice for hosts that a rollout excludes: a publication does not replace a rollout under way."""
    if state.ended is None:
        return "push a fix; or, when the rollout is over, 'zkdeployment resume --latest' begins another one"
    return "push a fix; or begin a new rollout of the branch's tip with 'zkdeployment resume --latest'"


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
                f"{late}; max_parallel of {group.name} lets the host begin after {listing(busy, _NAMED_BUSY)}.",
                facts,
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
    may_promote = directive_objection(state, Directive.PROMOTE, group.name) is None
    if state.active_phase is not None:
        active = state.rollout.strategy.group(state.active_phase.task.group)
        facts = [f"{active.name}: {describe_group(state, active, now)}", *facts]
    waits_for = describe_group(state, group, now) or "the group is about to begin"
    return _explanation(
        f"{identity} waits for its group {group.name}: {waits_for}.",
        tuple(facts),
        (
            Advice(
                f"'zkdeployment rollout promote {group.name} --reason TEXT' lets the group begin",
                "rollout-promote",
                "promote the group to let it begin",
                group=group.name,
            ),
        )
        if may_promote
        else (),
    )
