"""Why a host's turn has not come in a rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import ago
from zkdeployment.fleet.explanation import Cause, Explanation
from zkdeployment.fleet.rollouts import group_words, is_due, rollout_state
from zkdeployment.model.cluster import short
from zkdeployment.rollout.absence import shortage
from zkdeployment.rollout.state_machine import GroupVerdict, HostProgress
from zkdeployment.rollout.tasks import width

if TYPE_CHECKING:
    from zkdeployment.fleet.snapshot import Snapshot
    from zkdeployment.model.host import Identity
    from zkdeployment.model.strategy import Group
    from zkdeployment.rollout.state import RolloutState

#: How many hosts a sentence names.
_NAMED = 5

_SHOW = "'zkdeployment rollout show' shows all groups"
_AGAIN = (
    "push a fix; or 'zkdeployment resume --latest' publishes the branch's tip again, and a rollout begins anew"
)


def why_not_granted(snapshot: Snapshot, identity: Identity, now: float) -> Explanation | None:
    """Say why a host may not begin, or go on, by the strategy; ``None`` if it may, or if there is no strategy."""
    if not snapshot.governed:
        return None
    running = snapshot.rollout
    if running is None or is_due(running) or (running.ended is None and snapshot.coordinator is None):
        return _unled(snapshot, identity)
    if _is_granted(running, identity.id):
        return None
    groups = [one for one in running.rollout.strategy.groups if identity.id in running.rollout.members[one.name]]
    if not groups:
        return _answer(
            f"{identity} is in no group of the strategy {running.rollout.strategy.name}, so it keeps what it has.",
            (),
            ("give it a group: its facts are in its configuration, the selectors in the strategy",),
        )
    if identity.id in running.errors:
        return _failed(running, identity, running.errors[identity.id])
    if running.ended is not None:
        return _over(running, identity, groups)
    return _turn(running, identity, groups, now)


def _unled(snapshot: Snapshot, identity: Identity) -> Explanation:
    what = "has not begun" if is_due(snapshot.rollout) else "does not go on"
    sentence = f"{identity} waits: the rollout of {short(snapshot.published)} by {snapshot.strategy} {what}."
    if snapshot.coordinator is not None:
        return _answer(sentence, (f"{snapshot.coordinator} coordinates",))
    return _answer(sentence, ("no coordinator runs",), ("systemctl start zkdeployment-coordinator",))


def why_failed(snapshot: Snapshot, identity: Identity, error: str) -> Explanation | None:
    """Say what follows from a host's failure where the fleet goes on without it; ``None`` if it does not."""
    running = snapshot.rollout
    if not snapshot.governed or running is None or is_due(running) or identity.id not in running.errors:
        return None
    return _failed(running, identity, error)


def _answer(sentence: str, facts: tuple[str, ...] = (), advice: tuple[str, ...] = ()) -> Explanation:
    return Explanation(Cause.ROLLOUT, sentence, facts, (*advice, _SHOW))


def _is_granted(running: RolloutState, host_id: str) -> bool:
    stage = running.active_phase
    at_work = stage is not None and host_id in stage.granted and host_id not in stage.reports
    late = host_id in running.late_joiners and running.rollout.hosts.get(host_id) is not HostProgress.FAILURE
    return at_work or late


def _failed(running: RolloutState, identity: Identity, error: str) -> Explanation:
    return Explanation(
        Cause.FAILED,
        f"{identity} failed in this rollout, and is not let in again: {error}",
        (*_end(running), "its failure is judged by its group's criteria; it stopped nobody else by itself"),
        ("on the host: the output is under /var/log/zkdeployment", _AGAIN, _SHOW),
    )


def _over(running: RolloutState, identity: Identity, groups: list[Group]) -> Explanation:
    failed = [one for one in groups if running.rollout.progress[one.name].verdict is GroupVerdict.FAILED]
    if failed:
        reason = running.rollout.progress[failed[0].name].reason
        return _answer(
            f"{identity} was left out of the rollout: its group {failed[0].name} failed ({reason}).",
            _end(running),
            (_AGAIN,),
        )
    return _late(running, identity, groups)


def _end(running: RolloutState) -> tuple[str, ...]:
    return () if running.ended is None else (f"the rollout is over: {rollout_state(running).value}",)


def _late(running: RolloutState, identity: Identity, groups: list[Group]) -> Explanation:
    """Say what a host waits for whose groups have all succeeded."""
    facts = _end(running)
    came = f"{identity} did not have the revision, or was not there, when its group {groups[0].name} succeeded"
    if running.paused is not None:
        return _answer(
            f"{came}; it waits because the rollout is paused: {running.paused}.",
            facts,
            ("'zkdeployment rollout resume' goes on",),
        )
    for group in groups:
        busy = sorted(host for host in running.late_joiners if host in running.rollout.members[group.name])
        if len(busy) >= width(running.rollout, group.name):
            named = ", ".join(busy[:_NAMED])
            return _answer(f"{came}; max_parallel of {group.name} lets it begin after {named}.", facts)
    return _answer(f"{came}; the coordinator lets it in.", facts)


def _turn(running: RolloutState, identity: Identity, groups: list[Group], now: float) -> Explanation:
    courses, stage = running.rollout.progress, running.active_phase
    open_groups = [one for one in groups if courses[one.name].verdict is None]
    group = next((one for one in open_groups if stage is not None and stage.task.group == one.name), None)
    facts = [running.waiting] if running.waiting and stage is not None else []
    if running.paused is not None:
        return _answer(
            f"{identity} waits because the rollout is paused: {running.paused} ({ago(running.paused.time, now)}).",
            tuple(facts),
            ("'zkdeployment rollout resume' goes on",),
        )
    if group is not None and stage is not None:
        done = f"{len(stage.reports)} of {len(stage.task.hosts)} hosts are through"
        return _answer(
            f"{identity} waits for its turn in group {group.name}, whose {stage.task.phase.value} is under way.",
            (done, *facts),
        )
    if not open_groups:
        return _over(running, identity, groups)
    first = open_groups[0]
    waits = group_words(running, first, now)
    promote = (first.pace.manual and first.name not in running.promoted) or bool(shortage(running, first.name))
    under_way = ""
    if stage is not None:
        at_work = running.rollout.strategy.group(stage.task.group)
        under_way = f"{at_work.name}: {group_words(running, at_work, now)}"
    return _answer(
        f"{identity} waits for the turn of its group {first.name}: {waits or 'any moment'}.",
        tuple(one for one in (under_way, *facts) if one),
        (f"'zkdeployment rollout promote {first.name} --reason TEXT' lets it begin",) if promote else (),
    )
