"""Selects the stops that are in force and describes them: hosts that fail in the same way share a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import ago
from zkdeployment.model.cluster import ClusterState, short
from zkdeployment.model.listing import listing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.model.cluster import Cluster
    from zkdeployment.model.stop import GroupStop, Stop

#: How many hosts a sentence names.
_NAMED = 3


def stops_in_force(cluster: Cluster | None, stops: Iterable[Stop]) -> tuple[Stop, ...]:
    """Return the stops that explain the present cluster version, the oldest first."""
    state = None if cluster is None else cluster.state
    if state not in (ClusterState.STOPPED, ClusterState.HELD):
        return ()
    relevant = (stop for stop in stops if stop.is_hold or state is ClusterState.STOPPED)
    return tuple(sorted(relevant, key=lambda stop: stop.time))


def describe_stops(stops: Iterable[Stop], now: float) -> list[str]:
    """Return a sentence for each reason, in the order of the stops; ``now`` is in seconds since the epoch."""
    alike: dict[tuple[object, ...], list[Stop]] = {}
    for stop in stops:
        alike.setdefault((stop.by, stop.revision, stop.step, stop.reason), []).append(stop)
    sentences = [f"{_sentence(group)} ({ago(group[0].time, now)})" for group in alike.values()]
    replaced = sum(stop.replaced for group in alike.values() for stop in group)
    if replaced:
        sentences.append(f"{replaced} more stops were recorded; only the first and the last ones are kept")
    return sentences


def describe_group_stops(stops: Iterable[GroupStop], now: float) -> list[str]:
    """Return a sentence for each stopped group, with the act that ends its stop."""
    return [
        f"{stop} ({ago(stop.stop.time, now)}); publish a change of the group, or 'zkdeployment intent resume"
        f" {stop.group} --reason TEXT'"
        for stop in stops
    ]


def _sentence(group: Sequence[Stop]) -> str:
    first = group[0]
    if len(group) == 1:
        return str(first)
    hosts = listing([f"{stop.host_name} ({stop.host_id})" for stop in group], _NAMED)
    return f"{hosts} failed at {first.step} of {short(first.revision)}: {first.reason}"
