"""The last publication that a process knows: reveals a ZooKeeper that was wiped or restored from a backup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError, StalePublicationError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import short
from zkdeployment.model.publication import Published

if TYPE_CHECKING:
    from zkdeployment.ports.memory import PublicationMemory


class Watermark:
    """Compares publications with the last one known, which ``memory`` keeps across restarts.

    Without ``memory``, the last publication is known only as long as this object lives. Publications below the
    sequence ``minimum`` count as older ones, also before any is known.
    """

    def __init__(self, memory: PublicationMemory | None, minimum: int = 0) -> None:
        self._memory = memory
        self._minimum = minimum
        self._known: Published | None = None

    @property
    def known(self) -> Published:
        """The last publication known; sequence 0 before the first one."""
        if self._known is None:
            self._known = Published() if self._memory is None else self._memory.read_published()
        return self._known

    @property
    def sequence(self) -> int:
        """The least sequence of a publication that is not refused; 0 if none is."""
        return max(self.known.sequence, self._minimum)

    def check(self, published: Published) -> None:
        """Raise ``StalePublicationError`` if ``published`` is older than the last one known or the minimum."""
        if self.known.sequence < self._minimum and published.sequence < self._minimum:
            raise StalePublicationError(
                f"the publication is too old: expected sequence {self._minimum} (minimum-sequence) or a later one,"
                f" found {_label(published)}; an old publication may have been put back, or minimum-sequence"
                " is wrong: correct it, or publish again with 'zkdeployment sync --force' or"
                " 'zkdeployment resume --latest'"
            )
        if published.sequence < self.known.sequence:
            raise StalePublicationError(
                f"the store went back: expected publication {_label(self.known)} or a later one, found"
                f" {_label(published)}; ZooKeeper was wiped or restored from an old backup: check its content,"
                " then publish again with 'zkdeployment sync --force' or 'zkdeployment resume --latest'"
            )

    def note(self, published: Published) -> None:
        """Remember a publication, durably if possible, if it is newer than the last one known."""
        try:
            self.remember(published)
        except HostFilesError as error:
            # The caller writes other files next and fails there if the disk really is unusable.
            get_logger().warning("publication-not-remembered", reason=str(error))
            self._known = _known(published)

    def remember(self, published: Published) -> None:
        """Remember a publication durably if it is newer than the last one known; raises ``HostFilesError``."""
        if published.sequence <= self.known.sequence:
            return
        if self._memory is not None:
            self._memory.write_published(_known(published))
        self._known = _known(published)


def _known(published: Published) -> Published:
    return Published(revision=published.revision, sequence=published.sequence)


def _label(published: Published) -> str:
    if not published.sequence:
        return "none"
    return f"{published.sequence} (revision {short(published.revision) if published.revision else 'unknown'})"
