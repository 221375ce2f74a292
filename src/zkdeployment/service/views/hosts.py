"""Hosts on pages: their states, the list, the page of one host, and the page that finds anything by a text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.agent.rules.plan_text import action, sentence, unchanged_sentence
from zkdeployment.agent.rules.planner import plan
from zkdeployment.base.cluster import short
from zkdeployment.base.durations import age
from zkdeployment.base.errors import HostFilesError, TreeError
from zkdeployment.base.stop import LiveOutput, output_place
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.explanations.explanation import Advice, Explanation
from zkdeployment.fleet.views.columns import NAME, ON_PAGE, SORTED_BY, STATE, Column
from zkdeployment.fleet.views.status import UNREGISTERED, FleetStatus, HostState, HostStatus
from zkdeployment.publishing.targets.compiler import wanted_for
from zkdeployment.service.views.frame import (
    ActLink,
    ListQuery,
    Moment,
    Tab,
    commit_page,
    host_page,
    last_page,
    list_part,
    moment,
    publication_page,
    service_page,
    with_query,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.host import Facts, Identity
    from zkdeployment.base.inventory import Inventory, KnownHost
    from zkdeployment.base.publication import Targets
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.publishing.records import CommitSummary, PublicationRecord


@dataclass(frozen=True, slots=True)
class StateSign:
    """The sign of a state: it differs in shape from all others, so that colour is never the only difference.

    ``name`` is also the word that commands print. ``outline`` is the shape on the map, a path that begins at the
    upper left corner of a cell of ten by ten units. The shape of converged hosts is a point: the style sheet makes
    it a dot, so that the map of a large fleet is small.
    """

    name: str
    meaning: str
    outline: str


@dataclass(frozen=True, slots=True)
class StatusSign:
    """The sign of a status of something else: its word, and the sign of hosts with its shape and colour."""

    word: str
    meaning: str
    sign: StateSign


#: The signs of all states, the most urgent first.
SIGNS: Mapping[HostState, StateSign] = {
    HostState.FAILED: StateSign("failed", "stopped with an error", "m0 0h10v10h-10z"),
    HostState.ABSENT: StateSign("absent", "its agent does not run", "m.5.5h9v9h-9zm2 2v5h5v-5z"),
    HostState.REBOOTING: StateSign("rebooting", "back in some minutes", "m0 0l5 5l-5 5zm10 0l-5 5l5 5z"),
    HostState.DEPLOYING: StateSign("deploying", "works on it now", "m5 0l5 5l-5 5l-5-5z"),
    HostState.BEHIND: StateSign("behind", "waits with another revision", "m.5 5h9v4.5h-9z"),
    HostState.CONVERGED: StateSign("converged", "has the wanted revision", "m5 5h0"),
    HostState.MAINTENANCE: StateSign("in maintenance", "withheld by an operator", "m.5 .5h4v9h-4z"),
    HostState.EXCLUDED: StateSign("excluded", "in no group of the strategy", "m3.5 3.5h3v3h-3z"),
    HostState.UNKNOWN: StateSign("unknown", "no revision is wanted", "m2 4h6v2h-6z"),
}


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 host``, ``2,000 hosts``."""
    return counted(number, noun, ",")


#: The number of hosts on one page of the list.
PAGE_SIZE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class HostQuery(ListQuery[HostState, Column]):
    """A view of the list of hosts."""

    PATH = "/"
    KEPT = ("map", "part")

    sort: Column = STATE

    @property
    def part(self) -> str:
        """The title of the part of the map to which the view is limited; empty: all hosts."""
        return dict(self.kept).get("part", "")

    @property
    def is_filtered(self) -> bool:
        """Whether the view may omit hosts."""
        return bool(self.states or self.text or self.part)

    @property
    def everything(self) -> HostQuery:
        """The view of all hosts in the same order and on the same map."""
        return self.limited_to("", states=frozenset(), text="")

    @property
    def unfiltered(self) -> HostQuery:
        """The view of all hosts of the same part of the map."""
        return replace(self, states=frozenset(), text="", page=1)

    def arranged(self, by: str) -> HostQuery:
        """Return the view with another arrangement of the map."""
        return replace(self, kept=(("map", by),), page=1)

    def limited_to(self, part: str, **changes: Any) -> HostQuery:
        """Return the view of the hosts in a part of the map; empty: of all hosts."""
        kept = {**dict(self.kept), "part": part}
        return replace(
            self, kept=tuple((name, kept[name]) for name in self.KEPT if kept.get(name)), page=1, **changes
        )

    def admits(self, host: HostStatus) -> bool:
        """Whether a host has one of the states and contains the text."""
        return (not self.states or host.state in self.states) and _matches(host, self.text.casefold())

    @staticmethod
    def _all_states() -> Sequence[HostState]:
        return tuple(SIGNS)

    @staticmethod
    def _all_sorts() -> Sequence[Column]:
        return SORTED_BY

    def select(self, hosts: Iterable[HostStatus]) -> list[HostStatus]:
        """Return all hosts of the view in its order, of all pages."""
        selected = [host for host in hosts if self.admits(host)]
        for column in (NAME, self.sort):
            if column.order is not None:
                selected.sort(key=column.order, reverse=self.descending and column is self.sort)
        return selected


def _matches(host: HostStatus, text: str) -> bool:
    if not text:
        return True
    names = (host.name, host.id, host.role or "", host.error or "")
    return any(text in name.casefold() for name in names) or str(host.version).startswith(text)


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host in the list; ``cells`` are the texts of its columns, by their ``value``."""

    id: str
    href: str
    sign: StateSign
    cells: Mapping[str, str]
    failed: bool
    since: Moment | None


@dataclass(frozen=True, slots=True)
class SortLink:
    """The heading of a column, which sorts the list by it, if it has an address.

    ``column`` is its ``value``, ``order`` is the value of ``aria-sort``.
    """

    title: str
    href: str
    order: str
    column: str = ""


@dataclass(frozen=True, slots=True)
class StateFilter:
    """The number of hosts in a state, and the view with this state added to the selected ones or removed."""

    sign: StateSign
    count: int
    selected: bool
    href: str


@dataclass(frozen=True, slots=True)
class HostList:
    """A page of the list; ``range`` names the hosts of this page among the ``total`` selected hosts."""

    query: HostQuery
    rows: tuple[HostRow, ...]
    columns: tuple[SortLink, ...]
    total: int
    range: str
    previous: str | None
    next: str | None
    everything: str


def host_list(hosts: Sequence[HostStatus], query: HostQuery, now: float) -> HostList:
    """Return the page of the list that ``query`` asks for, or the last page if there are fewer pages."""
    selected = query.select(hosts)
    query = replace(query, page=min(query.page, last_page(len(selected), PAGE_SIZE)))
    part = list_part(selected, query.page, PAGE_SIZE, "host", query.at)
    return HostList(
        query=query,
        rows=tuple(_row(host, now) for host in part.rows),
        columns=tuple(_heading(query, column) for column in ON_PAGE),
        total=len(selected),
        range=part.range,
        previous=part.previous,
        next=part.next,
        everything=query.everything.address,
    )


def state_filters(hosts: Sequence[HostStatus], query: HostQuery) -> tuple[StateFilter, ...]:
    """Return a filter for each state that a host has or that the view selects, the most urgent first."""
    counts: dict[HostState, int] = {}
    for host in hosts:
        counts[host.state] = counts.get(host.state, 0) + 1
    return tuple(
        StateFilter(sign, counts.get(state, 0), state in query.states, query.with_state(state).address)
        for state, sign in SIGNS.items()
        if state in counts or state in query.states
    )


def _row(host: HostStatus, now: float) -> HostRow:
    return HostRow(
        id="" if host.id == host.name else host.id,
        href=host_page(host.id),
        sign=SIGNS[host.state],
        cells={column.value: column.page_text(host) for column in ON_PAGE},
        failed=host.error is not None,
        since=moment(host.since, now),
    )


def _heading(query: HostQuery, column: Column) -> SortLink:
    if column not in SORTED_BY:
        return SortLink(column.title, "", "", column.value)
    order = "none"
    if column is query.sort:
        order = "descending" if query.descending else "ascending"
    return SortLink(column.title, query.sorted_by(column).address, order, column.value)


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    """An instance of a service on the host, with the wanted and the deployed version; empty without one."""

    service: str
    href: str
    number: int
    package: str
    wanted: str
    deployed: str


@dataclass(frozen=True, slots=True)
class HostPublication:
    """The result of a publication on the host."""

    revision: str
    href: str
    subject: str
    published: Moment | None
    took: str
    outcome: str
    is_failed: bool


@dataclass(frozen=True, slots=True)
class AdviceLine:
    """An advice on the page of a host, with the link to the act or the page that it names, if the user may act."""

    text: str
    link: ActLink | None = None


def advice_lines(
    advice: Iterable[str], link_of: Callable[[str, Mapping[str, str]], ActLink | None]
) -> tuple[AdviceLine, ...]:
    """Return the advice with links; ``link_of`` returns the link to a target with these values, if there is one.

    Where there is no link, the advice names the command.
    """
    lines = []
    for each in advice:
        link = link_of(each.target, each.values) if isinstance(each, Advice) else None
        lines.append(AdviceLine(str(each) if link is None or not isinstance(each, Advice) else each.on_page, link))
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class LiveView:
    """The output of the script that a host runs now; ``href`` is the address of this part of the page.

    ``text`` is empty until the host has answered, and ``at`` is the time of its answer. ``place`` is where the
    whole output is on the host.
    """

    href: str
    step: str
    text: str = ""
    at: Moment | None = None
    place: str = ""


def live_view(status: HostStatus, output: LiveOutput | None, now: float) -> LiveView | None:
    """Return the output of the present step of a host; ``None`` for a host that does not deploy now."""
    if status.state is not HostState.DEPLOYING:
        return None
    href = f"{host_page(status.id)}/output"
    if output is None:
        return LiveView(href, status.step or "")
    return LiveView(href, output.step, output.text, moment(output.time, now), output_place(output))


@dataclass(frozen=True, slots=True)
class HostView:
    """The values of the page of a host.

    ``steps`` are the steps that the host would take now to reach the published revision, each with its script and
    lock; ``steps_unknown`` is the reason if they are unknown. ``last_lines`` are those of the script that failed.
    """

    id: str
    name: str
    sign: StateSign
    explanation: Explanation
    facts: tuple[tuple[str, str], ...]
    labels: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    steps_unknown: str
    deployments: tuple[DeploymentRow, ...]
    history: tuple[HostPublication, ...]
    since: Moment | None
    reported: Moment | None
    last_lines: str = ""


def host_view(  # noqa: PLR0913  what the page of a host is made of
    status: HostStatus,
    explanation: Explanation,
    snapshot: FleetSnapshot,
    known: KnownHost | None,
    targets: Targets,
    records: Sequence[PublicationRecord],
    *,
    now: float,
) -> HostView:
    """Return the page of a host at ``now``, in seconds since the epoch.

    ``known`` is the last report of the host about itself, ``records`` are the last publications, newest first.
    """
    identity = _identity(status, snapshot)
    inventory = None if known is None else known.inventory
    steps, unknown = _steps(status, identity, inventory, targets)
    return HostView(
        id=status.id,
        name=status.name,
        sign=SIGNS[status.state],
        explanation=explanation,
        facts=tuple(_facts(status)),
        labels=_labels(snapshot.facts.get(status.id)),
        steps=steps,
        steps_unknown=unknown,
        deployments=_deployments(identity, inventory, targets),
        history=tuple(_publication(record, status.id, now) for record in records if status.id in record.results),
        since=moment(status.since, now),
        reported=None if known is None else moment(known.time, now),
        last_lines=next((host.output or "" for host in snapshot.hosts if host.identity.id == status.id), ""),
    )


def _identity(status: HostStatus, snapshot: FleetSnapshot) -> Identity:
    return next(identity for identity in snapshot.identities if identity.id == status.id)


def _facts(status: HostStatus) -> list[tuple[str, str]]:
    done, total = status.steps or (0, 0)
    none = "not known" if status.state in UNREGISTERED else "none yet"
    version = none if status.version is None else str(status.version)
    if status.version is None and status.former is not None:
        version = f"none; {short(status.former)} before the unfinished deployment"
    facts = [
        ("Id", status.id),
        ("Role", status.role or "none"),
        ("Revision", version),
        ("Wanted", "none" if status.wanted is None else str(status.wanted)),
    ]
    if status.reboot is not None:
        facts.append(("Reboot", str(status.reboot)))
    elif status.step is not None and status.error is None:
        facts.append(("Step", f"{f'{done} of {total} done; now: ' if total else ''}{status.step}"))
    return facts


def _labels(facts: Facts | None) -> tuple[str, ...]:
    if facts is None:
        return ()
    rack = () if facts.rack is None else (f"rack {facts.rack}",)
    return (*rack, *sorted(facts.tags), *(f"{name}: {value}" for name, value in sorted(facts.labels.items())))


def _steps(
    status: HostStatus, identity: Identity, inventory: Inventory | None, targets: Targets
) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the remaining steps, or the reason why they are unknown."""
    if status.state in {HostState.CONVERGED, HostState.EXCLUDED}:
        return (), ""
    if status.state is HostState.DEPLOYING:
        return (), "The host deploys now; its present step is above."
    if inventory is None:
        return (), "The host has not reported its inventory."
    try:
        wanted = wanted_for(identity, targets)
        services = frozenset(assignment.path for assignments in targets.values() for assignment in assignments)
        planned = plan(wanted.assignments, inventory, wanted.controller, identity=identity, services=services)
    except (TreeError, HostFilesError) as error:
        return (), f"The host would refuse the published revision: {error}"
    steps = tuple((sentence(step), action(step, planned.controller)) for step in planned.steps)
    unchanged = unchanged_sentence(planned)
    return (*steps, *([(unchanged, "")] if unchanged else [])), ""


def _deployments(identity: Identity, inventory: Inventory | None, targets: Targets) -> tuple[DeploymentRow, ...]:
    """Return the instances that the host should have and those that it has, by service."""
    try:
        assignments = wanted_for(identity, targets).assignments
    except TreeError:
        assignments = ()
    wanted = {deployment: each for each in assignments for deployment in each.deployments}
    markers = {} if inventory is None else {marker.deployment: marker for marker in inventory.markers}
    rows = []
    for deployment in sorted({*wanted, *markers}, key=lambda key: (key.path, key.number)):
        assignment, marker = wanted.get(deployment), markers.get(deployment)
        package = assignment.package if assignment else (marker.package or marker.application) if marker else ""
        deployed = "" if marker is None else (marker.version or "in an unknown version")
        rows.append(
            DeploymentRow(
                service=deployment.path,
                href=service_page(deployment.path),
                number=deployment.number,
                package=package,
                wanted="" if assignment is None else (assignment.version or "any version"),
                deployed=deployed,
            )
        )
    return tuple(rows)


def _publication(record: PublicationRecord, host_id: str, now: float) -> HostPublication:
    result = record.results[host_id]
    return HostPublication(
        revision=short(record.revision),
        href=publication_page(record.sequence),
        subject="" if record.origin is None else record.origin.subject,
        published=moment(record.time, now),
        took=age(result.seconds),
        outcome=result.account,
        is_failed=result.error is not None,
    )


#: The most links of a kind.
_MOST = 8


@dataclass(frozen=True, slots=True)
class FoundLink:
    """A page or a form that was found, with what distinguishes it."""

    name: str
    href: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """The found links of a kind; ``more`` others are on the page ``href``."""

    title: str
    links: tuple[FoundLink, ...]
    more: int = 0
    href: str = ""


def find(  # noqa: PLR0913  the kinds of matches
    text: str,
    status: FleetStatus,
    targets: Targets,
    records: Sequence[PublicationRecord],
    tabs: Iterable[Tab],
    acts: Iterable[ActLink],
    *,
    waiting: Iterable[CommitSummary] = (),
) -> tuple[FoundGroup, ...]:
    """Return the matches of a text, acts and pages first; an empty text matches these and the failed hosts.

    ``records`` are the last publications, ``waiting`` the commits that are not published.
    """
    text = " ".join(text.split())
    words = text.casefold()
    hosts = HostQuery(text=text)
    found = (
        _group("Acts", (FoundLink(act.label, act.href) for act in acts if words in act.label.casefold())),
        _group("Pages", (FoundLink(tab.name, tab.href) for tab in tabs if words in tab.name.casefold())),
        _group(
            "Hosts",
            (
                FoundLink(host.name, host_page(host.id), host.error or host.state.value)
                for host in hosts.select(status.hosts)
                if words or host.error
            ),
            hosts.address,
        ),
        _group("Services", _services(words, targets), with_query("/services", {"text": text})),
        _group("Commits that wait", _commits(words, waiting)),
        _group("Publications", _publications(words, records), "/history"),
    )
    return tuple(group for group in found if group.links)


def _group(title: str, links: Iterable[FoundLink], href: str = "") -> FoundGroup:
    listed = tuple(links)
    return FoundGroup(title, listed[:_MOST], max(0, len(listed) - _MOST) if href else 0, href)


def _services(words: str, targets: Targets) -> Iterator[FoundLink]:
    packages = {each.path: each.package for group in targets.values() for each in group if each.system is None}
    for path, package in sorted(packages.items()):
        if words and words in f"{path} {package}".casefold():
            yield FoundLink(path, service_page(path), package)


def _commits(words: str, waiting: Iterable[CommitSummary]) -> Iterator[FoundLink]:
    for commit in waiting:
        if words and words in f"{commit.id} {commit.subject} {commit.author}".casefold():
            yield FoundLink(commit.subject or short(commit.id), commit_page(commit.id), short(commit.id))


def _publications(words: str, records: Sequence[PublicationRecord]) -> Iterator[FoundLink]:
    for record in records:
        origin = record.origin
        subject, author = ("", "") if origin is None else (origin.subject, origin.author)
        if words and words in f"{record.revision} {subject} {author}".casefold():
            yield FoundLink(
                subject or short(record.revision), publication_page(record.sequence), short(record.revision)
            )
