"""Stops, errors and absences: the first thing that an operator on call has to see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.fleet.branch.refusals import describe_refusal
from zkdeployment.fleet.host_status import HostState
from zkdeployment.fleet.locks import is_orphaned
from zkdeployment.fleet.requests import describe_request
from zkdeployment.model.cluster import short
from zkdeployment.web.views.host_query import HostQuery
from zkdeployment.web.views.links import host_page, intent_page
from zkdeployment.web.views.moments import moment
from zkdeployment.web.views.states import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.fleet.host_status import HostStatus
    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.fleet.status import FleetStatus
    from zkdeployment.model.lock import Lock
    from zkdeployment.model.stop import Stop
    from zkdeployment.web.views.moments import Moment

#: How many hosts a problem names.
_NAMED = 4

#: How many different failures are shown one by one.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class HostLink:
    """A named host with the address of its page."""

    name: str
    href: str


@dataclass(frozen=True, slots=True)
class FleetProblem:
    """A problem in a few words, its reported ``detail``, the hosts that have it, and when it began.

    ``more`` is the number of hosts that ``hosts`` leaves out; ``href`` is the page that shows all of them.
    ``severe`` problems stop the fleet or a host.
    """

    title: str
    detail: str = ""
    hosts: tuple[HostLink, ...] = ()
    more: int = 0
    href: str = ""
    at: Moment | None = None
    severe: bool = True


def fleet_problems(
    snapshot: FleetSnapshot, status: FleetStatus, locks: Sequence[Lock], now: float
) -> tuple[FleetProblem, ...]:
    """Return the problems of the fleet, the most urgent first; ``now`` is in seconds since the epoch."""
    return (
        *_stops(status, now),
        *_failures(status, now),
        *_stopped_groups(status, now),
        *_absences(status),
        *_orphaned_locks(snapshot, locks),
        *_requests(status, now),
        *_refusals(status, now),
        *_failing_daemons(status, now),
        *(FleetProblem("The strategy has a mistake", warning, severe=False) for warning in status.warnings),
    )


def _stops(status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    alike: dict[tuple[object, ...], list[Stop]] = {}
    for stop in status.stops:
        alike.setdefault((stop.by, stop.revision, stop.step, stop.reason), []).append(stop)
    groups = list(alike.values())
    for group in groups[:_SHOWN]:
        yield _stop(group, now)
    rest = sum(len(group) for group in groups[_SHOWN:]) + sum(stop.replaced for stop in status.stops)
    if rest:
        yield FleetProblem(f"{count_text(rest, 'more stop')} recorded", href=_failed().address)


def _stop(group: Sequence[Stop], now: float) -> FleetProblem:
    first = group[0]
    at = moment(first.time, now)
    if first.by is not None:
        return FleetProblem(
            f"{'Held' if first.is_hold else 'Stopped'} by {first.by}", first.reason, at=at, severe=first.is_failure
        )
    title = f"Failed at {first.step} of {short(first.revision)}"
    hosts = tuple(HostLink(stop.host_name, host_page(stop.host_id)) for stop in group[:_NAMED])
    return FleetProblem(title, first.reason, hosts, len(group) - len(hosts), _failed().address, at)


def _failures(status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    """Yield the failures that no stop records, hosts with the same error together."""
    stopping = {stop.host_id for stop in status.stops}
    alike: dict[str, list[HostStatus]] = {}
    for host in status.hosts:
        if host.error is not None and host.id not in stopping:
            alike.setdefault(host.error, []).append(host)
    groups = sorted(alike.values(), key=len, reverse=True)
    for group in groups[:_SHOWN]:
        at = moment(min((host.since for host in group if host.since), default=None), now)
        hosts = tuple(HostLink(host.name, host_page(host.id)) for host in group[:_NAMED])
        title = f"{count_text(len(group), 'host')} failed"
        yield FleetProblem(title, group[0].error or "", hosts, len(group) - len(hosts), _failed().address, at)
    rest = sum(len(group) for group in groups[_SHOWN:])
    if rest:
        yield FleetProblem(f"{count_text(rest, 'more host')} failed in other ways", href=_failed().address)


def _stopped_groups(status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    for stop in status.group_stops:
        host = HostLink(stop.stop.host_name, host_page(stop.stop.host_id))
        title = f"Group {stop.group} is stopped: failed at {stop.stop.step} of {short(stop.stop.revision)}"
        page = intent_page(tuple(stop.group.split("/")))
        yield FleetProblem(title, stop.stop.reason, (host,), href=page, at=moment(stop.stop.time, now))


def _failing_daemons(status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    for failure in status.failures:
        title = f"The {failure.daemon} {failure.by} fails in each cycle"
        yield FleetProblem(title, failure.message, at=moment(failure.since, now))


def _absences(status: FleetStatus) -> Iterator[FleetProblem]:
    absent = [host for host in status.hosts if host.state is HostState.ABSENT and host.expected]
    if not absent:
        return
    hosts = tuple(HostLink(host.name, host_page(host.id)) for host in absent[:_NAMED])
    yield FleetProblem(
        f"{count_text(len(absent), 'host')} absent",
        "The tree deploys to them, but their agents do not run, or cannot reach ZooKeeper.",
        hosts,
        len(absent) - len(hosts),
        HostQuery(states=frozenset({HostState.ABSENT})).address,
        severe=False,
    )


def _orphaned_locks(snapshot: FleetSnapshot, locks: Sequence[Lock]) -> Iterator[FleetProblem]:
    registered = {host.identity.id for host in snapshot.hosts}
    for lock in locks:
        if is_orphaned(lock, registered) and lock.holder is not None:
            title = f"{str(lock)[:1].upper()}{str(lock)[1:]} is held by a host that is not registered"
            yield FleetProblem(title, lock.holder.identity, href="/locks", severe=False)


def _refusals(status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    if status.refusal is not None:
        yield FleetProblem("The last push is not published", describe_refusal(status.refusal, now), severe=False)


def _requests(status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    request = status.request
    if request is not None:
        title = "A publication was requested" if request.error is None else "A requested publication was refused"
        yield FleetProblem(title, describe_request(request, now), severe=request.error is not None)


def _failed() -> HostQuery:
    return HostQuery(states=frozenset({HostState.FAILED}))
