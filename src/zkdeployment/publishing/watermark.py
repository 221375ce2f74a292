"""The last publication that a process knows, kept in a file to detect a ZooKeeper that was wiped or restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from zkdeployment.base.cluster import is_revision, short
from zkdeployment.base.errors import HostFilesError, StalePublicationError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.files import JsonFile, log_damage
from zkdeployment.base.publication import Published, is_sequence

if TYPE_CHECKING:
    from pathlib import Path


def published_file(file: Path, *, required: bool = False) -> JsonFile[Published]:
    """Return the file with the last publication known, ``{"revision", "sequence"}``.

    An existing file that cannot be read is an error if it is ``required``; else it counts as missing.
    """
    damaged = _refuse_damage if required else log_damage
    return JsonFile(file, _decode, _encode, expected="a publication", damaged=damaged)


def _decode(value: Any) -> Published:
    revision, sequence = value.get("revision"), value["sequence"]
    if not is_sequence(sequence):
        raise ValueError("not a publication")
    return Published(revision=revision if is_revision(revision) else None, sequence=sequence)


def _encode(published: Published) -> dict[str, object]:
    return {"revision": published.revision, "sequence": published.sequence}


def _refuse_damage(file: Path, reason: str) -> NoReturn:
    raise HostFilesError(
        f"cannot read the last verified publication {file}: expected JSON with a sequence, found: {reason}; check"
        " the publication in ZooKeeper with 'zkdeployment verify', then remove the file"
    )


class Watermark:
    """Compares publications with the last one known, which ``memory`` keeps across restarts.

    Without ``memory``, the last publication is known only as long as this object lives. Publications below the
    sequence ``minimum`` always count as older.
    """

    def __init__(self, memory: JsonFile[Published] | None, minimum: int = 0) -> None:
        self._memory = memory
        self._minimum = minimum
        self._known: Published | None = None

    @property
    def known(self) -> Published:
        """The last publication known; sequence 0 before the first one."""
        if self._known is None:
            self._known = (None if self._memory is None else self._memory.load()) or Published()
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
            self._memory.save(_known(published))
        self._known = _known(published)


def _known(published: Published) -> Published:
    return Published(revision=published.revision, sequence=published.sequence)


def _label(published: Published) -> str:
    if not published.sequence:
        return "none"
    return f"{published.sequence} (revision {short(published.revision) if published.revision else 'unknown'})"
