"""The last publication that a process knows, kept in a file to detect a ZooKeeper that was wiped or restored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import is_revision, short
from zkdeployment.base.errors import HostFilesError, StalePublicationError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files
from zkdeployment.base.publication import Published, is_sequence

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.publishing.ports import PublicationMemory


_LARGEST = 4096


class PublishedFile:
    """A file with one JSON object, ``{"revision", "sequence"}``, replaced atomically.

    An existing file that cannot be read is an error if it is ``required``; else it counts as missing.
    """

    def __init__(self, file: Path, *, required: bool = False) -> None:
        self._file = file
        self._required = required

    def read_published(self) -> Published:
        try:
            content = files.read(self._file, _LARGEST)
            value = {} if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            return self._unknown(error.strerror if isinstance(error, OSError) else "not JSON")
        if content is None:
            return Published()  # a new host has no file
        if not isinstance(value, dict) or not is_sequence(value.get("sequence")):
            return self._unknown("not a publication")
        revision = value.get("revision")
        return Published(revision=revision if is_revision(revision) else None, sequence=value["sequence"])

    def write_published(self, published: Published) -> None:
        content = json.dumps({"revision": published.revision, "sequence": published.sequence}).encode()
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            files.replace(self._file, content)
        except OSError as error:
            raise HostFilesError(f"cannot write {self._file}: {error.strerror}") from error

    def _unknown(self, reason: str | None) -> Published:
        if self._required:
            raise HostFilesError(
                f"cannot read the last verified publication {self._file}: expected JSON with a sequence, found:"
                f" {reason}; check the publication in ZooKeeper with 'zkdeployment verify', then remove the file"
            )
        get_logger().warning("host-file-unreadable", file=str(self._file), reason=reason)
        return Published()


class Watermark:
    """Compares publications with the last one known, which ``memory`` keeps across restarts.

    Without ``memory``, the last publication is known only as long as this object lives. Publications below the
    sequence ``minimum`` always count as older.
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
        """The least sequence of a publication that is accepted; 0 if all are accepted."""
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
            # The caller writes other files next, and fails then if the disk is really unusable.
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
