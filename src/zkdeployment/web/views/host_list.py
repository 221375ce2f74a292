"""The list of hosts on the front page: a page of the hosts that the view selects, with links to other views."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.model.cluster import short
from zkdeployment.web.views.host_query import PAGE_SIZE, HostQuery, HostSort
from zkdeployment.web.views.links import host_page
from zkdeployment.web.views.moments import moment
from zkdeployment.web.views.states import SIGNS, count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.fleet.host_status import HostState, HostStatus
    from zkdeployment.web.views.moments import Moment
    from zkdeployment.web.views.states import StateSign

_COLUMN_TITLES = {
    HostSort.NAME: "Host",
    HostSort.STATE: "State",
    HostSort.ROLE: "Role",
    HostSort.VERSION: "Revision",
    HostSort.SINCE: "Since",
}


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host in the list; ``step`` is the current step of the host, with the number of finished steps."""

    id: str
    name: str
    href: str
    sign: StateSign
    role: str
    revision: str
    step: str
    error: str
    since: Moment | None


@dataclass(frozen=True, slots=True)
class SortLink:
    """The heading of a column, which sorts the list by it; ``order`` is the value of ``aria-sort``."""

    title: str
    href: str
    order: str


@dataclass(frozen=True, slots=True)
class StateFilter:
    """The number of hosts in a state, and the view that shows only these hosts, too, or no longer."""

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
    """Return the page of the list that ``query`` asks for, or the last page if there are fewer."""
    selected = query.select(hosts)
    pages = max(1, -(-len(selected) // PAGE_SIZE))
    query = replace(query, page=min(query.page, pages))
    first = (query.page - 1) * PAGE_SIZE
    shown = selected[first : first + PAGE_SIZE]
    return HostList(
        query=query,
        rows=tuple(_row(host, now) for host in shown),
        columns=tuple(_column(query, sort) for sort in _COLUMN_TITLES),
        total=len(selected),
        range=_range(first, len(shown), len(selected)),
        previous=replace(query, page=query.page - 1).address if query.page > 1 else None,
        next=replace(query, page=query.page + 1).address if query.page < pages else None,
        everything=HostQuery(sort=query.sort, descending=query.descending).address,
    )


def _range(first: int, shown: int, total: int) -> str:
    if shown == total:
        return count_text(total, "host")
    return f"{first + 1:,} to {first + shown:,} of {count_text(total, 'host')}"


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
    done, total = host.steps or (0, 0)
    progress = f"{done} of {total} steps" if total else ""
    return HostRow(
        id="" if host.id == host.name else host.id,
        name=host.name,
        href=host_page(host.id),
        sign=SIGNS[host.state],
        role=host.role or "",
        revision=_revision(host),
        step=": ".join(filter(None, (progress, host.step))) if host.error is None else "",
        error=host.error or "",
        since=moment(host.since, now),
    )


def _revision(host: HostStatus) -> str:
    if host.version is not None:
        return short(host.version)
    return "none" if host.former is None else f"none, before {short(host.former)}"


def _column(query: HostQuery, sort: HostSort) -> SortLink:
    order = "none"
    if sort is query.sort:
        order = "descending" if query.descending else "ascending"
    return SortLink(_COLUMN_TITLES[sort], query.sorted_by(sort).address, order)
