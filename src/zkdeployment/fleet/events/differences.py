"""The events between two readings of the fleet.

To add a kind of event, add it to ``EventKind``, and to ``_DIFFERENCES`` the function that compares two readings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterState
from zkdeployment.fleet.events.event import MANY_CHECKS, EventKind, FleetEvent
from zkdeployment.fleet.views.status import host_status, rollout_of_wanted, wanted_revision
from zkdeployment.intents.documents.values import subject_text
from zkdeployment.pools.rules.changes import level_changes, node_changes, session_changes
from zkdeployment.strategies.states import describe_rollout, rollout_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.fleet.feed.fleet_assembly import FleetReading
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.intents.rules.instances import IntentInstance, IntentRecord

#: The most characters of a text in an event.
_LONGEST = 300


def events_between(before: FleetReading, after: FleetReading) -> tuple[FleetEvent, ...]:
    """Return the events that lead from one reading to the next."""
    return tuple(event for difference in _DIFFERENCES for event in difference(before, after))


def _publications(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    old, new = before.fleet, after.fleet
    known = before.sequence, old.cluster, old.published, old.refusal
    if known == (after.sequence, new.cluster, new.published, new.refusal):
        return
    yield FleetEvent(
        EventKind.PUBLICATION,
        str(after.sequence),
        {
            "sequence": after.sequence,
            "revision": new.published,
            "wanted": wanted_revision(new.cluster, new.published),
            "cluster": None if new.cluster is None else new.cluster.state.value,
            "refused": None if new.refusal is None else new.refusal.revision,
        },
    )


def _rollouts(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    old, new = before.fleet, after.fleet
    if (old.rollout, old.coordinator, old.governed) == (new.rollout, new.coordinator, new.governed):
        return
    state = new.rollout
    if state is None:
        yield FleetEvent(EventKind.ROLLOUT, "none", {"state": None, "revision": None, "words": None})
        return
    yield FleetEvent(
        EventKind.ROLLOUT,
        state.id,
        {
            "state": rollout_state(state).value,
            "revision": state.revision,
            "words": describe_rollout(state, led=new.coordinator is not None)[:_LONGEST],
        },
    )


def _stops(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    old, new = before.fleet, after.fleet
    known = _halt(old), old.stops, old.request, old.group_stops
    if known == (_halt(new), new.stops, new.request, new.group_stops):
        return
    halt = _halt(new)
    newest = max(new.stops, key=lambda stop: stop.time, default=None)
    yield FleetEvent(
        EventKind.STOP,
        "none" if halt is None else halt.value,
        {
            "stops": len(new.stops),
            "newest": None if newest is None or halt is None else str(newest)[:_LONGEST],
            "requested": new.request is not None,
            "groups": [stop.group for stop in new.group_stops],
        },
    )


def _halt(fleet: FleetSnapshot) -> ClusterState | None:
    state = None if fleet.cluster is None else fleet.cluster.state
    return state if state in {ClusterState.STOPPED, ClusterState.HELD} else None


def _intents(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    """Yield an event for each intent that changed; ``begun`` and ``ended`` concern its newest instance."""
    if before.intents is after.intents:
        return
    for subject in sorted(before.intents.keys() | after.intents.keys()):
        old, new = before.intents.get(subject), after.intents.get(subject)
        if _compared(old) == _compared(new):
            continue
        former, last = _newest(old), _newest(new)
        is_new = last is not None and (former is None or former.id != last.id)
        was_active = is_new or (former is not None and former.terminated is None)
        yield FleetEvent(
            EventKind.INTENT,
            subject_text(subject),
            {
                "state": None if new is None else new.state.value,
                "former": None if old is None else old.state.value,
                "instance": None if last is None else last.id,
                "begun": is_new,
                "ended": last is not None and last.terminated is not None and was_active,
            },
        )


def _checks(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    """Yield an event for each check instance that changed, or one for many if they are not all known."""
    old, new = before.checks, after.checks
    if new is None or new == old:
        return
    if new.number - (-1 if old is None else old.number) != 1 or new.total > len(new.changes):
        yield FleetEvent(EventKind.CHECK, MANY_CHECKS)
        return
    for change in new.changes:
        yield FleetEvent(EventKind.CHECK, change.instance, change.to_json())


def _sessions(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    if before.pools is not after.pools:
        for change in session_changes(before.pools, after.pools):
            yield FleetEvent(EventKind.SESSION, str(change.session.id), change.to_json())


def _pools(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    if before.pools is not after.pools:
        for change in level_changes(before.pools, after.pools):
            yield FleetEvent(EventKind.POOL, change.name, change.to_json())


def _nodes(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    if before.pools is not after.pools:
        for change in node_changes(before.pools, after.pools):
            yield FleetEvent(EventKind.NODE, str(change.node.id), change.to_json())


def _compared(record: IntentRecord | None) -> object:
    return None if record is None else (record.state, record.intent, _newest(record))


def _newest(record: IntentRecord | None) -> IntentInstance | None:
    return record.instances[-1] if record is not None and record.instances else None


def _hosts(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    """Yield an event for each host whose node changed; a new cluster version alone is no event of every host."""
    new = after.fleet
    wanted = wanted_revision(new.cluster, new.published)
    rollout = rollout_of_wanted(new, wanted)
    former = {host.identity.id: host for host in before.fleet.hosts}
    for host in new.hosts:
        old = former.pop(host.identity.id, None)
        if old is host or old == host:
            continue
        status = host_status(host, wanted, rollout)
        yield FleetEvent(
            EventKind.HOST,
            status.id,
            {
                "name": status.name,
                "state": status.state.value,
                "version": status.version,
                "step": None if status.step is None else status.step[:_LONGEST],
                "steps": None if status.steps is None else [*status.steps],
                "error": None if status.error is None else status.error[:_LONGEST],
            },
        )
    for host_id, gone in former.items():
        yield FleetEvent(EventKind.HOST, host_id, {"name": gone.identity.name, "state": "absent"})


def _absences(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    """Yield an event for each unregistered host that became known, or was forgotten."""
    old, new = before.fleet, after.fleet
    if old.absent is new.absent:
        return
    former, present = ({host.identity.id: host for host in fleet.absent} for fleet in (old, new))
    registered = {host.identity.id for fleet in (old, new) for host in fleet.hosts}
    for host_id in sorted((former.keys() ^ present.keys()) - registered):
        known = former.get(host_id) or present[host_id]
        state = "absent" if host_id in present else "forgotten"
        yield FleetEvent(EventKind.HOST, host_id, {"name": known.identity.name, "state": state})


#: What is compared, in the order in which the events are sent: causes before what they bring about.
_DIFFERENCES: tuple[Callable[[FleetReading, FleetReading], Iterator[FleetEvent]], ...] = (
    _publications,
    _stops,
    _rollouts,
    _intents,
    _checks,
    _sessions,
    _nodes,
    _pools,
    _hosts,
    _absences,
)
