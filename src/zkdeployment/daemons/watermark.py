"""The last publication that a process knows of: a store that shows an earlier one went back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError, StalePublicationError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import short
from zkdeployment.model.publication import Published

if TYPE_CHECKING:
    from zkdeployment.ports.memory import PublicationMemory


class Watermark:
    """What ``memory`` remembers, over restarts. ZooKeeper may be wiped, or restored from an old backup.

    Without ``memory`` it is remembered for as long as this object lives.
    """

    def __init__(self, memory: PublicationMemory | None) -> None:
        self._memory = memory
        self._known: Published | None = None

    @property
    def known(self) -> Published:
        """The last publication known; sequence 0 if there is none."""
        if self._known is None:
            self._known = Published() if self._memory is None else self._memory.read_published()
        return self._known

    def check(self, found: Published) -> None:
        """Raise ``StalePublicationError`` if what was found is from before the last publication known."""
        if found.sequence < self.known.sequence:
            raise StalePublicationError(
                f"the store went back: expected publication {_words(self.known)} or a later one, found"
                f" {_words(found)}; ZooKeeper was wiped or restored from an old backup, so look at it, then"
                " publish again with 'zkdeployment sync --force' or 'zkdeployment resume --latest'"
            )

    def note(self, found: Published) -> None:
        """Remember a publication, durably, if it is later than the one known."""
        if found.sequence <= self.known.sequence:
            return
        self._known = Published(revision=found.revision, sequence=found.sequence)
        if self._memory is None:
            return
        try:
            self._memory.write_published(self._known)
        except HostFilesError as error:
            # Whoever goes on writes other files, too, and fails there if it matters.
            get_logger().warning("publication-not-remembered", reason=str(error))


def _words(published: Published) -> str:
    if not published.sequence:
        return "none"
    return f"{published.sequence} (revision {short(published.revision) if published.revision else 'unknown'})"
