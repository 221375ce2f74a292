"""The events between two readings of the fleet.

To add a kind of event, add it to ``EventKind``, and compare two readings here, or in the ``events`` of a feature's
part of the feed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterState
from zkdeployment.fleet.events.event import EventKind, FleetEvent
from zkdeployment.fleet.feed.fleet_assembly import FleetReading, feed_parts
from zkdeployment.fleet.views.status import (
    HostState,
    host_status,
    rollout_of_wanted,
    wanted_revision,
    with_maintenance,
)
from zkdeployment.strategies.analysis import GroupAnalysis, MetricStage, describe_measurement, failures
from zkdeployment.strategies.analysis_views import describe_metric
from zkdeployment.strategies.views import describe_rollout, rollout_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.base.json_values import Value
    from zkdeployment.fleet.views.snapshot import FleetSnapshot

    _Difference = Callable[[FleetReading, FleetReading], Iterator[FleetEvent]]

#: The most characters of a text in an event.
_LONGEST = 300


def events_between(before: FleetReading, after: FleetReading) -> tuple[FleetEvent, ...]:
    """Return the events that lead from one reading to the next."""
    causes = (event for difference in _CAUSES for event in difference(before, after))
    parts = (event for part in feed_parts() for event in part.events(before.of(part), after.of(part)))
    effects = (event for difference in _EFFECTS for event in difference(before, after))
    return (*causes, *parts, *effects)


def _publications(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    old, new = before.fleet, after.fleet
    known = before.sequence, old.cluster, old.published, old.refusal, _waiting(before)
    if known == (after.sequence, new.cluster, new.published, new.refusal, _waiting(after)):
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
            "waiting": len(_waiting(after)),
        },
    )


def _waiting(reading: FleetReading) -> tuple[str, ...]:
    """Return the ids of the commits that a syncer found and did not publish."""
    return () if reading.syncer is None else tuple(commit.id for commit in reading.syncer.waiting)


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


def _analyses(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    """Yield an event for each first failed measurement of a metric, and for each verdict on one."""
    old, new = before.fleet.rollout, after.fleet.rollout
    if new is None or old is new or not new.analyses:
        return
    former = old.analyses if old is not None and old.revision == new.revision else {}
    for group in new.rollout.strategy.groups:
        known, analysis = (each.get(group.name, GroupAnalysis()) for each in (former, new.analyses))
        for metric in group.pace.analysis if analysis is not known else ():
            earlier, progress = known.progress(metric), analysis.progress(metric)
            first = failures(metric, progress) > 0 and failures(metric, earlier) == 0
            judged = progress.stage is not earlier.stage and progress.stage in _VERDICTS
            if first or judged:
                last = [describe_measurement(metric.passes.text, each) for each in progress.measurements[-1:]]
                body = {
                    "group": group.name,
                    "metric": metric.name,
                    "verdict": describe_metric(metric, progress),
                    "words": "".join(last)[:_LONGEST],
                }
                yield FleetEvent(EventKind.ANALYSIS, new.id, body)


#: The stages of a metric that are verdicts.
_VERDICTS = frozenset(
    {MetricStage.PASSED, MetricStage.FAILED, MetricStage.WAITING, MetricStage.STALE, MetricStage.OVERDUE}
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


def _hosts(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    """Yield an event for each host whose node or maintenance changed.

    A new cluster version alone yields no event of hosts.
    """
    new, kept = after.fleet, before.fleet.maintenance
    wanted = wanted_revision(new.cluster, new.published)
    rollout = rollout_of_wanted(new, wanted)
    former = {host.identity.id: host for host in before.fleet.hosts}
    for host in new.hosts:
        old = former.pop(host.identity.id, None)
        maintenance = new.maintenance.get(host.identity.id)
        if (old is host or old == host) and maintenance == kept.get(host.identity.id):
            continue
        status = with_maintenance(host_status(host, wanted, rollout), maintenance)
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
        yield FleetEvent(EventKind.HOST, host_id, {"name": gone.identity.name, **_away(new, host_id)})


def _away(fleet: FleetSnapshot, host_id: str) -> dict[str, Value]:
    """Return the state of a host that is not registered, and until when a host that reboots is expected back."""
    reboot = fleet.expected_back.get(host_id)
    if host_id in fleet.maintenance or reboot is None:
        return {"state": (HostState.MAINTENANCE if host_id in fleet.maintenance else HostState.ABSENT).value}
    return {"state": HostState.REBOOTING.value, "step": reboot.step[:_LONGEST], "deadline": reboot.deadline}


def _absences(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    """Yield an event for each unregistered host that appeared, left, or changed its maintenance or reboot."""
    old, new = before.fleet, after.fleet
    if old.absent is new.absent and (old.maintenance, old.reboots) == (new.maintenance, new.reboots):
        return
    former, present = ({host.identity.id: host for host in fleet.absent} for fleet in (old, new))
    registered = {host.identity.id for fleet in (old, new) for host in fleet.hosts}
    changed = {
        each
        for each in present
        if (old.maintenance.get(each), old.reboots.get(each)) != (new.maintenance.get(each), new.reboots.get(each))
    }
    for host_id in sorted(((former.keys() ^ present.keys()) | changed) - registered):
        known = former.get(host_id) or present[host_id]
        state = _away(new, host_id) if host_id in present else {"state": "forgotten"}
        yield FleetEvent(EventKind.HOST, host_id, {"name": known.identity.name, **state})


def _instances(before: FleetReading, after: FleetReading) -> Iterator[FleetEvent]:
    """Yield an event if other instances are down than before; their services or their hosts may have changed."""
    down = after.status.down
    if before.status.down.missing != down.missing or before.status.down.count != down.count:
        subject, words = "down" if down.count else "none", down.sentence[:_LONGEST]
        yield FleetEvent(EventKind.INSTANCES, subject, {"count": down.count, "words": words})


#: The comparisons whose events are sent first, and last: causes come before their effects.
_CAUSES: tuple[Callable[[FleetReading, FleetReading], Iterator[FleetEvent]], ...] = (
    _publications,
    _stops,
    _rollouts,
    _analyses,
)
_EFFECTS: tuple[Callable[[FleetReading, FleetReading], Iterator[FleetEvent]], ...] = (
    _hosts,
    _absences,
    _instances,
)
