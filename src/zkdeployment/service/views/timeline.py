"""The timeline of a publication: its spans as a picture, with lanes by group, folded to hosts.

Coordinates are those of the picture, which is ``WIDTH`` wide; times are in seconds since the epoch.
"""

from __future__ import annotations

import math
import re
from itertools import accumulate
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from zkdeployment.base.durations import age
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.traces.spans import Span, SpanKind, Trace
from zkdeployment.service.views.frame import host_page, publication_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


WIDTH, LEFT, _RIGHT = 1200, 220, 16
_TOP, _LANE, _BAR, _FOLDED = 34, 18, 12, 40

#: The most hosts of all groups that are shown without a request, and the most lanes of an unfolded group.
_FEW, _MOST_LANES = 40, 200

#: The columns of a folded group, the most marks of the time axis, and the seconds between two of these.
_COLUMNS, _TICKS = 160, 8
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 30, 90, 365)),
)

#: The most lines for locks, and the waits in the list below the picture.
_MOST_LINES, _MOST_WAITS = 300, 5

_HOLDER = re.compile(r"\(([^()\s]+)\)")


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """A rectangle: a step, a host, or the hosts of a group at one time; ``tone`` is its class."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """A lane with its heading; ``href`` leads to the host, or folds or unfolds the group."""

    label: str
    href: str
    y: float
    bars: tuple[TimelineBar, ...]
    is_group: bool = False
    failed_at: float | None = None


@dataclass(frozen=True, slots=True)
class TimelineLine:
    """A line from the lane of a host that waits to that of the host that it waits for."""

    x: float
    y1: float
    y2: float
    label: str


@dataclass(frozen=True, slots=True)
class TimelineFlag:
    """An act of an operator, or a mark of the time axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class TimelineView:
    """The picture, its longest ``waits``, and the ``links`` to other sections of the time.

    Names are from the left edge to ``left``, times from there to ``width``.
    """

    title: str
    height: float
    lanes: tuple[TimelineLane, ...]
    lines: tuple[TimelineLine, ...]
    ticks: tuple[TimelineFlag, ...]
    flags: tuple[TimelineFlag, ...]
    waits: tuple[str, ...]
    summary: str
    export: str
    links: tuple[tuple[str, str], ...]
    width: int = WIDTH
    left: int = LEFT


@dataclass(frozen=True, slots=True)
class TimelineSection:
    """The shown part of a publication: seconds after its begin (``None``: all), and the unfolded group."""

    begin: float | None = None
    end: float | None = None
    group: str = ""

    def query(self, **changes: object) -> str:
        """Return the query of the address of this section with changes; empty for the whole timeline."""
        values = {"begin": self.begin, "end": self.end, "group": self.group} | changes
        given = {
            key: f"{value:g}" if isinstance(value, float) else value for key, value in values.items() if value
        }
        return f"?{urlencode(given)}" if given else ""


class _Scale:
    """The places of times in the picture, for one section of the time."""

    def __init__(self, trace: Trace, section: TimelineSection, now: float) -> None:
        root = trace.spans[0]
        last = max(span.end or span.start for span in trace.spans) if trace.is_over else now
        self.origin, self.whole = root.start, max(1.0, last - root.start)
        begin = min(max(0.0, section.begin or 0.0), self.whole)
        end = self.whole if section.end is None else min(max(section.end, 0.0), self.whole)
        self.begin, self.end = (begin, end) if end - begin >= 1.0 else (0.0, self.whole)

    def x(self, time: float) -> float:
        """Return the place of a time; times outside of the section are at its edges."""
        share = (time - self.origin - self.begin) / (self.end - self.begin)
        return round(LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - _RIGHT), 1)

    def shows(self, start: float, end: float) -> bool:
        """Whether a piece of time is at least partly in the section."""
        return end - self.origin >= self.begin and start - self.origin <= self.end

    @property
    def now(self) -> float:
        """The end of the shown time, for what has not ended."""
        return self.origin + self.whole


def timeline_view(trace: Trace, section: TimelineSection, now: float) -> TimelineView:
    """Return the timeline of a publication at ``now``."""
    scale = _Scale(trace, section, now)
    page = f"{publication_page(trace.sequence)}/timeline"
    lanes, height = _lanes(trace, section, scale, page)
    return TimelineView(
        title=trace.spans[0].name,
        height=height,
        lanes=tuple(lanes),
        lines=tuple(_lines(trace, lanes, scale))[:_MOST_LINES],
        ticks=tuple(_ticks(scale)),
        flags=tuple(
            TimelineFlag(scale.x(event.time), event.name)
            for event in trace.spans[0].events
            if scale.shows(event.time, event.time)
        ),
        waits=tuple(_waits(trace, scale)),
        summary=_summary(trace, scale),
        export=f"{page}.svg{section.query()}",
        links=tuple((label, f"{page}{query}") for label, query in _links(section, scale)),
    )


def _summary(trace: Trace, scale: _Scale) -> str:
    hosts = [span for span in trace.spans if span.kind is SpanKind.HOST]
    failed = sum(1 for span in hosts if span.error)
    parts = [counted(len(hosts), "host", ","), f"{failed:,} failed" if failed else ""]
    parts.append(f"{'took' if trace.is_over else 'running for'} {age(scale.whole)}")
    return ", ".join(filter(None, parts))


def _links(section: TimelineSection, scale: _Scale) -> Iterator[tuple[str, str]]:
    """Yield the labels and the queries of the links to other sections of the time."""
    length = scale.end - scale.begin
    middle = scale.begin + length / 2
    if length > 4.0:
        yield "Zoom in", section.query(begin=middle - length / 4, end=middle + length / 4)
    if length < scale.whole:
        yield "Zoom out", section.query(begin=max(0.0, middle - length), end=min(scale.whole, middle + length))
        yield "Whole time", section.query(begin=None, end=None)
        if scale.begin > 0:
            first = max(0.0, scale.begin - length / 2)
            yield "Earlier", section.query(begin=first, end=first + length)
        if scale.end < scale.whole:
            last = min(scale.whole, scale.end + length / 2)
            yield "Later", section.query(begin=last - length, end=last)


def _ticks(scale: _Scale) -> Iterator[TimelineFlag]:
    """Yield the marks of the time axis, at round times, so that no two have the same text."""
    length = scale.end - scale.begin
    step = next((step for step in _STEPS if length / step <= _TICKS), length / _TICKS)
    for number in range(math.ceil(scale.begin / step), math.floor(scale.end / step) + 1):
        seconds = number * step
        yield TimelineFlag(scale.x(scale.origin + seconds), f"+{_clock(seconds) if step < 60 else age(seconds)}")


def _clock(seconds: float) -> str:
    """Return a short time as minutes and seconds: ``1:30``."""
    return f"{int(seconds // 60)}:{int(seconds % 60):02}"


def _lanes(trace: Trace, section: TimelineSection, scale: _Scale, page: str) -> tuple[list[TimelineLane], float]:
    """Return the lanes of all groups and of the hosts of unfolded ones, and the height of the picture."""
    children: dict[str | None, list[Span]] = {}
    for span in trace.spans:
        children.setdefault(span.parent, []).append(span)
    hosts = sum(span.kind is SpanKind.HOST for span in trace.spans)
    lanes: list[TimelineLane] = []
    y = float(_TOP)
    for group in children.get("publication", ()):
        own = children.get(group.key, [])
        unfolds = section.group == group.name or (not section.group and hosts <= _FEW)
        href = f"{page}{section.query(group='' if unfolds else group.name)}"
        if not unfolds:
            lanes.append(_folded(group, own, children, scale, href, y))
            y += _FOLDED + 6
            continue
        lanes.append(TimelineLane(_heading(group, own), href, y, (), is_group=True))
        y += _LANE
        for host in sorted(own, key=_by_urgency)[:_MOST_LANES]:
            lanes.append(_host_lane(host, children.get(host.key, ()), scale, y))
            y += _LANE
        if len(own) > _MOST_LANES:
            lanes.append(TimelineLane(f"and {len(own) - _MOST_LANES:,} more hosts", href, y, (), is_group=True))
            y += _LANE
        y += 6
    return lanes, y + 10


def _by_urgency(span: Span) -> tuple[bool, float, str]:
    return not span.error, span.start, span.name


def _heading(group: Span, hosts: Sequence[Span]) -> str:
    failed = sum(1 for host in hosts if host.error)
    return f"{group.name}: {counted(len(hosts), 'host', ',')}{f', {failed:,} failed' if failed else ''}"


def _host_lane(host: Span, steps: Iterable[Span], scale: _Scale, y: float) -> TimelineLane:
    whole = _bar(host, scale, y, "failed" if host.error else "converged" if host.end else "deploying")
    bars = [] if whole is None else [whole]
    for step in steps:
        bar = _bar(step, scale, y, "waiting" if step.is_waiting else "reboot" if step.is_rebooting else "step")
        bars += [] if bar is None else [bar]
    failed_at = scale.x(host.end) if host.error and host.end and scale.shows(host.end, host.end) else None
    return TimelineLane(host.name, host_page(str(host.facts["host.id"])), y, tuple(bars), failed_at=failed_at)


def _bar(span: Span, scale: _Scale, y: float, tone: str) -> TimelineBar | None:
    end = span.end if span.end is not None else scale.now
    if not scale.shows(span.start, end):
        return None
    x = scale.x(span.start)
    took = f"{span.name}, {age(end - span.start)}{f': {span.error}' if span.error else ''}"
    return TimelineBar(x, y + 2, max(1.0, round(scale.x(end) - x, 1)), _BAR, tone, took)


def _folded(
    group: Span,
    hosts: Sequence[Span],
    children: Mapping[str | None, Sequence[Span]],
    scale: _Scale,
    href: str,
    y: float,
) -> TimelineLane:
    """Return the lane of a folded group: the number of hosts at work, of which some wait, over the time."""
    working, waiting, failed = [0] * (_COLUMNS + 1), [0] * (_COLUMNS + 1), [0] * _COLUMNS
    length = scale.end - scale.begin

    def column(time: float) -> int:
        share = (time - scale.origin - scale.begin) / length
        return min(max(int(share * _COLUMNS), 0), _COLUMNS - 1)

    def add(counts: list[int], span: Span) -> None:
        end = span.end if span.end is not None else scale.now
        if scale.shows(span.start, end):
            counts[column(span.start)] += 1
            counts[column(end) + 1] -= 1

    for host in hosts:
        add(working, host)
        for step in children.get(host.key, ()):
            if step.is_waiting:
                add(waiting, step)
        if host.error and host.end is not None and scale.shows(host.end, host.end):
            failed[column(host.end)] += 1
    at_work, idle = list(accumulate(working))[:_COLUMNS], list(accumulate(waiting))[:_COLUMNS]
    most = max([*at_work, *idle, 1])
    bars = [*_columns(at_work, most, y, "deploying", "at work"), *_columns(idle, most, y, "waiting", "waiting")]
    width = (WIDTH - LEFT - _RIGHT) / _COLUMNS
    bars += (
        TimelineBar(
            round(LEFT + number * width, 1), y + _FOLDED - 3, round(width, 1), 5, "failed", f"{count} failed"
        )
        for number, count in enumerate(failed)
        if count
    )
    return TimelineLane(_heading(group, hosts), href, y, tuple(bars), is_group=True)


def _columns(counts: Sequence[int], most: int, y: float, tone: str, word: str) -> Iterator[TimelineBar]:
    """Yield the columns of a number over the time, ``most`` in full height; equal neighbours are one rectangle."""
    width = (WIDTH - LEFT - _RIGHT) / _COLUMNS
    first = 0
    for number in range(1, _COLUMNS + 1):
        if number < _COLUMNS and counts[number] == counts[first]:
            continue
        if counts[first]:
            height = max(2.0, round((_FOLDED - 4) * counts[first] / most, 1))
            x = round(LEFT + first * width, 1)
            label = f"{counted(counts[first], 'host', ',')} {word}"
            yield TimelineBar(x, y + _FOLDED - 4 - height, round((number - first) * width, 1), height, tone, label)
        first = number


def _lines(trace: Trace, lanes: Iterable[TimelineLane], scale: _Scale) -> Iterator[TimelineLine]:
    """Yield a line for each wait for a lock, from the waiting host to the holder, if both have lanes."""
    places = {lane.href: lane.y + _LANE / 2 for lane in lanes if not lane.is_group}
    for span in trace.spans:
        if not span.is_waiting or not scale.shows(span.start, span.start):
            continue
        waiter = places.get(host_page(str(span.parent).removeprefix("host ")))
        holder = _HOLDER.search(span.name)
        held = None if holder is None else places.get(host_page(holder[1]))
        if waiter is not None and held is not None and waiter != held:
            yield TimelineLine(scale.x(span.start), waiter, held, span.name)


def _waits(trace: Trace, scale: _Scale) -> Iterator[str]:
    """Yield the longest waits as sentences."""
    names = {span.key: span.name for span in trace.spans}
    waits: dict[str, list[tuple[float, str]]] = {}
    for span in trace.spans:
        if span.is_waiting:
            seconds = (span.end if span.end is not None else scale.now) - span.start
            if seconds >= 1:
                waits.setdefault(span.name, []).append((seconds, names[span.parent or ""]))
    longest = sorted(waits.items(), key=lambda entry: -max(seconds for seconds, _ in entry[1]))
    for reason, found in longest[:_MOST_WAITS]:
        most = max(seconds for seconds, _ in found)
        yield f"{listing([host for _, host in found], 3)}: {reason}, {age(most)}"
