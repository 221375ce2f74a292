"""The ways of revisions: which fleets of each group have which revision now."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.text import counted
from zkdeployment.promotion.records import FleetStanding, FleetState, PromotionEntry
from zkdeployment.promotion.views.fleets import worst_first
from zkdeployment.service.views.fleet import HostLink, Tone
from zkdeployment.service.views.rollouts import ROLLOUT_TONES
from zkdeployment.strategies.picture import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from zkdeployment.promotion.feed import PromotionReading
    from zkdeployment.strategies.views import GroupStatus, RolloutStatus

#: The most revisions with a row of their own, and of fleets in one state that a cell names.
_ROWS = 8
_NAMED = 2

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
                "" if entry is None else entry.author.partition(" <")[0],
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
                tuple(map(link, names)) if len(names) <= _NAMED else (),
                len(names),
            )
            for state, names in by_state.items()
            if state is not FleetState.CONVERGED or total <= _NAMED
        ),
    )
