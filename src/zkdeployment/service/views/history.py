"""The pages of the history."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.durations import age
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.history import (
    FIGURE_DAYS,
    REFUSED,
    Delivery,
    acts_during,
    by_importance,
    hosts_text,
    publication_deliveries,
    reboots_during,
    refused_pushes,
    weekly_figures,
)
from zkdeployment.publishing.records import PublicationOutcome, PublicationRecord, PublicationSummary, Refusal
from zkdeployment.service.views.frame import (
    Moment,
    act_page,
    author_name,
    commit_page,
    host_page,
    list_part,
    moment,
    page_address,
    publication_page,
)
from zkdeployment.strategies.views import final_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.base.deployment import HostResult
    from zkdeployment.base.machine.reboots import RebootRecord
    from zkdeployment.strategies.state import RolloutState


#: The number of publications on a page of the history, and of hosts on a page of a publication.
PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class PublicationRow:
    """A publication in the list; ``hosts`` is the number of hosts that are done, as text.

    ``took`` is empty before a host finished, ``size`` if it is unknown.
    """

    revision: str
    href: str
    subject: str
    author: str
    published: Moment | None
    hosts: str
    failed: int
    repaired: int
    took: str
    forced_by: str
    size: str


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A push that the syncer refused; ``href`` is the page of the commit."""

    revision: str
    href: str
    subject: str
    author: str
    refused: Moment | None
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StripBar:
    """A publication in the strip: its place, the ``height`` for its duration, and the ``size`` of its change."""

    x: int
    height: int
    size: int
    tone: str
    initials: str
    label: str
    href: str


@dataclass(frozen=True, slots=True)
class DayCell:
    """A day with publications in the calendar; the colour has a ``level`` from 1 to 4."""

    x: int
    y: int
    level: int
    failed: bool
    label: str
    href: str
    selected: bool


@dataclass(frozen=True, slots=True)
class Calendar:
    """The weeks of the calendar from left to right, and the ``quiet`` days without publications as an SVG path."""

    width: int
    cells: tuple[DayCell, ...]
    quiet: str
    months: tuple[tuple[int, str], ...]
    summary: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the delivery, with its definition, and its course over the last weeks as a path of SVG.

    The path is empty without two values; weeks without a value are gaps in it. ``course`` is its description.
    """

    name: str
    value: str
    definition: str
    path: str = ""
    course: str = ""


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A page of the list of publications, with the addresses of its neighbours; ``day`` limits it to one day.

    ``refused`` are the last refused pushes.
    """

    rows: tuple[PublicationRow, ...]
    newer: str | None
    older: str | None
    strip: tuple[StripBar, ...]
    calendar: Calendar
    figures: tuple[Figure, ...]
    day: str
    refused: tuple[RefusedRow, ...]


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The outcome of a publication on a host."""

    name: str
    href: str
    ended: Moment | None
    took: str
    outcome: str
    is_failed: bool


@dataclass(frozen=True, slots=True)
class TreeDifference:
    """The difference of a publication's tree to the tree before, line by line, or why it is ``unknown``."""

    lines: tuple[str, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class PublicationView:
    """The page of a publication.

    ``difference`` is its change of the tree, if the user asked for it; else ``show_changes`` is the address of the
    page with the difference, if one is possible. ``rollback`` is the address of the form that restores the
    publication.
    """

    row: PublicationRow
    facts: tuple[tuple[str, str], ...]
    published: Moment | None
    acts: tuple[tuple[Moment | None, str], ...]
    rollouts: tuple[str, ...]
    results: tuple[ResultRow, ...]
    range: str
    left_out: int
    previous: str | None
    next: str | None
    difference: TreeDifference | None
    show_changes: str | None
    rollback: str | None
    commit: str


def history_view(
    listed: Sequence[PublicationSummary],
    recent: Sequence[PublicationSummary],
    page: int,
    now: float,
    day: str = "",
    refusals: Sequence[Refusal] = (),
) -> HistoryView:
    """Return a page of the list of publications, with pictures and figures of the ``recent`` ones.

    ``listed`` are the newest ones, up to one more than the page needs; ``refusals`` are oldest first. ``day``
    (as ``2026-11-27``) limits the list to the publications of one day, in UTC.
    """
    if day:
        listed = [each for each in listed if _day(each.time).isoformat() == day]
    part = list_part(listed, page, PAGE_SIZE, "", partial(page_address, "/history", day=day))
    return HistoryView(
        rows=tuple(_row(each, now) for each in part.rows),
        newer=part.previous,
        older=part.next,
        strip=_strip(recent),
        calendar=_calendar(recent, now, day),
        figures=shown_figures(publication_deliveries(recent), now),
        day=day,
        refused=tuple(_refused(each, now) for each in refused_pushes(refusals, limit=REFUSED)),
    )


def _refused(refusal: Refusal, now: float) -> RefusedRow:
    return RefusedRow(
        short(refusal.revision),
        commit_page(str(refusal.revision)),
        refusal.subject,
        author_name(refusal.author),
        moment(refusal.time, now),
        refusal.problems,
    )


#: The number of publications in the strip, and the width and the greatest height of a bar.
_BARS = 40
_BAR = 24
_TALLEST = 80

_TONES = {
    PublicationOutcome.FAILED: "failed",
    PublicationOutcome.REPAIRED: "behind",
    PublicationOutcome.DONE: "converged",
    PublicationOutcome.PARTIAL: "behind",
    PublicationOutcome.UNDER_WAY: "deploying",
    PublicationOutcome.DOCUMENTS: "excluded",
}
_WORDS = {
    PublicationOutcome.REPAIRED: "repaired after a failure",
    PublicationOutcome.PARTIAL: "superseded before all hosts were done",
}


def _strip(recent: Sequence[PublicationSummary]) -> tuple[StripBar, ...]:
    """Return the bars of the newest publications, the oldest on the left; heights follow the durations."""
    shown = recent[:_BARS][::-1]
    longest = max((_duration(each) or 0.0 for each in shown), default=0.0) or 1.0
    most = max((each.nodes or 0 for each in shown), default=0) or 1
    bars = []
    for number, each in enumerate(shown):
        outcome = each.outcome(newest=each is recent[0])
        row, taken = _row(each, 0.0), _duration(each) or 0.0
        facts = [row.subject or row.revision, f"by {row.author}" if row.author else ""]
        facts += [_WORDS.get(outcome, outcome.value), row.hosts]
        facts += [f"took {row.took}" if row.took else "", _size(each.nodes)]
        bars.append(
            StripBar(
                x=number * _BAR,
                height=max(4, round(_TALLEST * sqrt(taken / longest))),
                size=0 if not each.nodes else max(2, round(9 * sqrt(each.nodes / most))),
                tone=_TONES[outcome],
                initials="".join(word[0] for word in row.author.split()[:2]).upper(),
                label=", ".join(filter(None, facts)),
                href=publication_page(each.sequence),
            )
        )
    return tuple(bars)


def _size(nodes: int | None) -> str:
    return "" if nodes is None else f"{counted(nodes, 'node', ',')} of the tree changed"


def _duration(summary: PublicationSummary) -> float | None:
    return None if summary.ended is None else max(0.0, summary.ended - summary.time)


#: The number of weeks in the calendar, and the distance of two days.
_WEEKS = 26
_STEP = 14


def _day(time: float) -> date:
    return datetime.fromtimestamp(time, UTC).date()


def _calendar(recent: Sequence[PublicationSummary], now: float, selected: str) -> Calendar:
    """Return the calendar of the last weeks; weeks are columns that begin with Monday, days are in UTC."""
    today = _day(now)
    begin = today - timedelta(days=today.weekday(), weeks=_WEEKS - 1)
    by_day: dict[date, list[PublicationSummary]] = {}
    for each in recent:
        by_day.setdefault(_day(each.time), []).append(each)
    cells, quiet, months = [], [], []
    for number in range((today - begin).days + 1):
        day = begin + timedelta(days=number)
        x, y = (number // 7) * _STEP, (number % 7) * _STEP
        if day.day == 1 or number == 0:
            months.append((x, f"{day:%b}"))
        found = by_day.get(day, ())
        if not found:
            quiet.append(f"M{x} {y}h11v11h-11z")
            continue
        failed = sum(each.first_failure is not None for each in found)
        name = day.isoformat()
        label = f"{name}: {counted(len(found), 'publication')}{f', {failed} with failures' if failed else ''}"
        cells.append(
            DayCell(x, y, min(4, len(found)), failed > 0, label, f"/history?day={name}", name == selected)
        )
    total = sum(len(found) for day, found in by_day.items() if day >= begin)
    summary = f"{counted(total, 'publication')} on {counted(len(cells), 'day')} since {begin.isoformat()}"
    return Calendar(_WEEKS * _STEP, tuple(cells), "".join(quiet), _apart(months), summary)


def _apart(months: Sequence[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """Return the names of months without the first one if it would touch the second."""
    crowded = len(months) > 1 and months[1][0] - months[0][0] < 2 * _STEP
    return tuple(months[1:] if crowded else months)


_DEFINITIONS = (
    "Publications that changed something for hosts",
    "From the commit until the last host has it: the median of the publications without a failure.",
    "The share of the publications that failed on at least one host.",
    "From the first failed host until all are repaired, or have a publication without a failure: the median.",
)


def shown_figures(
    deliveries: Sequence[Delivery], now: float, definitions: tuple[str, str, str, str] = _DEFINITIONS
) -> tuple[Figure, ...]:
    """Return the four figures with their definitions; ``deliveries`` are sorted, the newest first."""
    weeks = weekly_figures(deliveries, now, _FIGURE_WEEKS)
    found = weeks[-1]
    counted_ones, lead, share, restore = definitions
    frequency = f"{counted_ones}: {found.publications} in the last {FIGURE_DAYS} days."
    return (
        _figure("Deployment frequency", frequency, [each.per_week or None for each in weeks], _shown_frequency),
        _figure("Lead time for changes", lead, [each.lead_time for each in weeks], age),
        _figure("Change failure rate", share, [each.failure_rate for each in weeks], _shown_rate),
        _figure("Time to restore", restore, [each.restore_time for each in weeks], age),
    )


#: The weeks of the course of a figure, and the size of its picture.
_FIGURE_WEEKS = 12
_COURSE_STEP, _COURSE_HEIGHT = 12, 28


def _figure(name: str, definition: str, values: Sequence[float | None], shown: Callable[[float], str]) -> Figure:
    """Return a figure with these values at the ends of the last weeks."""
    last = values[-1]
    known = [value for value in values if value is not None]
    value = "none yet" if last is None else shown(last)
    if len(known) <= 1:
        return Figure(name, value, definition)
    most = max(known) or 1.0
    places = [
        None if each is None else f"{_COURSE_STEP * week} {_COURSE_HEIGHT * (1 - each / most):.1f}"
        for week, each in enumerate(values)
    ]
    path = "".join(
        f"{'M' if week == 0 or places[week - 1] is None else 'L'}{place}"
        for week, place in enumerate(places)
        if place is not None
    )
    course = f"{name} over {len(values)} weeks: {shown(min(known))} to {shown(max(known))}"
    return Figure(name, value, definition, path, course)


def _shown_frequency(per_week: float) -> str:
    return f"{per_week:.1f} a week"


def _shown_rate(rate: float) -> str:
    return f"{100 * rate:.0f} %"


def previous_publication(summaries: Sequence[PublicationSummary], sequence: int) -> PublicationSummary | None:
    """Return the publication before the one with a sequence; ``summaries`` are sorted, the newest first."""
    return next((each for each in summaries if each.sequence < sequence), None)


def publication_view(  # noqa: PLR0913  what the page of a publication is made of
    records: Sequence[PublicationRecord],
    record: PublicationRecord,
    acts: Sequence[Act],
    rollouts: Sequence[RolloutState],
    difference: TreeDifference | None,
    reboots: Iterable[RebootRecord] = (),
    *,
    page: int,
    now: float,
    may_roll_back: bool,
    may_compare: bool,
) -> PublicationView:
    """Return the page of a publication; ``records`` contain it and the next one, if there is one."""
    results = list(by_importance(record.results.values()))
    address = publication_page(record.sequence)
    part = list_part(results, page, PAGE_SIZE, "host", partial(page_address, address))
    return PublicationView(
        row=_row(PublicationSummary.of(record), now),
        facts=(
            *_facts(record),
            *(("Rebooting", f"{reboot.host_name} {reboot}") for reboot in reboots_during(record, reboots)),
        ),
        published=moment(record.time, now),
        acts=tuple((moment(act.time, now), str(act)) for act in acts_during(records, record, acts)),
        rollouts=tuple(map(final_report, rollouts)),
        results=tuple(_result(result, now) for result in part.rows),
        range=part.range,
        left_out=record.left_out,
        previous=part.previous,
        next=part.next,
        difference=difference,
        show_changes=f"{address}?changes=yes#changes" if may_compare and difference is None else None,
        rollback=act_page("rollback", address, sequence=str(record.sequence)) if may_roll_back else None,
        commit=commit_page(str(record.revision)),
    )


def _row(record: PublicationSummary, now: float) -> PublicationRow:
    origin = record.origin
    return PublicationRow(
        revision=short(record.revision),
        href=publication_page(record.sequence),
        subject="" if origin is None else origin.subject,
        author="" if origin is None else author_name(origin.author),
        published=moment(record.time, now),
        hosts=hosts_text(record),
        failed=record.failed,
        repaired=record.repaired,
        took="" if record.ended is None else age(record.ended - record.time),
        forced_by=record.forced_by,
        size="" if record.nodes is None else f"{record.nodes:,}",
    )


def _facts(record: PublicationRecord) -> list[tuple[str, str]]:
    facts = [("Revision", str(record.revision)), ("Sequence", str(record.sequence))]
    if record.nodes is not None:
        facts.append(("Changed", counted(record.nodes, "node of the tree", ",")))
    if record.origin is not None:
        facts += [("Author", record.origin.author), ("Signed by", record.origin.signer or "not asked for")]
    if record.forced is not None:
        facts.append(("Forced by", str(record.forced)))
    if record.excluded:
        facts.append(("Not awaited", f"{counted(record.excluded, 'host')} in no group or in maintenance"))
    return facts


def _result(result: HostResult, now: float) -> ResultRow:
    return ResultRow(
        name=result.host_name,
        href=host_page(result.host_id),
        ended=moment(result.time, now),
        took=age(result.seconds),
        outcome=result.account,
        is_failed=result.error is not None,
    )
