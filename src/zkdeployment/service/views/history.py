"""The pages of the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.durations import age
from zkdeployment.fleet.views.history import acts_during, by_importance
from zkdeployment.service.views.frame import act_page, host_page, moment, publication_page
from zkdeployment.strategies.views import final_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.base.deployment import HostResult
    from zkdeployment.publishing.records import PublicationRecord
    from zkdeployment.service.views.frame import Moment
    from zkdeployment.strategies.state import RolloutState


#: The number of publications on a page of the history, and of hosts on a page of a publication.
PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class PublicationRow:
    """A publication in the list; ``took`` is empty before the first host finished."""

    revision: str
    href: str
    subject: str
    author: str
    published: Moment | None
    done: int
    failed: int
    expected: int
    took: str
    forced_by: str


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A page of the list of publications, with the addresses of its neighbours."""

    rows: tuple[PublicationRow, ...]
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The outcome of a publication on a host."""

    name: str
    href: str
    ended: Moment | None
    took: str
    error: str


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


def history_view(records: Sequence[PublicationRecord], page: int, now: float) -> HistoryView:
    """Return a page of the list; ``records`` are the newest ones, up to one more than the page needs."""
    first = (page - 1) * PAGE_SIZE
    shown = records[first : first + PAGE_SIZE]
    return HistoryView(
        rows=tuple(_row(record, now) for record in shown),
        newer=None if page == 1 else "/history" if page == 2 else f"/history?page={page - 1}",
        older=f"/history?page={page + 1}" if len(records) > first + PAGE_SIZE else None,
    )


def previous_record(records: Sequence[PublicationRecord], sequence: int) -> PublicationRecord | None:
    """Return the publication before the one with a sequence; ``records`` are sorted, the newest first."""
    return next((record for record in records if record.sequence < sequence), None)


def publication_view(  # noqa: PLR0913  what the page of a publication is made of
    records: Sequence[PublicationRecord],
    record: PublicationRecord,
    acts: Sequence[Act],
    rollouts: Sequence[RolloutState],
    difference: TreeDifference | None,
    *,
    page: int,
    now: float,
    may_roll_back: bool,
    may_compare: bool,
) -> PublicationView:
    """Return the page of a publication; ``records`` contain it and the next one, if there is one."""
    results = list(by_importance(record.results.values()))
    first = (page - 1) * PAGE_SIZE
    shown = results[first : first + PAGE_SIZE]
    address = publication_page(record.sequence)
    return PublicationView(
        row=_row(record, now),
        facts=tuple(_facts(record)),
        published=moment(record.time, now),
        acts=tuple((moment(act.time, now), str(act)) for act in acts_during(records, record, acts)),
        rollouts=tuple(map(final_report, rollouts)),
        results=tuple(_result(result, now) for result in shown),
        range=f"{first + 1:,} to {first + len(shown):,} of {len(results):,}" if len(results) > PAGE_SIZE else "",
        left_out=record.left_out,
        previous=f"{address}?page={page - 1}" if page > 1 else None,
        next=f"{address}?page={page + 1}" if len(results) > first + PAGE_SIZE else None,
        difference=difference,
        show_changes=f"{address}?changes=yes#changes" if may_compare and difference is None else None,
        rollback=act_page("rollback", address, sequence=str(record.sequence)) if may_roll_back else None,
    )


def _row(record: PublicationRecord, now: float) -> PublicationRow:
    origin, forced = record.origin, record.forced
    return PublicationRow(
        revision=short(record.revision),
        href=publication_page(record.sequence),
        subject="" if origin is None else origin.subject,
        author="" if origin is None else origin.author.partition(" <")[0],
        published=moment(record.time, now),
        done=record.done,
        failed=record.failed,
        expected=record.expected,
        took="" if record.ended is None else age(record.ended - record.time),
        forced_by="" if forced is None else forced.by,
    )


def _facts(record: PublicationRecord) -> list[tuple[str, str]]:
    facts = [("Revision", str(record.revision)), ("Sequence", str(record.sequence))]
    if record.origin is not None:
        facts += [("Author", record.origin.author), ("Signed by", record.origin.signer or "not asked for")]
    if record.forced is not None:
        facts.append(("Forced by", f"{record.forced.by}: {record.forced.reason or 'no reason given'}"))
    if record.excluded:
        facts.append(("In no group", f"{record.excluded} hosts keep their revision"))
    return facts


def _result(result: HostResult, now: float) -> ResultRow:
    return ResultRow(
        name=result.host_name,
        href=host_page(result.host_id),
        ended=moment(result.time, now),
        took=age(result.seconds),
        error=result.error or "",
    )
