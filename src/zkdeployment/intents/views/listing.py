"""The list of intents: groups by project, clusters by provider, selected and ordered by the page's address."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.intents.documents import ClusterIntents, IntentState, IntentSubject, subject_text
from zkdeployment.intents.rules.life_cycle import ACT_ON_INTENT
from zkdeployment.intents.views.matrix import STATE_TONES, StatusCounts
from zkdeployment.service.views.frame import (
    ListPart,
    ListQuery,
    Moment,
    act_page,
    intent_page,
    list_part,
    moment,
    service_page,
)
from zkdeployment.service.views.hosts import SortLink, count_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zkdeployment.base.publication import LeftService
    from zkdeployment.intents.rules.instances import IntentRecord
    from zkdeployment.service.users.user import User


class IntentSort(Enum):
    """The orders of the intents of a project or of a provider."""

    SUBJECT = "subject"
    STATE = "state"
    SINCE = "since"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentListQuery(ListQuery[IntentState, IntentSort]):
    """A view of the list of intents."""

    PATH = "/intents"

    sort: IntentSort = IntentSort.SUBJECT

    @staticmethod
    def _all_states() -> Sequence[IntentState]:
        return tuple(IntentState)

    @staticmethod
    def _all_sorts() -> Sequence[IntentSort]:
        return tuple(IntentSort)

    def select(self, records: Iterable[IntentRecord]) -> list[IntentRecord]:
        """Return all intents of the view: the groups by project, then the clusters by provider."""
        text = self.text.casefold()
        selected = [
            record
            for record in records
            if (not self.states or record.state in self.states)
            and text in subject_text(record.intent.subject).casefold()
        ]
        selected.sort(key=lambda record: record.intent.subject)
        if self.sort is not IntentSort.SUBJECT or self.descending:
            selected.sort(key=self._key, reverse=self.descending)
        selected.sort(key=lambda record: (isinstance(record.intent, ClusterIntents), record.intent.subject[0]))
        return selected

    def _key(self, record: IntentRecord) -> tuple[float, tuple[str, ...]]:
        match self.sort:
            case IntentSort.STATE:
                return float(list(IntentState).index(record.state)), ()
            case IntentSort.SINCE:
                return -(changed_at(record) or 0.0), ()
        return 0.0, record.intent.subject


def changed_at(record: IntentRecord) -> float | None:
    """Return when the newest instance began or ended, in seconds since the epoch; ``None`` without an instance."""
    if not record.instances:
        return None
    last = record.instances[-1]
    return last.instantiated if last.terminated is None else last.terminated


#: The number of intents on one page of the list.
PAGE_SIZE = 50

_COLUMN_TITLES = {IntentSort.SUBJECT: "Intent", IntentSort.STATE: "State", IntentSort.SINCE: "Since"}


@dataclass(frozen=True, slots=True)
class IntentRow:
    """An intent in the list; ``by`` approved a group."""

    name: str
    href: str
    state: str
    tone: str
    apps: str
    counts: StatusCounts | None
    since: Moment | None
    by: str


@dataclass(frozen=True, slots=True)
class IntentSection:
    """The groups of a project, or the clusters of a provider."""

    title: str
    rows: tuple[IntentRow, ...]


@dataclass(frozen=True, slots=True)
class IntentStateFilter:
    """The number of intents in a state, and the view that shows only these intents, too, or no longer."""

    name: str
    tone: str
    count: int
    selected: bool
    href: str


@dataclass(frozen=True, slots=True)
class IntentsView:
    """A page of the list of intents."""

    query: IntentListQuery
    sections: tuple[IntentSection, ...]
    filters: tuple[IntentStateFilter, ...]
    columns: tuple[SortLink, ...]
    part: ListPart[IntentRecord]


def intent_part(records: Collection[IntentRecord], query: IntentListQuery) -> ListPart[IntentRecord]:
    """Return the intents on the page that ``query`` requests, or on the last page if there are fewer."""
    return list_part(query.select(records), query.page, PAGE_SIZE, "intent", query.at)


def intents_view(
    records: Collection[IntentRecord],
    query: IntentListQuery,
    part: ListPart[IntentRecord],
    counts: Mapping[IntentSubject, StatusCounts],
    now: float,
) -> IntentsView:
    """Return a page of the list; ``counts`` are those of the newest instances of the intents in ``part``."""
    states = Counter(record.state for record in records)
    return IntentsView(
        query=query,
        sections=tuple(
            IntentSection(title, tuple(_row(record, counts, now) for record in of_title))
            for title, of_title in groupby(part.rows, key=_section_title)
        ),
        filters=tuple(
            IntentStateFilter(
                state.value,
                STATE_TONES[state],
                states[state],
                state in query.states,
                query.with_state(state).address,
            )
            for state in IntentState
            if states[state] or state in query.states
        ),
        columns=tuple(_column(query, sort) for sort in _COLUMN_TITLES),
        part=part,
    )


def _section_title(record: IntentRecord) -> str:
    is_cluster = isinstance(record.intent, ClusterIntents)
    return f"{'Clusters of provider' if is_cluster else 'Project'} {record.intent.subject[0]}"


def _row(record: IntentRecord, counts: Mapping[IntentSubject, StatusCounts], now: float) -> IntentRow:
    intent = record.intent
    noun = "network intent" if isinstance(intent, ClusterIntents) else "app"
    return IntentRow(
        name="/".join(intent.subject[1:]),
        href=intent_page(intent.subject),
        state=record.state.value,
        tone=STATE_TONES[record.state],
        apps=count_text(len(intent.apps), noun),
        counts=counts.get(intent.subject),
        since=moment(changed_at(record), now),
        by="" if intent.approval is None else intent.approval.by,
    )


def _column(query: IntentListQuery, sort: IntentSort) -> SortLink:
    order = "none"
    if sort is query.sort:
        order = "descending" if query.descending else "ascending"
    return SortLink(_COLUMN_TITLES[sort], query.sorted_by(sort).address, order)


#: The most left services that a page lists.
_MOST_LEFT = 200


@dataclass(frozen=True, slots=True)
class LeftServiceRow:
    """A service that left governance; ``release`` is the form that releases it, or empty."""

    path: str
    href: str
    target: str
    former: str
    revision: str
    state: str
    release: str


@dataclass(frozen=True, slots=True)
class LeftServicesView:
    """The services that left governance, and how many ``more`` there are."""

    rows: tuple[LeftServiceRow, ...]
    more: int = 0


def left_services_view(left: Collection[LeftService], user: User | None) -> LeftServicesView:
    """Return the services that left governance, sorted; ``user`` is who may act, if anyone may."""
    ordered = sorted(left, key=lambda one: (one.path, one.target or ""))
    rows = tuple(_left_row(one, user) for one in ordered[:_MOST_LEFT])
    return LeftServicesView(rows, max(0, len(ordered) - _MOST_LEFT))


def _left_row(one: LeftService, user: User | None) -> LeftServiceRow:
    may_release = user is not None and user.may_act(ACT_ON_INTENT, one.path)
    return LeftServiceRow(
        one.path,
        service_page(one.path),
        one.target or "all targets",
        subject_text(one.former),
        short(one.revision),
        "not deployed" if one.is_withheld else "stays as deployed",
        act_page("intent-release", "/intents", path=one.path) if may_release else "",
    )
