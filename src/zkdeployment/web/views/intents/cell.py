"""The resources of one cell of the matrix, with what their hosts report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zkdeployment.intents.resources import DEPLOYMENT_KIND, instance_resources
from zkdeployment.tree.format import format_value
from zkdeployment.web.views.intents.matrix import RESOURCES_SHOWN
from zkdeployment.web.views.intents.signs import CLUSTER_SIGNS, RSYNC_SIGNS
from zkdeployment.web.views.links import host_page
from zkdeployment.web.views.states import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.intents.instances import IntentInstance
    from zkdeployment.intents.reality import FleetReports
    from zkdeployment.intents.resources import ResourceDetails, ResourceRow
    from zkdeployment.web.views.intents.matrix import MatrixQuery
    from zkdeployment.web.views.intents.signs import StatusSign


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
    range: str
    previous: str | None
    next: str | None
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

    ``rows`` are all resources of the instance. Only the details of this cell are worked out.
    """
    cell = query.cell
    if cell is None:
        return None
    found = cell_rows(rows, query)
    pages = max(1, -(-len(found) // RESOURCES_SHOWN))
    query = replace(query, resources=min(query.resources, pages))
    first = (query.resources - 1) * RESOURCES_SHOWN
    shown = found[first : first + RESOURCES_SHOWN]
    details = _details(instance, reports, cell)
    last = first + len(shown)
    total = count_text(len(found), "resource")
    return CellView(
        app=cell[0],
        cluster=cell[1],
        lines=tuple(_line(row, details.get((row.kind, row.name))) for row in shown),
        range=total if len(shown) == len(found) else f"{first + 1:,} to {last:,} of {total}",
        previous=replace(query, resources=query.resources - 1).address if query.resources > 1 else None,
        next=replace(query, resources=query.resources + 1).address if last < len(found) else None,
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
