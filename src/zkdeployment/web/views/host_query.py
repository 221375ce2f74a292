"""Selects and orders the hosts in the list of the front page: the whole view is in the page's address."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from zkdeployment.fleet.host_status import HostState
from zkdeployment.web.views.parameters import last_value, page_number, search_text
from zkdeployment.web.views.states import SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.fleet.host_status import HostStatus

#: The number of hosts on one page of the list.
PAGE_SIZE = 50

_URGENCY = {state: place for place, state in enumerate(SIGNS)}


class HostSort(Enum):
    """The orders of the list."""

    STATE = "state"
    NAME = "name"
    ROLE = "role"
    VERSION = "version"
    SINCE = "since"


@dataclass(frozen=True, slots=True)
class HostQuery:
    """A view of the list: hosts in one of ``states`` (empty: in any) that contain a text, in order, by pages."""

    states: frozenset[HostState] = frozenset()
    text: str = ""
    sort: HostSort = HostSort.STATE
    descending: bool = False
    page: int = 1

    @classmethod
    def of_parameters(cls, values: Mapping[str, Sequence[str]]) -> HostQuery:
        """Return the view that the parameters of an address describe; a malformed value counts as absent."""
        order = last_value(values, "sort")
        names = {state.value: state for state in HostState}
        sorts = {sort.value: sort for sort in HostSort}
        return cls(
            states=frozenset(names[name] for name in values.get("state", ()) if name in names),
            text=search_text(values),
            sort=sorts.get(order.removeprefix("-"), HostSort.STATE),
            descending=order.startswith("-"),
            page=page_number(values),
        )

    @property
    def address(self) -> str:
        """The address of the front page with this view."""
        values = [("state", name) for name in self.state_names]
        values += [("text", self.text)] if self.text else []
        if self.sort is not HostSort.STATE or self.descending:
            values.append(("sort", f"{'-' if self.descending else ''}{self.sort.value}"))
        values += [("page", str(self.page))] if self.page > 1 else []
        return f"/?{urlencode(values)}" if values else "/"

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the selected states."""
        return tuple(state.value for state in SIGNS if state in self.states)

    @property
    def is_filtered(self) -> bool:
        """Whether the view may leave out hosts."""
        return bool(self.states or self.text)

    def with_state(self, state: HostState) -> HostQuery:
        """Return the first page of the view that also shows hosts in a state, or no longer does."""
        return replace(self, states=self.states ^ {state}, page=1)

    def sorted_by(self, sort: HostSort) -> HostQuery:
        """Return the first page of the view in another order; the same order is reversed."""
        return replace(self, sort=sort, descending=sort is self.sort and not self.descending, page=1)

    def select(self, hosts: Iterable[HostStatus]) -> list[HostStatus]:
        """Return all hosts of the view in its order, on whichever page they are."""
        text = self.text.casefold()
        selected = [
            host for host in hosts if (not self.states or host.state in self.states) and _matches(host, text)
        ]
        selected.sort(key=lambda host: (host.name, host.id))
        if self.sort is not HostSort.NAME:
            selected.sort(key=self._key, reverse=self.descending)
        elif self.descending:
            selected.reverse()
        return selected

    def _key(self, host: HostStatus) -> tuple[bool, float | str]:
        match self.sort:
            case HostSort.ROLE:
                return host.role is None, host.role or ""
            case HostSort.VERSION:
                return host.version is None, str(host.version)
            case HostSort.SINCE:
                return host.since is None, -(host.since or 0.0)
        return False, _URGENCY[host.state]


def _matches(host: HostStatus, text: str) -> bool:
    if not text:
        return True
    names = (host.name, host.id, host.role or "", host.error or "")
    return any(text in name.casefold() for name in names) or str(host.version).startswith(text)
