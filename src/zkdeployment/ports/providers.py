"""Ports of split updates: the registered instances of a service, and the list that a filter keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.providers.filtering import FilterChange, FilteredList
    from zkdeployment.providers.selection import ProviderList


class ProviderReader(Protocol):
    """The instances of services, read from ZooKeeper."""

    def read(self, path: str) -> ProviderList:
        """Return the instances below the node that ``path`` resolves to.

        The list of a filter is returned as it was between two changes. Raises ``LinkError`` if there is no node.
        """

    def follow(self, path: str) -> ProviderList:
        """Return what ``read`` returns, and arrange that the reader's owner is woken at its next change.

        Only what changed since the last call is read. While the list of a filter changes, parts of it may be
        returned as they were before. Raises ``LinkError`` if there is no node.
        """


class FilterStore(Protocol):
    """The list that filters keep at one path; one of them leads, and only the leader changes the list."""

    def lead(self, timeout: float) -> bool:
        """Queue for the lead for ``timeout`` seconds and return whether this filter leads now."""

    def resign(self) -> None:
        """Leave the lead, or the queue for it; never raises."""

    def registered(self) -> ProviderList:
        """Return the registered instances; their next change wakes the filter. Raises ``LinkError``."""

    def filtered(self) -> FilteredList:
        """Return the list as it is; its next change wakes the filter.

        Raises ``RefusedError`` if the list's path is not free for this filter.
        """

    def write(self, change: FilterChange) -> None:
        """Change the list, in one transaction.

        Raises ``LockLostError`` if another filter leads, and ``ConflictError`` if the list has changed since
        ``filtered`` returned it.
        """
