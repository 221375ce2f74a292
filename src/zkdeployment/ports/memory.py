"""The port of the record of the last known publication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.model.publication import Published


class PublicationMemory(Protocol):
    """The last known publication, persisted."""

    def read_published(self) -> Published:
        """Return the last known publication; with sequence 0 if the record is missing.

        A corrupt record counts as missing, or raises ``HostFilesError`` if old publications must be refused.
        """

    def write_published(self, published: Published) -> None:
        """Record revision and sequence of the last known publication; raises ``HostFilesError``."""
