"""The page of a service: versions over time, hosts, the queue of its lock, who waits, and parts of features."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterState
from zkdeployment.base.durations import age
from zkdeployment.base.host import ORDER_PREFIX
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.status import FleetStatus, HostState, HostStatus
from zkdeployment.service.views.failures import FailureGroup, failure_groups
from zkdeployment.service.views.fleet import FleetProblem, deployment_pace, failure_problem
from zkdeployment.service.views.frame import (
    ListPart,
    Moment,
    host_page,
    list_part,
    moment,
    page_address,
    publication_page,
    service_page,
)
from zkdeployment.service.views.hosts import SIGNS, StateSign, count_text
from zkdeployment.service.views.services import PAGE_SIZE, ServiceHosts, ServiceRow, service_row
from zkdeployment.tree.diff import format_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.json_values import Properties
    from zkdeployment.base.lock import Contender, Lock
    from zkdeployment.base.publication import Targets
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.publishing.records import PublicationRecord


@dataclass(frozen=True, slots=True)
class PageCell:
    """A cell of a table: a text, with an address or as a chip in the ``tone`` of the style sheet."""

    text: str
    href: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class PagePart:
    """A part of a page that a feature brings: a table below a title; ``id`` identifies it on the page."""

    id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[PageCell, ...], ...]


@dataclass(frozen=True, slots=True)
class VersionSpan:
    """The time for which versions of a service were wanted, and their deployment.

    ``left`` and ``width`` are percent of the chart's time; ``deployed_left`` and ``deployed_width`` those of
    the time from the first host with the versions to the last one of the publication that replaced them.
    """

    version: str
    publication: str
    subject: str
    since: Moment | None
    deployed: str
    failed: int
    left: float
    width: float
    deployed_left: float
    deployed_width: float


@dataclass(frozen=True, slots=True)
class VersionChart:
    """The versions of a service over time, the newest first, from ``start`` to now."""

    spans: tuple[VersionSpan, ...]
    start: Moment | None


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A host in the queue of a lock; the first one holds the lock."""

    name: str
    href: str
    waited: str
    is_holder: bool


@dataclass(frozen=True, slots=True)
class LockQueue:
    """The queue of the lock of a service, and how many hosts ``more`` wait; ``work`` is the present step."""

    places: tuple[QueuePlace, ...]
    more: int
    work: str


@dataclass(frozen=True, slots=True)
class OrderedService:
    """A service that waits for this one, or for which this one waits; ``left`` hosts are not converged."""

    path: str
    href: str
    left: str


@dataclass(frozen=True, slots=True)
class ServiceNeighbours:
    """The services before and after this one, the hosts that wait for it now, and how many more there are."""

    before: tuple[OrderedService, ...] = ()
    more_before: int = 0
    after: tuple[OrderedService, ...] = ()
    more_after: int = 0
    waiting: tuple[PageCell, ...] = ()
    more_waiting: int = 0


NO_NEIGHBOURS = ServiceNeighbours()


@dataclass(frozen=True, slots=True)
class ServiceHostRow:
    """A host that should run the service: the number of instances and the versions that are deployed."""

    name: str
    href: str
    sign: StateSign
    instances: str
    wanted: str
    deployed: str


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """An instance that registered itself, with its properties as the tree writes them."""

    name: str
    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServiceCondition:
    """The failures of a service, and its progress.

    ``problems`` are the failures of its hosts. ``affected`` counts the hosts that lack the wanted revision, and
    ``pace`` is how fast they become fewer; empty while the fleet stands still.
    """

    problems: tuple[FleetProblem, ...]
    affected: str
    pace: str


@dataclass(frozen=True, slots=True)
class ServiceView:
    """The page of a service."""

    row: ServiceRow
    part: ListPart[ServiceHostRow]
    providers: tuple[ProviderRow, ...]
    properties: tuple[str, ...]
    versions: VersionChart | None = None
    queue: LockQueue | None = None
    order: ServiceNeighbours = NO_NEIGHBOURS
    parts: tuple[PagePart, ...] = ()
    condition: ServiceCondition | None = None
    down: str = ""


def page_hosts(service: ServiceHosts, status: FleetStatus, page: int) -> ListPart[HostStatus]:
    """Return the hosts on a page of a service, or on the last page: those that need attention first."""
    urgency = {state: place for place, state in enumerate(SIGNS)}
    hosts = [host for host in status.hosts if host.id in service.assignments]
    hosts.sort(key=lambda host: (urgency[host.state], host.name))
    return list_part(hosts, page, PAGE_SIZE, "", partial(page_address, service_page(service.path)))


def service_view(  # noqa: PLR0913  what the page of a service is made of
    service: ServiceHosts,
    status: FleetStatus,
    part: ListPart[HostStatus],
    known: Iterable[KnownHost],
    providers: Mapping[str, Properties],
    properties: Properties,
    *,
    versions: VersionChart | None = None,
    queue: LockQueue | None = None,
    order: ServiceNeighbours = NO_NEIGHBOURS,
    parts: tuple[PagePart, ...] = (),
    condition: ServiceCondition | None = None,
    down: str = "",
) -> ServiceView:
    """Return the page of a service; ``down`` is the sentence on its instances that are down.

    ``part`` are the hosts of ``page_hosts``, ``known`` are their last reports. ``providers`` are the registered
    instances by name, ``properties`` those of the service's node. ``parts`` are those of features.
    """
    deployed = {host.identity.id: _deployed(host, service.path) for host in known}
    rows = (_host(host, service.assignments[host.id], deployed.get(host.id)) for host in part.rows)
    return ServiceView(
        row=service_row(service, {host.id: host.state for host in status.hosts}),
        part=ListPart(tuple(rows), part.range, part.previous, part.next),
        providers=tuple(_provider(name, values) for name, values in sorted(providers.items())),
        properties=tuple(_lines(properties)),
        versions=versions,
        queue=queue,
        order=order,
        parts=parts,
        condition=condition,
        down=down,
    )


def _deployed(host: KnownHost, path: str) -> tuple[str, ...] | None:
    if host.inventory is None:
        return None
    markers = [marker for marker in host.inventory.markers if marker.deployment.path == path]
    return tuple(sorted({marker.version or "unknown" for marker in markers}))


def _host(host: HostStatus, assignment: Assignment, deployed: tuple[str, ...] | None) -> ServiceHostRow:
    unknown = "not reported" if deployed is None else "not yet"
    return ServiceHostRow(
        name=host.name,
        href=host_page(host.id),
        sign=SIGNS[host.state],
        instances=counted(assignment.n, "instance"),
        wanted=assignment.version or "any version",
        deployed=", ".join(deployed or ()) or unknown,
    )


#: The most different failures of a service that are shown.
_MOST_PROBLEMS = 3


def service_condition(
    service: ServiceHosts, snapshot: FleetSnapshot, status: FleetStatus, now: float
) -> ServiceCondition:
    """Return the condition of a service at ``now``, in seconds since the epoch."""
    hosts = [host for host in status.hosts if host.id in service.assignments]
    lacking = sum(host.state is not HostState.CONVERGED for host in hosts)
    is_running = snapshot.cluster is not None and snapshot.cluster.state is ClusterState.RUNNING
    failures = (
        FailureGroup(own)
        for group in failure_groups(snapshot, status)
        if (own := tuple(host for host in group.hosts if host.id in service.assignments))
    )
    return ServiceCondition(
        tuple(failure_problem(group, now) for group in islice(failures, _MOST_PROBLEMS)),
        f"{lacking:,} of {count_text(len(hosts), 'host')} without the wanted revision" if lacking else "",
        deployment_pace(hosts, snapshot, now) if is_running else "",
    )


#: The most places of a queue, and the most services before, services after and waiting hosts, on the page.
_MOST_PLACES = 12
_MOST_NEIGHBOURS = 20


def lock_queue(locks: Iterable[Lock], path: str, now: float) -> LockQueue | None:
    """Return the queue of the lock of a service; ``None`` if no host holds it and no host waits for it."""
    lock = next((each for each in locks if path in each.services), None)
    if lock is None or lock.holder is None:
        return None
    places = [_place(lock.holder, now, is_holder=True), *(_place(each, now) for each in lock.waiting)]
    work = "" if lock.work is None else lock.work.step
    return LockQueue(tuple(places[:_MOST_PLACES]), max(0, len(places) - _MOST_PLACES), work)


def _place(contender: Contender, now: float, *, is_holder: bool = False) -> QueuePlace:
    href = "" if contender.host_id is None else host_page(contender.host_id)
    return QueuePlace(contender.identity, href, age(max(0.0, now - contender.since)), is_holder)


def service_order(service: ServiceHosts, targets: Targets, status: FleetStatus) -> ServiceNeighbours:
    """Return the services that deploy before and after a service, and the hosts that wait for it now."""
    states = {host.id: host.state for host in status.hosts}
    assignments = {each.path: each for group in targets.values() for each in group if each.n}
    before = sorted({path for each in service.assignments.values() for path in each.after})
    after = sorted(path for path, each in assignments.items() if service.path in each.after)
    left = sum(states.get(host) is not HostState.CONVERGED for host in service.assignments)
    begin = f"{ORDER_PREFIX}{service.path} "
    waiting = [host for host in status.hosts if host.step is not None and f"{host.step} ".startswith(begin)]
    until = count_text(left, "host") if left else ""
    return ServiceNeighbours(
        tuple(OrderedService(path, service_page(path), "") for path in before[:_MOST_NEIGHBOURS]),
        len(before[_MOST_NEIGHBOURS:]),
        tuple(OrderedService(path, service_page(path), until) for path in after[:_MOST_NEIGHBOURS]),
        len(after[_MOST_NEIGHBOURS:]),
        tuple(PageCell(host.name, host_page(host.id)) for host in waiting[:_MOST_NEIGHBOURS]),
        len(waiting[_MOST_NEIGHBOURS:]),
    )


def version_chart(records: Sequence[PublicationRecord], service: ServiceHosts, now: float) -> VersionChart | None:
    """Return the versions of a service over time; ``records`` are the last publications, newest first.

    ``None`` if none of the records changed them.
    """
    changes = [
        (record, version.version)
        for record in records
        for version in record.versions
        if version.path == service.path
    ]
    if not changes:
        return None
    start = changes[-1][0].time
    length = max(now - start, 1.0)
    spans = []
    end, replaced = now, now
    for record, version in changes:
        results = [result for host, result in record.results.items() if host in service.assignments]
        done = sorted(result.time for result in results if result.error is None)
        spans.append(
            VersionSpan(
                version=version or "not deployed",
                publication=publication_page(record.sequence),
                subject="" if record.origin is None else record.origin.subject,
                since=moment(record.time, now),
                deployed=_deployment(record, done),
                failed=len(results) - len(done),
                left=_percent(record.time - start, length),
                width=_percent(end - record.time, length),
                deployed_left=_percent(done[0] - start, length) if done else 0.0,
                deployed_width=_percent(replaced - done[0], length) if done else 0.0,
            )
        )
        end, replaced = record.time, done[-1] if done else replaced
    return VersionChart(tuple(spans), moment(start, now))


def _deployment(record: PublicationRecord, done: Sequence[float]) -> str:
    if not done:
        return "the history only counts the hosts" if record.left_out else "on no host yet"
    or_more = " or more" if record.left_out else ""
    return f"on {count_text(len(done), 'host')}{or_more}, the last after {age(max(0.0, done[-1] - record.time))}"


def _percent(part: float, whole: float) -> float:
    return round(min(100.0, max(0.0, 100 * part / whole)), 2)


def _provider(name: str, properties: Properties) -> ProviderRow:
    return ProviderRow(name, tuple(_lines(properties)))


def _lines(properties: Properties) -> list[str]:
    return [f"{name} = {format_value(value)}" for name, value in sorted(properties.items())]
