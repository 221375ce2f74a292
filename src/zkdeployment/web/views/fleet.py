"""The front page: the fleet at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.cluster import short
from zkdeployment.web.views.fleet_verdict import fleet_verdict
from zkdeployment.web.views.host_list import host_list, state_filters
from zkdeployment.web.views.host_map import host_map
from zkdeployment.web.views.links import publication_page
from zkdeployment.web.views.moments import moment
from zkdeployment.web.views.problems import fleet_problems

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.fleet.status import FleetStatus
    from zkdeployment.model.lock import Lock
    from zkdeployment.model.publishing.history import PublicationRecord
    from zkdeployment.model.publishing.request import SyncerReport
    from zkdeployment.web.views.fleet_verdict import FleetVerdict
    from zkdeployment.web.views.host_list import HostList, StateFilter
    from zkdeployment.web.views.host_map import HostMap
    from zkdeployment.web.views.host_query import HostQuery
    from zkdeployment.web.views.moments import Moment
    from zkdeployment.web.views.problems import FleetProblem


@dataclass(frozen=True, slots=True)
class WantedRevision:
    """The revision that hosts should have, with its commit as far as the history knows it."""

    name: str
    full_name: str
    subject: str
    author: str
    published: Moment | None
    href: str


@dataclass(frozen=True, slots=True)
class SyncerLine:
    """The syncer's last message about the repository, and its time."""

    message: str
    at: Moment | None


@dataclass(frozen=True, slots=True)
class FleetView:
    """The values of the front page."""

    verdict: FleetVerdict
    wanted: WantedRevision | None
    problems: tuple[FleetProblem, ...]
    filters: tuple[StateFilter, ...]
    map: HostMap
    list: HostList
    syncer: SyncerLine | None


@dataclass(frozen=True, slots=True)
class FrontPageData:
    """The content of the front page: the snapshot with its status, and what was read beside it.

    ``stale`` is whether ZooKeeper no longer confirms the snapshot.
    """

    snapshot: FleetSnapshot
    status: FleetStatus
    locks: Sequence[Lock] = ()
    records: Sequence[PublicationRecord] = ()
    syncer: SyncerReport | None = None
    stale: bool = False


def fleet_view(
    data: FrontPageData, query: HostQuery, *, now: float, changed: Collection[str] | None = None
) -> FleetView:
    """Return the front page at ``now``, in seconds since the epoch.

    With the ids of ``changed`` hosts, the map has only the parts that show them.
    """
    status, syncer = data.status, data.syncer
    return FleetView(
        verdict=fleet_verdict(data.snapshot, status, now, stale=data.stale),
        wanted=_wanted(status, data.records, now),
        problems=fleet_problems(data.snapshot, status, data.locks, now),
        filters=state_filters(status.hosts, query),
        map=host_map(status.hosts, changed),
        list=host_list(status.hosts, query, now),
        syncer=None if syncer is None else SyncerLine(syncer.last_message, moment(syncer.time, now)),
    )


def _wanted(status: FleetStatus, records: Sequence[PublicationRecord], now: float) -> WantedRevision | None:
    if status.wanted is None:
        return None
    name = str(status.wanted)
    record = next((record for record in records if str(record.revision) == name), None)
    origin = None if record is None else record.origin
    return WantedRevision(
        name=short(name),
        full_name=name,
        subject="" if origin is None else origin.subject,
        author="" if origin is None else origin.author.partition(" <")[0],
        published=None if record is None else moment(record.time, now),
        href="" if record is None else publication_page(record.sequence),
    )
