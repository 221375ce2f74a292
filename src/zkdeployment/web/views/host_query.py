"""Selects and orders the hosts in the list of the front page: the whole view is in the page's address."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.fleet.host_status import HostState
from zkdeployment.web.views.list_query import ListQuery
from zkdeployment.web.views.states import SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


@dataclass(frozen=True, slots=True, kw_only=True)
class HostQuery(ListQuery[HostState, HostSort]):
    """A view of the list of hosts."""

    PATH = "/"

    sort: HostSort = HostSort.STATE

    @staticmethod
    def _all_states() -> Sequence[HostState]:
        return tuple(SIGNS)

    @staticmethod
    def _all_sorts() -> Sequence[HostSort]:
        return tuple(HostSort)

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
