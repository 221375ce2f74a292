"""The page of all fleets: the ways of revisions, a wall of fleets, and the history of revisions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import accumulate
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from zkdeployment.base.cluster import short
from zkdeployment.base.durations import age
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.history import Delivery
from zkdeployment.promotion.records import FleetStanding, FleetState, PromotionEntry
from zkdeployment.promotion.rules import FAILED_RESULTS
from zkdeployment.promotion.views.fleets import (
    FleetsStatus,
    fleets_status,
    ordered,
    waiting_for_reset,
    worst_first,
)
from zkdeployment.service.views.fleet import HostLink, Tone
from zkdeployment.service.views.frame import ActLink, Moment, moment
from zkdeployment.service.views.history import Figure, StripBar, shown_figures
from zkdeployment.service.views.rollouts import ROLLOUT_TONES, GroupRow, group_row, undecided_groups
from zkdeployment.strategies.picture import RolloutPicture, Segment, picture
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.views import GroupStatus, RolloutProgressState, RolloutStatus, rollout_status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from zkdeployment.promotion.feed import PromotionReading
    from zkdeployment.publishing.records import CommitSummary
    from zkdeployment.strategies.state import RolloutState

#: The most fleets on the wall, of fleets that a sentence names, of promotions in the list and in the strip, and of
#: commits. With more than a few fleets on the wall, those that need no attention are small. The page of a
#: promotion has a plot for more fleets than those.
_MOST_FLEETS = 200
_FEW_FLEETS = 12
_NAMED = 5
_NAMED_APART = 2
_LISTED = 20
_COMMITS = 10
_BARS = 40

#: The width and the greatest height of a bar of the strip.
_BAR = 24
_TALLEST = 80

_BAR_TONES = {
    "": "deploying",
    RolloutProgressState.SUCCESS.value: "converged",
    RolloutProgressState.SUPERSEDED.value: "behind",
}

_DEFINITIONS = (
    "Promotions that began",
    "From the commit until the last fleet converged: the median of the promotions that reached all their fleets.",
    "The share of the promotions that failed, or were rolled back.",
    "From the end of a failed promotion until the next one reached its last fleet: the median.",
)


#: The most revisions with a row of their own, and of fleets in one state that a cell names.
_ROWS = 8
_LINKED = 2

FLEET_TONES = {
    FleetState.CONVERGED: Tone.GOOD,
    FleetState.ROLLING_OUT: Tone.BUSY,
    FleetState.HELD: Tone.HALTED,
}

#: The colours of fleets that have not converged, in the order of a bar's segments.
_COLOURS = {
    FleetState.ROLLING_OUT: "deploying",
    FleetState.HELD: "behind",
    FleetState.UNREACHABLE: "absent",
    FleetState.STOPPED: "failed",
    FleetState.REFUSED: "failed",
    FleetState.DIVERGED: "failed",
}


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """A group of the newest promotion; ``after`` names the groups on which it depends."""

    name: str
    after: str


@dataclass(frozen=True, slots=True)
class FleetsInState:
    """Fleets of a cell in one state: a few by name, or else their number."""

    state: str
    tone: Tone
    fleets: tuple[HostLink, ...]
    number: int


@dataclass(frozen=True, slots=True)
class RevisionCell:
    """The fleets of a group that have a revision: ``number`` of ``total``, in the segments of a bar."""

    group: str
    number: int
    total: int
    segments: tuple[Segment, ...]
    states: tuple[FleetsInState, ...]


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """A revision that fleets have, or that is promoted now; ``href`` is the page of its promotion."""

    revision: str
    href: str
    subject: str
    author: str
    tone: Tone
    state: str
    cells: tuple[RevisionCell, ...]


@dataclass(frozen=True, slots=True)
class RevisionWays:
    """The revisions, the newest first, by the groups through which they go; ``rest`` counts older ones."""

    columns: tuple[GroupColumn, ...] = ()
    rows: tuple[RevisionRow, ...] = ()
    rest: str = ""


def fleet_groups(status: RolloutStatus | None, history: Sequence[PromotionEntry]) -> tuple[GroupStatus, ...]:
    """Return the groups of the newest promotion without the first group of a rollback.

    The fleets of a rollback's first group also belong to the other groups.
    """
    groups = () if status is None else status.groups
    newest = history[0] if history else None
    if status is not None and newest is not None and newest.id == status.id and newest.rolls_back and groups[1:]:
        return groups[1:]
    return groups


def revision_ways(
    reading: PromotionReading,
    status: RolloutStatus | None,
    page: Callable[[str], str],
    link: Callable[[str], HostLink],
) -> RevisionWays:
    """Return the ways; ``page`` is the address of the page of a promotion, ``link`` leads to a fleet."""
    if not reading.standings:
        return RevisionWays()
    groups = fleet_groups(status, reading.history)
    # A fleet that several groups select gets the revision with the first of them.
    member_of = {name: group.name for group in reversed(groups) for name in group.hosts}
    totals = Counter(member_of.get(name, "") for name in reading.standings)
    columns = [GroupColumn(group.name, ", ".join(group.depends_on)) for group in groups if totals[group.name]]
    if totals[""]:
        columns.append(GroupColumn("", ""))
    newest = None if status is None else str(status.revision)
    by_revision: dict[str | None, list[FleetStanding]] = {} if newest is None else {newest: []}
    for each in worst_first(reading.standings.values()):
        by_revision.setdefault(each.revision, []).append(each)
    order = {entry.revision: number for number, entry in enumerate(reversed(reading.history))}

    def key(revision: str | None) -> tuple[object, ...]:
        known = revision or ""
        return revision != newest, not known, -order.get(known, -1), -len(by_revision[revision]), known

    ordered = sorted(by_revision, key=key)
    entries = {entry.revision: entry for entry in reversed(reading.history)}
    undone = {entry.revision for entry in reverted(reading.history)}
    rows = []
    for revision in ordered[:_ROWS]:
        entry, standings = entries.get(revision or ""), by_revision[revision]
        is_newest = status is not None and revision == newest
        colour = "converged" if is_newest or status is None else "behind" if revision in undone else "excluded"
        tone, state = _state(entry, standings, is_reverted=revision in undone)
        if is_newest and status is not None:
            tone, state = ROLLOUT_TONES[status.state], status.state.value
        rows.append(
            RevisionRow(
                "" if revision is None else short(revision),
                "" if entry is None else page(entry.id),
                "" if entry is None else entry.subject,
                "" if entry is None else _without_address(entry.author),
                tone,
                state,
                tuple(
                    _cell(column.name, standings, member_of, totals[column.name], colour, link)
                    for column in columns
                ),
            )
        )
    rest = sum(len(by_revision[revision]) for revision in ordered[_ROWS:])
    more = f"{counted(rest, 'fleet', ',')} at {counted(len(ordered) - _ROWS, 'older revision')}" if rest else ""
    return RevisionWays(tuple(columns), tuple(rows), more)


def reverted(history: Sequence[PromotionEntry]) -> Iterator[PromotionEntry]:
    """Yield the promotions that a later one rolled back: from that of the first bad revision to the rollback.

    Earlier attempts of the rollback itself do not count.
    """
    back_to = rollback = ""
    for entry in history:
        if back_to and entry.revision != rollback:
            yield entry
            back_to = "" if entry.revision == back_to else back_to
        if entry.rolls_back:
            back_to, rollback = entry.rolls_back, entry.revision


def _state(
    entry: PromotionEntry | None, standings: Sequence[FleetStanding], *, is_reverted: bool
) -> tuple[Tone, str]:
    """Return the urgency of a revision that is not the newest one, and its state in words."""
    if is_reverted:
        return Tone.BAD, "rolled back"
    if entry is not None:
        tones = {state.value: tone for state, tone in ROLLOUT_TONES.items()}
        return tones.get(entry.result, Tone.UNKNOWN), entry.result or "replaced"
    if any(fleet.state is FleetState.DIVERGED for fleet in standings):
        return Tone.BAD, "not in the main branch"
    if not standings or standings[0].revision is None:
        return Tone.UNKNOWN, "nothing is published yet"
    return Tone.UNKNOWN, "not in the history"


def _cell(
    group: str,
    standings: Collection[FleetStanding],
    member_of: Mapping[str, str],
    total: int,
    colour: str,
    link: Callable[[str], HostLink],
) -> RevisionCell:
    here = [fleet for fleet in standings if member_of.get(fleet.name, "") == group]
    by_state: dict[FleetState, list[str]] = {}
    for fleet in here:
        by_state.setdefault(fleet.state, []).append(fleet.name)
    widths = Counter(_COLOURS.get(fleet.state, colour) for fleet in here)
    kinds = [kind for kind in dict.fromkeys((colour, *_COLOURS.values())) if widths[kind]]
    starts = accumulate((widths[kind] for kind in kinds), initial=0)
    return RevisionCell(
        group or "no group",
        len(here),
        total,
        tuple(
            Segment(kind, round(100 * start / total, 2), round(100 * widths[kind] / total, 2))
            for kind, start in zip(kinds, starts, strict=False)
        ),
        tuple(
            FleetsInState(
                state.value,
                FLEET_TONES.get(state, Tone.BAD),
                tuple(map(link, names)) if len(names) <= _LINKED else (),
                len(names),
            )
            for state, names in by_state.items()
            if state is not FleetState.CONVERGED or total <= _LINKED
        ),
    )


class PageActs(NamedTuple):
    """The acts that the user is offered: on the promotion, on a group, on a fleet and on a commit."""

    promotion: tuple[ActLink, ...] = ()
    group: Callable[[GroupStatus], tuple[ActLink, ...]] = lambda _group: ()
    fleet: Callable[[FleetStanding], tuple[ActLink, ...]] = lambda _fleet: ()
    commit: Callable[[str], tuple[ActLink, ...]] = lambda _commit: ()


@dataclass(frozen=True, slots=True)
class FleetCard:
    """A fleet on the wall; ``href`` is the page of its own service, ``group`` its group in the promotion.

    ``plan`` is the page of its service with the plan of the commit that it gets next.
    """

    anchor: str
    name: str
    href: str
    tone: Tone
    state: str
    since: Moment | None
    revision: str
    behind: str
    converged: int
    hosts: int
    group: str
    by: str
    problem: str
    ordered: str
    plan: str
    acts: tuple[ActLink, ...]

    @property
    def is_calm(self) -> bool:
        """Whether the fleet needs no attention."""
        return self.tone is Tone.GOOD and not (self.by or self.problem or self.ordered)


@dataclass(frozen=True, slots=True)
class PromotionRow:
    """A promotion in the history: ``reached`` fleets converged at its revision, ``there`` have it now."""

    id: str
    href: str
    revision: str
    subject: str
    author: str
    begun: Moment | None
    tone: Tone
    result: str
    reached: int
    there: str
    took: str
    rolls_back: str
    chosen: str
    acts: tuple[ActLink, ...]


@dataclass(frozen=True, slots=True)
class CommitRow:
    """A commit of the main branch; ``there`` are the fleets at it, ``promotion`` is the page of its promotion."""

    revision: str
    subject: str
    author: str
    committed: Moment | None
    there: str
    promotion: str
    result: str
    tone: Tone
    acts: tuple[ActLink, ...]


@dataclass(frozen=True, slots=True)
class FleetsView:
    """The page of all fleets."""

    tone: Tone
    headline: str
    sentence: str
    remarks: tuple[str, ...]
    id: str = ""
    revision: str = ""
    done: int = 0
    total: int = 0
    acts: tuple[ActLink, ...] = ()
    cards: tuple[FleetCard, ...] = ()
    tiles: tuple[FleetCard, ...] = ()
    more_cards: int = 0
    ways: RevisionWays = RevisionWays()
    picture: RolloutPicture | None = None
    groups: tuple[GroupRow, ...] = ()
    commits: tuple[CommitRow, ...] = ()
    history: tuple[PromotionRow, ...] = ()
    strip: tuple[StripBar, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class ReachedFleet:
    """When a promotion reached a fleet; ``took`` is the time since the commit."""

    name: str
    href: str
    at: Moment | None
    took: str


@dataclass(frozen=True, slots=True)
class RevisionView:
    """The history of a revision: when it reached which fleet, in order, and the fleets that it has not reached.

    ``course`` is the number of reached fleets over time as a path of SVG in a box of 400 by 100; it is empty for
    fewer than three fleets. ``course_words`` describe it.
    """

    row: PromotionRow
    commit: str
    committed: Moment | None
    ended: Moment | None
    reached: tuple[ReachedFleet, ...]
    missing: tuple[str, ...]
    course: str = ""
    course_words: str = ""


def promotion_page(promotion: str) -> str:
    """Return the address of the page of a promotion."""
    return f"/fleets/promotions/{quote(promotion, safe='')}"


def fleets_view(reading: PromotionReading, now: float, acts: PageActs) -> FleetsView:
    """Return the page of all fleets at ``now``, in seconds since the epoch."""
    fleets = fleets_status(reading, reading.promoter, now)
    state = reading.state
    status = None if state is None else rollout_status(state, led=reading.promoter is not None, now=now)
    undecided: tuple[GroupStatus, ...] = ()
    if state is not None and status is not None and reading.promoter is not None:
        undecided = undecided_groups(state, status.groups)
    tone, headline = _verdict(fleets, status, undecided)
    # A fleet that several groups select gets the revision with the first of them.
    groups = {
        name: group.name for group in reversed(fleet_groups(status, reading.history)) for name in group.hosts
    }
    cards = [_card(each, groups, now, acts, fleets.coming) for each in fleets.fleets[:_MOST_FLEETS]]
    many = len(cards) > _FEW_FLEETS
    view = FleetsView(
        tone,
        headline,
        _sentence(fleets),
        _remarks(fleets, status, state),
        cards=tuple(card for card in cards if not (many and card.is_calm)),
        tiles=tuple(card for card in cards if many and card.is_calm),
        more_cards=max(0, len(fleets.fleets) - _MOST_FLEETS),
        ways=revision_ways(reading, status, promotion_page, _link),
        commits=tuple(_commit(each.commit, reading, now, acts) for each in reading.commits.commits[:_COMMITS]),
        history=tuple(_row(entry, reading, now, acts) for entry in reading.history[:_LISTED]),
        strip=_strip(reading.history),
        figures=shown_figures(promotion_deliveries(reading.history), now, _DEFINITIONS),
    )
    if state is None or status is None:
        return view
    moves = reading.promoter is not None and status.state is RolloutProgressState.UNDER_WAY
    return replace(
        view,
        id=status.id,
        revision=short(status.revision),
        done=sum(at is HostProgress.SUCCESS for at in status.hosts.values()),
        total=len(status.hosts),
        acts=(
            *(
                replace(link, label=f"{link.label} {group.name}")
                for group in undecided
                for link in acts.group(group)
            ),
            *acts.promotion,
        ),
        picture=picture(state, status.groups) if status.groups else None,
        groups=tuple(
            group_row(group, state, now, _link, acts.group(group), moves=moves) for group in status.groups
        ),
    )


def _verdict(
    fleets: FleetsStatus, status: RolloutStatus | None, undecided: Sequence[GroupStatus]
) -> tuple[Tone, str]:
    """Return the urgency of the page, and its headline."""
    if not fleets.fleets:
        return Tone.UNKNOWN, "No fleets are under promotion"
    bad = [fleet for fleet in fleets.fleets if fleet.state not in FLEET_TONES]
    if bad:
        return Tone.BAD, f"{counted(len(bad), 'fleet', ',')} of {len(fleets.fleets):,} cannot follow"
    if fleets.problem:
        return Tone.BAD, "Nothing is promoted"
    if status is not None and status.state in {RolloutProgressState.FAILED, RolloutProgressState.PARTIAL}:
        return Tone.BAD, "The promotion failed"
    if undecided:
        return Tone.HALTED, "The promotion waits for a decision"
    if status is not None and status.ended is None:
        under_way = status.state is RolloutProgressState.UNDER_WAY
        headline = "A revision goes from fleet to fleet" if under_way else "The promotion is paused"
        return ROLLOUT_TONES[status.state], headline
    if fleets.converged:
        return Tone.GOOD, f"All {counted(len(fleets.fleets), 'fleet', ',')} have the newest commit"
    return Tone.HALTED, "Fleets are behind the main branch"


def _remarks(fleets: FleetsStatus, status: RolloutStatus | None, state: RolloutState | None) -> tuple[str, ...]:
    """Return sentences on the obstacles of promotions, and on the way out of them."""
    remarks = [f"{remark[:1].upper()}{remark[1:]}." for remark in fleets.remarks]
    if resets := waiting_for_reset(fleets.fleets, state):
        remarks.append(f"{resets}.")
    if status is not None and status.state.value in FAILED_RESULTS:
        remarks.append(
            "The next commit begins at the first group again; 'zkdeployment promote rollback' goes back."
        )
    return tuple(remarks)


def _sentence(fleets: FleetsStatus) -> str:
    if not fleets.fleets:
        return "Fleets and their groups are documents of the main branch; a promoter reads them."
    sentence = fleets.sentence or "No revision was promoted yet"
    main = f" The main branch is at {short(fleets.main)}." if fleets.main is not None else ""
    return f"{sentence[:1].upper()}{sentence[1:]}.{main}"


def _anchor(name: str) -> str:
    return f"fleet-{quote(name, safe='')}"


def _link(fleet: str) -> HostLink:
    return HostLink(fleet, f"#{_anchor(fleet)}")


def _web(address: str) -> str:
    """Return the address of a service; empty unless it is one of the web, because ZooKeeper may hold any text."""
    return address if address.startswith(("http://", "https://")) else ""


def _plan(fleet: FleetStanding, coming: str | None) -> str:
    """Return the page with the plan of the commit that a fleet gets next; empty if the fleet has it."""
    if coming is None or fleet.tip == coming or not _web(fleet.service):
        return ""
    return f"{fleet.service.rstrip('/')}/plan?revision={quote(coming, safe='')}"


def _card(
    fleet: FleetStanding, groups: dict[str, str], now: float, acts: PageActs, coming: str | None
) -> FleetCard:
    return FleetCard(
        anchor=_anchor(fleet.name),
        name=fleet.name,
        href=_web(fleet.service),
        tone=FLEET_TONES.get(fleet.state, Tone.BAD),
        state=fleet.state.value,
        since=moment(fleet.since, now),
        revision="" if fleet.revision is None else short(fleet.revision),
        behind=f"{counted(fleet.behind, 'commit', ',')} behind" if fleet.behind else "",
        converged=fleet.converged,
        hosts=fleet.hosts,
        group=groups.get(fleet.name, ""),
        by=fleet.by,
        problem=fleet.problem,
        ordered=ordered(fleet),
        plan=_plan(fleet, coming),
        acts=acts.fleet(fleet),
    )


def _commit(commit: CommitSummary, reading: PromotionReading, now: float, acts: PageActs) -> CommitRow:
    entry = next((each for each in reading.history if each.revision == commit.id), None)
    row = None if entry is None else _row(entry, reading, now, acts)
    return CommitRow(
        revision=short(commit.id),
        subject=commit.subject,
        author=_without_address(commit.author),
        committed=moment(commit.time, now),
        there=_there(commit.id, reading),
        promotion="" if row is None else row.href,
        result="" if row is None else row.result,
        tone=Tone.UNKNOWN if row is None else row.tone,
        acts=acts.commit(commit.id),
    )


def _there(revision: str, reading: PromotionReading) -> str:
    """Return the fleets that have a revision now."""
    there = sorted(name for name, fleet in reading.standings.items() if fleet.revision == revision)
    return listing(there) if len(there) <= _NAMED else counted(len(there), "fleet", ",")


def _row(entry: PromotionEntry, reading: PromotionReading, now: float, acts: PageActs) -> PromotionRow:
    tones = {state.value: tone for state, tone in ROLLOUT_TONES.items()}
    return PromotionRow(
        id=entry.id,
        href=promotion_page(entry.id),
        revision=short(entry.revision),
        subject=entry.subject,
        author=_without_address(entry.author),
        begun=moment(entry.begun, now),
        tone=tones.get(entry.result, Tone.BUSY),
        result=entry.result or "under way",
        reached=len(entry.reached),
        there=_there(entry.revision, reading),
        took="" if entry.ended is None else age(max(0.0, entry.ended - entry.begun)),
        rolls_back=short(entry.rolls_back) if entry.rolls_back else "",
        chosen=entry.chosen,
        acts=acts.commit(entry.revision),
    )


def _without_address(author: str) -> str:
    """Return the name of an author without the mail address."""
    return author.partition(" <")[0]


def _strip(history: Sequence[PromotionEntry]) -> tuple[StripBar, ...]:
    """Return the bars of the newest promotions, the oldest on the left; heights follow the times since commits."""
    shown = history[:_BARS][::-1]
    took = {
        entry.id: max(0.0, max(entry.reached.values(), default=entry.committed) - entry.committed)
        for entry in shown
    }
    longest = max(took.values(), default=0.0) or 1.0
    return tuple(
        StripBar(
            x=number * _BAR,
            height=max(4, round(_TALLEST * sqrt(took[entry.id] / longest))),
            size=0,
            tone=_BAR_TONES.get(entry.result, "failed"),
            initials="".join(word[0] for word in _without_address(entry.author).split()[:2]).upper(),
            label=(
                f"{entry.subject or short(entry.revision)}: {entry.result or 'under way'},"
                f" {counted(len(entry.reached), 'fleet')} reached, {age(took[entry.id])} after the commit"
            ),
            href=promotion_page(entry.id),
        )
        for number, entry in enumerate(shown)
    )


def promotion_deliveries(history: Sequence[PromotionEntry]) -> list[Delivery]:
    """Return promotions as deliveries, in the same order: the newest first.

    A promotion that was rolled back has failed, also if it had reached all its fleets.
    """
    deliveries = []
    undone = {entry.id for entry in reverted(history)}
    for entry in history:
        failed = entry.id in undone or entry.result in FAILED_RESULTS
        succeeded = not failed and entry.result == RolloutProgressState.SUCCESS.value
        deliveries.append(
            Delivery(
                entry.begun,
                entry.committed or None,
                max(entry.reached.values(), default=entry.ended) if succeeded else None,
                failed,
                (entry.ended or entry.begun) if failed else None,
            )
        )
    return deliveries


def revision_view(reading: PromotionReading, entry: PromotionEntry, now: float, acts: PageActs) -> RevisionView:
    """Return the page of a promotion: when its revision reached which fleet."""
    reached = sorted(entry.reached.items(), key=lambda each: (each[1], each[0]))
    missing = tuple(sorted(reading.standings.keys() - entry.reached.keys()))
    course, words = _course([at for _, at in reached], entry.begun, len(reached) + len(missing))
    return RevisionView(
        row=_row(entry, reading, now, acts),
        commit=entry.revision,
        committed=moment(entry.committed, now),
        ended=moment(entry.ended, now),
        reached=tuple(
            ReachedFleet(
                name,
                _web(reading.standings[name].service) if name in reading.standings else "",
                moment(at, now),
                age(max(0.0, at - entry.committed)),
            )
            for name, at in reached
        ),
        missing=missing,
        course=course,
        course_words=words,
    )


def _course(times: Sequence[float], begun: float, total: int) -> tuple[str, str]:
    """Return the path of the number of reached fleets until the last of the ``times``, and its words."""
    if len(times) <= _NAMED_APART or times[-1] <= begun:
        return "", ""
    seconds = times[-1] - begun
    steps = "".join(
        f"H{400 * max(0.0, at - begun) / seconds:.1f}V{100 - 100 * number / total:.1f}"
        for number, at in enumerate(times, 1)
    )
    half = times[(len(times) - 1) // 2] - begun
    return f"M0 100{steps}V100Z", (
        f"{len(times):,} of {counted(total, 'fleet', ',')}: the first after {age(max(0.0, times[0] - begun))},"
        f" half of them after {age(max(0.0, half))}, the last after {age(seconds)}"
    )
