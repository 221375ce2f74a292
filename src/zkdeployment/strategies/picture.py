"""The picture of a rollout: its groups as a graph, and how fast the group under way advances.

Positions and widths are in percent of the picture's width, heights in pixels: the picture fills any screen. The
layers are those of Sugiyama, Tagawa and Toda (1981): a group stands below all groups on which it depends, and a
dependency that skips a layer keeps a place of its own in that layer.
"""

from __future__ import annotations

import bisect
import math
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from zkdeployment.base.durations import age
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.strategies.state_machine import HostProgress, width
from zkdeployment.strategies.strategy import misses
from zkdeployment.strategies.timekeeping import bake_elapsed
from zkdeployment.strategies.views import GroupState, GroupStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zkdeployment.strategies.state import RolloutState

#: Percent of the width: between two groups of a layer, of a dependency that skips a layer, of a narrow group.
_GAP, _PASSING, _NARROWEST = 1.0, 1.5, 14.0

#: Pixels: of a layer whose groups have ended, of any other layer, and between two layers.
_ENDED, _TALL, _BETWEEN = 34, 58, 28

#: Rounds in which the order of the layers is improved.
_ROUNDS = 4

_OVER = {GroupState.SUCCESS, GroupState.FAILED, GroupState.UNFINISHED}


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a group's bar: hosts in one state, named as the map of hosts names them."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class GroupBox:
    """A group in the picture, with its ``number`` in the list of groups; it is small after its end.

    ``is_alone`` is whether its layer has no other place, so that a long name has room beside it.
    """

    number: int
    name: str
    state: GroupState
    text: str
    x: float
    y: int
    width: float
    height: int
    segments: tuple[Segment, ...]
    is_alone: bool


@dataclass(frozen=True, slots=True)
class DependencyLine:
    """A part of a dependency; ``is_open`` while the first group has not succeeded."""

    x1: float
    y1: int
    x2: float
    y2: int
    is_open: bool


@dataclass(frozen=True, slots=True)
class RolloutPicture:
    """The groups and their dependencies; the ``height`` is in pixels."""

    height: int
    boxes: tuple[GroupBox, ...]
    lines: tuple[DependencyLine, ...]


#: A place in a layer: a group, or the dependency of one group on another that passes through the layer.
_Place = str | tuple[str, str, int]


def picture(state: RolloutState, groups: Sequence[GroupStatus]) -> RolloutPicture:
    """Return the picture of a rollout with these groups, parents before those that depend on them."""
    by_name = {group.name: group for group in groups}
    layers, chains = _layers(by_name)
    widest = max(sum(len(by_name[place].hosts) for place in layer if isinstance(place, str)) for layer in layers)
    spans: dict[_Place, tuple[float, float]] = {}
    tops: list[int] = []
    heights: list[int] = []
    y = 0
    for layer in layers:
        spans |= _spans(layer, by_name, widest)
        ended = all(by_name[place].state in _OVER for place in layer if isinstance(place, str))
        tops.append(y)
        heights.append(_ENDED if ended else _TALL)
        y += heights[-1] + _BETWEEN
    boxes = tuple(
        _box(state, number, group, spans[group.name], tops[group.depth], is_alone=len(layers[group.depth]) == 1)
        for number, group in enumerate(groups, 1)
    )
    bottoms = {box.name: box.y + box.height for box in boxes}
    lines: list[DependencyLine] = []
    for chain in chains:
        parent, child = str(chain[0]), str(chain[-1])
        is_open = by_name[parent].state is not GroupState.SUCCESS
        x, bottom = _centre(spans[parent]), bottoms[parent]
        for place in chain[1:]:
            number = by_name[child].depth if isinstance(place, str) else place[2]
            to = _centre(spans[place])
            lines.append(DependencyLine(x, bottom, to, tops[number], is_open))
            if not isinstance(place, str):
                lines.append(DependencyLine(to, tops[number], to, tops[number] + heights[number], is_open))
            x, bottom = to, tops[number] + heights[number]
    return RolloutPicture(y - _BETWEEN, boxes, tuple(lines))


def _layers(groups: Mapping[str, GroupStatus]) -> tuple[list[list[_Place]], list[list[_Place]]]:
    """Return the places of each layer in their order, and the places through which each dependency leads."""
    layers: list[list[_Place]] = [[] for _ in range(max(group.depth for group in groups.values()) + 1)]
    chains: list[list[_Place]] = []
    for group in groups.values():
        layers[group.depth].append(group.name)
        for parent in group.depends_on:
            between: list[_Place] = [
                (parent, group.name, depth) for depth in range(groups[parent].depth + 1, group.depth)
            ]
            for depth, place in enumerate(between, groups[parent].depth + 1):
                layers[depth].append(place)
            chains.append([parent, *between, group.name])
    above: dict[_Place, list[_Place]] = {}
    below: dict[_Place, list[_Place]] = {}
    for chain in chains:
        for upper, lower in pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    for turn in range(_ROUNDS):
        neighbours, order = (below, layers[::-1]) if turn % 2 else (above, layers)
        for before, layer in pairwise(order):
            _arrange(layer, {place: number for number, place in enumerate(before)}, neighbours)
    return layers, chains


def _arrange(layer: list[_Place], before: Mapping[_Place, int], neighbours: Mapping[_Place, list[_Place]]) -> None:
    """Sort a layer by the mean position of each place's neighbours in the layer before."""
    present = {place: number for number, place in enumerate(layer)}

    def position(place: _Place) -> float:
        near = [before[each] for each in neighbours.get(place, ()) if each in before]
        return fmean(near) if near else float(present[place])

    layer.sort(key=lambda place: (position(place), present[place]))


def _spans(
    layer: Sequence[_Place], groups: Mapping[str, GroupStatus], widest: int
) -> dict[_Place, tuple[float, float]]:
    """Return the begin and the width of each place: its share of the hosts of the widest layer."""
    named = sum(isinstance(place, str) for place in layer)
    passing = (len(layer) - named) * _PASSING
    room = max(10.0, 100.0 - _GAP * (len(layer) - 1) - passing)
    least = min(_NARROWEST, room / max(1, named))
    wanted = [
        max(least, room * len(groups[place].hosts) / max(1, widest)) if isinstance(place, str) else _PASSING
        for place in layer
    ]
    # Groups of the least width take the room from the others.
    spare = sum(wanted) - passing - room
    wide = sum(each - least for each in wanted if each > least) if spare > 0 else 0.0
    widths = [each - (each - least) * spare / wide if wide and each > least else each for each in wanted]
    x = max(0.0, (100.0 - sum(widths) - _GAP * (len(layer) - 1)) / 2)
    spans: dict[_Place, tuple[float, float]] = {}
    for place, each in zip(layer, widths, strict=True):
        spans[place] = x, each
        x += each + _GAP
    return spans


def _centre(span: tuple[float, float]) -> float:
    return round(span[0] + span[1] / 2, 2)


#: The kinds of a bar's segments in their order, each with the states of its hosts.
_KINDS = {
    "converged": {HostProgress.SUCCESS.value},
    "deploying": {GroupState.PREPARING.value, GroupState.DEPLOYING.value},
    "prepared": {HostProgress.PREPARED.value},
    "failed": {HostProgress.FAILURE.value},
}


def _box(
    state: RolloutState, number: int, group: GroupStatus, span: tuple[float, float], y: int, *, is_alone: bool
) -> GroupBox:
    absent = {host for host in state.absent.keys() & group.hosts.keys() if group.hosts[host] in _UNFINISHED}
    counts = {
        kind: sum(at in states for host, at in group.hosts.items() if host not in absent)
        for kind, states in _KINDS.items()
    } | {"absent": len(absent)}
    total = len(group.hosts)
    segments: list[Segment] = []
    x = 0.0
    for kind, count in counts.items():
        if count:
            segments.append(Segment(kind, round(x, 2), round(100 * count / total, 2)))
            x += 100 * count / total
    text = f"{counts['converged']:,} of {total:,}" + (f", {counts['failed']:,} failed" if counts["failed"] else "")
    return GroupBox(
        number,
        group.name,
        group.state,
        text,
        x=round(span[0], 2),
        y=y,
        width=round(span[1], 2),
        height=_ENDED if group.state in _OVER else _TALL,
        segments=tuple(segments),
        is_alone=is_alone,
    )


_UNFINISHED = {HostProgress.NOT_STARTED.value, HostProgress.PREPARED.value}


def pace_facts(state: RolloutState, group: GroupStatus, now: float) -> tuple[str, ...]:
    """Return the pace of a group under way, its time left, and the number of hosts that may still fail.

    ``now`` is in seconds since the epoch. The time left follows from the hosts that have reported.
    """
    return tuple(_pace_facts(state, group, now))


def _pace_facts(state: RolloutState, group: GroupStatus, now: float) -> Iterator[str]:
    active = state.active_phase
    if active is not None and active.task.group == group.name:
        elapsed = max(0.0, now - active.begun)
        if active.baking_since is None:
            yield f"{active.task.phase.value} for {age(elapsed)}"
            took = [
                report.time - active.granted[host]
                for host, report in active.reports.items()
                if host in active.granted and report.time >= active.granted[host]
            ]
            left = len(active.task.hosts) - len(active.reports)
            if took and left and elapsed:
                rounds = math.ceil(left / max(1, min(left, width(state.rollout, group.name))))
                yield _rate(len(active.reports) / elapsed, state.kind.noun)
                yield f"about {age(rounds * fmean(took))} left"
        elif (left_of_bake := _bake_left(state, group.name, now)) > 0:
            yield f"bake time ends in {age(left_of_bake)}"
    if group.state not in _OVER and (budget := failure_budget(state, group)) is not None:
        noun = state.kind.noun
        yield f"{counted(budget, f'more {noun}')} may fail" if budget else f"no further {noun} may fail"


def _bake_left(state: RolloutState, name: str, now: float) -> float:
    active = state.active_phase
    elapsed = None if active is None else bake_elapsed(state, active, now)
    return state.rollout.strategy.group(name).pace.bake_time - (elapsed or 0.0)


def _rate(by_second: float, noun: str) -> str:
    unit, seconds = ("minute", 60) if by_second * 60 >= 1 else ("hour", 3600)
    number = by_second * seconds
    return f"{number:.{0 if number >= 10 else 1}f} {noun}s per {unit}"


def failure_budget(state: RolloutState, group: GroupStatus) -> int | None:
    """Return the number of further hosts that may fail before a group misses its criteria, if it has criteria."""
    criteria = state.rollout.strategy.group(group.name).criteria
    total, failed = len(group.hosts), group.count(HostProgress.FAILURE)

    def is_missed(more: int) -> bool:
        return any(misses(criteria, successful=total - failed - more, failed=failed + more, total=total))

    first = bisect.bisect_left(range(total - failed + 1), True, key=is_missed)
    return None if first > total - failed else max(0, first - 1)
