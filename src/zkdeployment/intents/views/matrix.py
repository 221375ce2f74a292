"""The list of intents, and the matrix of an instance: the statuses of the resources of each app on each cluster.

The page's address contains the view: the instance, the statuses and names, the part of the matrix, and the cell
whose resources are shown.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from zkdeployment.base.cluster import short
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.status import HostState
from zkdeployment.intents.documents import ClusterIntents, IntentState, IntentSubject, subject_text
from zkdeployment.intents.rules.instances import ACT_ON_INTENT, IntentInstance, IntentRecord
from zkdeployment.intents.rules.reality import ClusterStatus, FleetReports, RsyncStatus
from zkdeployment.intents.rules.resources import DEPLOYMENT_KIND, ResourceDetails, ResourceRow, instance_resources
from zkdeployment.service.views.frame import (
    ListPart,
    ListQuery,
    Moment,
    act_page,
    host_page,
    intent_page,
    last_page,
    last_value,
    list_part,
    moment,
    page_number,
    search_text,
    service_page,
)
from zkdeployment.service.views.hosts import SIGNS, SortLink, StatusSign, count_text
from zkdeployment.tree.diff import format_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zkdeployment.base.publication import LeftService
    from zkdeployment.service.users.user import User
    from zkdeployment.service.views.frame import Parameters

#: A status of a resource, of either kind.
ResourceStatus = RsyncStatus | ClusterStatus


#: The signs of the last actions on resources, the most urgent first.
RSYNC_SIGNS: Mapping[RsyncStatus, StatusSign] = {
    RsyncStatus.FAILED: StatusSign("Failed", "its host failed at it", SIGNS[HostState.FAILED]),
    RsyncStatus.RETRYING: StatusSign("Retrying", "its host is absent or in maintenance", SIGNS[HostState.ABSENT]),
    RsyncStatus.PENDING: StatusSign("Pending", "not done yet", SIGNS[HostState.DEPLOYING]),
    RsyncStatus.APPLIED: StatusSign("Applied", "done", SIGNS[HostState.CONVERGED]),
    RsyncStatus.TERMINATED: StatusSign("Terminated", "undeployed", SIGNS[HostState.EXCLUDED]),
}

#: The signs of the existence of resources, the most urgent first.
CLUSTER_SIGNS: Mapping[ClusterStatus, StatusSign] = {
    ClusterStatus.NOT_PRESENT: StatusSign("NotPresent", "its host does not have it", SIGNS[HostState.BEHIND]),
    ClusterStatus.UNKNOWN: StatusSign("Unknown", "its host never reported", SIGNS[HostState.UNKNOWN]),
    ClusterStatus.PRESENT: StatusSign("Present", "its host has it", SIGNS[HostState.CONVERGED]),
}

#: The colours and icons of the states of intents: the tones of the style sheet.
STATE_TONES: Mapping[IntentState, str] = {
    IntentState.CREATED: "planned",
    IntentState.APPROVED: "busy",
    IntentState.INSTANTIATED: "good",
    IntentState.APPLIED: "good",
    IntentState.TERMINATED: "ended",
}


@dataclass(frozen=True, slots=True)
class StatusCounts:
    """The numbers of resources by status, the most urgent first, without zeros."""

    rsync: tuple[tuple[StatusSign, int], ...] = ()
    exists: tuple[tuple[StatusSign, int], ...] = ()

    @property
    def unfinished(self) -> int:
        """The number of resources that are neither applied nor undeployed yet."""
        done = {RSYNC_SIGNS[RsyncStatus.APPLIED], RSYNC_SIGNS[RsyncStatus.TERMINATED]}
        return sum(count for sign, count in self.rsync if sign not in done)

    @property
    def is_failing(self) -> bool:
        """Whether a resource failed."""
        return any(sign is RSYNC_SIGNS[RsyncStatus.FAILED] for sign, _ in self.rsync)


def status_counts(rows: Iterable[ResourceRow]) -> StatusCounts:
    """Return the numbers of resources by status."""
    rsync: dict[RsyncStatus | None, int] = {}
    exists: dict[ClusterStatus, int] = {}
    for row in rows:
        rsync[row.rsync] = rsync.get(row.rsync, 0) + 1
        exists[row.exists] = exists.get(row.exists, 0) + 1
    return StatusCounts(
        tuple((sign, rsync[status]) for status, sign in RSYNC_SIGNS.items() if status in rsync),
        tuple((sign, exists[status]) for status, sign in CLUSTER_SIGNS.items() if status in exists),
    )


#: The number of apps and of clusters that one part of the matrix shows, and of resources on a page of a cell.
APPS_SHOWN = 25
CLUSTERS_SHOWN = 6
RESOURCES_SHOWN = 50

#: The words of all statuses, the most urgent first. A status of either kind selects resources.
_WORDS = tuple(sign.word for signs in (RSYNC_SIGNS, CLUSTER_SIGNS) for sign in signs.values())

#: The most digits of the id of an instance.
_DIGITS = 18


@dataclass(frozen=True, slots=True)
class MatrixQuery:
    """A view of a matrix.

    Resources count if one of their statuses is in ``statuses`` (empty: all) and if their app or their cluster
    contains ``text``. ``page`` and ``columns`` are the numbers of the shown parts of apps and clusters. ``cell``
    is the app and the cluster whose resources are shown, on page ``resources``. ``instance`` is the id of an
    instance, ``None`` for the newest one.
    """

    subject: IntentSubject
    statuses: frozenset[str] = frozenset()
    text: str = ""
    page: int = 1
    columns: int = 1
    cell: tuple[str, str] | None = None
    resources: int = 1
    instance: int | None = None

    @classmethod
    def of_parameters(cls, subject: IntentSubject, values: Parameters) -> MatrixQuery:
        """Return the view that the parameters of an address describe; a malformed value counts as absent."""
        app, cluster, instance = (last_value(values, name) for name in ("app", "cluster", "instance"))
        is_id = instance.isascii() and instance.isdigit() and len(instance) <= _DIGITS
        return cls(
            subject,
            statuses=frozenset(_WORDS).intersection(values.get("status", ())),
            text=search_text(values),
            page=page_number(values),
            columns=page_number(values, "columns"),
            cell=(app, cluster) if app and cluster else None,
            resources=page_number(values, "resources"),
            instance=int(instance) if is_id else None,
        )

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The parameters of the address, besides the text."""
        values = [("status", word) for word in _WORDS if word in self.statuses]
        numbers = {"page": self.page, "columns": self.columns}
        values += [(name, str(number)) for name, number in numbers.items() if number > 1]
        values += [] if self.cell is None else [("app", self.cell[0]), ("cluster", self.cell[1])]
        values += [("resources", str(self.resources))] if self.resources > 1 else []
        return (*values, *([] if self.instance is None else [("instance", str(self.instance))]))

    @property
    def address(self) -> str:
        """The address of the page with this view."""
        values = [*self.fields, *([("text", self.text)] if self.text else [])]
        query = urlencode(values)
        return f"{intent_page(self.subject)}?{query}" if query else intent_page(self.subject)

    def with_status(self, word: str) -> MatrixQuery:
        """Return the view that also counts resources with a status, or no longer does."""
        return replace(self, statuses=self.statuses ^ {word}, page=1, columns=1, cell=None, resources=1)

    def with_cell(self, cell: tuple[str, str] | None) -> MatrixQuery:
        """Return the view that shows the resources of a cell; the same cell is closed."""
        return replace(self, cell=None if cell == self.cell else cell, resources=1)

    def select(self, rows: Iterable[ResourceRow]) -> list[ResourceRow]:
        """Return the resources that count."""
        text = self.text.casefold()
        return [
            row
            for row in rows
            if (not text or text in row.app.casefold() or text in row.cluster.casefold())
            and (
                not self.statuses
                or row.exists.value in self.statuses
                or (row.rsync is not None and row.rsync.value in self.statuses)
            )
        ]


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """The resources of an app on a cluster; ``href`` shows them one by one."""

    counts: StatusCounts
    href: str
    selected: bool


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """An app with its cells, one for each shown cluster; ``None`` where it has no resource."""

    app: str
    cells: tuple[MatrixCell | None, ...]


@dataclass(frozen=True, slots=True)
class StatusFilter:
    """The number of resources with a status, and the view that shows only these, too, or no longer."""

    sign: StatusSign
    count: int
    selected: bool
    href: str


@dataclass(frozen=True, slots=True)
class IntentMatrix:
    """A part of the matrix of an instance, the apps with failed resources first."""

    query: MatrixQuery
    rows: tuple[MatrixRow, ...]
    rsync_filters: tuple[StatusFilter, ...]
    cluster_filters: tuple[StatusFilter, ...]
    apps: ListPart[str]
    clusters: ListPart[str]
    everything: str


def intent_matrix(rows: Sequence[ResourceRow], query: MatrixQuery) -> IntentMatrix:
    """Return the part of the matrix that ``query`` requests; ``rows`` are all resources of the instance."""
    cells: dict[tuple[str, str], list[ResourceRow]] = {}
    for row in query.select(rows):
        cells.setdefault((row.app, row.cluster), []).append(row)
    counts = {place: status_counts(found) for place, found in cells.items()}
    failing = {app for (app, _), of_cell in counts.items() if of_cell.is_failing}
    apps = sorted({app for app, _ in cells}, key=lambda app: (app not in failing, app))
    clusters = sorted({cluster for _, cluster in cells})
    query = replace(
        query,
        page=min(query.page, last_page(len(apps), APPS_SHOWN)),
        columns=min(query.columns, last_page(len(clusters), CLUSTERS_SHOWN)),
    )
    shown_apps = list_part(apps, query.page, APPS_SHOWN, "app", lambda page: replace(query, page=page).address)
    shown_clusters = list_part(
        clusters, query.columns, CLUSTERS_SHOWN, "cluster", lambda part: replace(query, columns=part).address
    )
    totals = status_counts(rows)
    return IntentMatrix(
        query=query,
        rows=tuple(
            MatrixRow(app, tuple(_cell((app, cluster), counts, query) for cluster in shown_clusters.rows))
            for app in shown_apps.rows
        ),
        rsync_filters=_filters(totals.rsync, query),
        cluster_filters=_filters(totals.exists, query),
        apps=shown_apps,
        clusters=shown_clusters,
        everything=MatrixQuery(query.subject, instance=query.instance).address,
    )


def _cell(
    place: tuple[str, str], counts: dict[tuple[str, str], StatusCounts], query: MatrixQuery
) -> MatrixCell | None:
    found = counts.get(place)
    if found is None:
        return None
    return MatrixCell(found, query.with_cell(place).address, place == query.cell)


def _filters(counts: Iterable[tuple[StatusSign, int]], query: MatrixQuery) -> tuple[StatusFilter, ...]:
    return tuple(
        StatusFilter(sign, count, sign.word in query.statuses, query.with_status(sign.word).address)
        for sign, count in counts
    )


@dataclass(frozen=True, slots=True)
class ResourceLine:
    """A resource: its statuses, the wanted and the deployed version, the error of its host, and providers.

    ``rsync`` is ``None`` for a resource that is not wanted. ``href`` is the page of its host.
    """

    name: str
    href: str | None
    kind: str
    rsync: StatusSign | None
    exists: StatusSign
    wanted: str
    deployed: str
    remark: str
    providers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CellView:
    """A page of the resources of a cell, those that need attention first; ``close`` hides them."""

    app: str
    cluster: str
    lines: tuple[ResourceLine, ...]
    part: ListPart[ResourceRow]
    close: str


def cell_rows(rows: Sequence[ResourceRow], query: MatrixQuery) -> list[ResourceRow]:
    """Return the resources of the cell that ``query`` shows, those that need attention first."""
    urgency = {status: place for place, status in enumerate(RSYNC_SIGNS)}
    found = [row for row in query.select(rows) if (row.app, row.cluster) == query.cell]
    return sorted(
        found, key=lambda row: (len(urgency) if row.rsync is None else urgency[row.rsync], row.kind, row.name)
    )


def cell_view(
    rows: Sequence[ResourceRow], query: MatrixQuery, instance: IntentInstance, reports: FleetReports
) -> CellView | None:
    """Return the page of the cell that ``query`` shows; ``None`` if it shows none.

    ``rows`` are all resources of the instance. Only the details of this cell are computed.
    """
    cell = query.cell
    if cell is None:
        return None
    found = cell_rows(rows, query)
    part = list_part(
        found, query.resources, RESOURCES_SHOWN, "resource", lambda page: replace(query, resources=page).address
    )
    details = _details(instance, reports, cell)
    return CellView(
        app=cell[0],
        cluster=cell[1],
        lines=tuple(_line(row, details.get((row.kind, row.name))) for row in part.rows),
        part=part,
        close=query.with_cell(None).address,
    )


def _details(
    instance: IntentInstance, reports: FleetReports, cell: tuple[str, str]
) -> Mapping[tuple[str, str], ResourceDetails]:
    """Return the details of the resources of a cell by kind and name."""
    services = tuple(service for service in instance.services if (service.app, service.target) == cell)
    apps = {app: paths for app, paths in instance.apps.items() if app == cell[0]}
    rows = instance_resources(replace(instance, apps=apps, services=services), reports, with_details=True)
    return {(row.kind, row.name): row.details for row in rows if row.details is not None}


def _line(row: ResourceRow, details: ResourceDetails | None) -> ResourceLine:
    spec, status = ({}, {}) if details is None else (details.spec, details.status)
    marker: Mapping[str, Any] = status.get("marker") or {}
    host = row.name.partition(":")[0] if row.kind == DEPLOYMENT_KIND else None
    is_done = row.rsync is not None and row.rsync.value == "Applied"
    return ResourceLine(
        name=row.name,
        href=None if host is None else host_page(host),
        kind=row.kind,
        rsync=None if row.rsync is None else RSYNC_SIGNS[row.rsync],
        exists=CLUSTER_SIGNS[row.exists],
        wanted=_version(spec),
        deployed=_version(marker),
        remark="" if is_done else status.get("error") or status.get("step") or "",
        providers=tuple(map(_provider, status.get("providers", ()))) or _properties(status),
    )


def _version(value: Mapping[str, Any]) -> str:
    return " ".join(str(part) for part in (value.get("package"), value.get("version")) if part)


def _provider(provider: Mapping[str, Any]) -> str:
    values = [f"{name} = {format_value(value)}" for name, value in sorted(provider.items()) if name != "path"]
    return f"{str(provider['path']).rpartition('/')[2]} ({', '.join(values)})" if values else provider["path"]


def _properties(status: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{name} = {format_value(value)}" for name, value in sorted(status.get("properties", {}).items()))


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
