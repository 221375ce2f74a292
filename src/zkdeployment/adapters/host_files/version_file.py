"""The files that record the revision that a host has fully deployed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.errors import HostFilesError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import is_revision
from zkdeployment.model.host import WAITING_PREFIX
from zkdeployment.model.publication import is_sequence

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.model.cluster import Revision

_LARGEST = 64 * 1024
_CHANGING = "null"


class VersionFile:
    """The files ``host_version``, ``former_version`` and ``sequences`` of a run directory.

    Writes raise ``HostFilesError``.

    ``host_version`` is the JSON of the fully deployed revision; it is ``null`` from the first change of a
    deployment until the deployment is complete. ``former_version`` is the JSON of the previous revision, for
    operators. zc.zkdeployment wrote no ``former_version``, and kept ``host_version`` while it changed the host.
    ``sequences`` is a JSON object: the sequence of the publication with which the host reached its revision, by
    revision. The object also has the previous revision, so that it is correct before and after ``host_version`` is
    replaced.
    """

    def __init__(self, directory: Path) -> None:
        self._version = directory / "host_version"
        self._former = directory / "former_version"
        self._sequences = directory / "sequences"

    def read(self, status: bytes | None) -> Revision | None:
        """Return the revision that the host has fully deployed; ``None`` without one.

        A damaged file counts as none and is logged. ``status`` is the line of the status file, which shows whether
        the agent of zc.zkdeployment ended in the middle of a deployment.
        """
        text = _read(self._version)
        if text is None or text.strip() == _CHANGING:
            return None
        revision = _revision(text)
        if revision is None:
            get_logger().warning("host-file-unreadable", file=str(self._version), reason="not a revision")
        elif not self._former.exists() and _was_interrupted(revision, status):
            get_logger().warning("host-version-ignored", version=revision, reason="deployment interrupted")
            return None
        return revision

    def read_former(self) -> Revision | None:
        """Return the revision that the host had fully deployed before the incomplete deployment."""
        return _revision(_read(self._former) or _CHANGING) if self.is_changing() else None

    def is_changing(self) -> bool:
        """Whether a deployment has changed the host and is not complete."""
        return (_read(self._version) or "").strip() == _CHANGING

    def read_sequence(self, revision: Revision | None) -> int:
        """Return the sequence of the publication with which the host reached ``revision``; 0 if it is unknown."""
        sequence = self._read_sequences().get(str(revision))
        return sequence if is_sequence(sequence) else 0

    def read_completed(self) -> int | None:
        """Return the sequence of the last publication that was deployed completely; ``None`` if it is unknown."""
        text = _read(self._former if self.is_changing() else self._version)
        return self.read_sequence(_revision(text or _CHANGING)) or None

    def forget_sequences(self) -> None:
        """Forget the sequences: the host had other targets when it completed these publications."""
        _replace(self._sequences, {})

    def write(self, revision: Revision, sequence: int) -> None:
        """Record that the host has fully deployed ``revision`` with the publication ``sequence`` (0: none)."""
        before = _revision(_read(self._version) or _CHANGING)
        known = {} if before is None else {str(before): self.read_sequence(before)}
        _replace(self._sequences, {**known, str(revision): sequence})
        _replace(self._version, revision)

    def clear(self, former: Revision | None) -> None:
        """Record that a deployment begins to change the host; ``former`` is the last known revision."""
        if self.is_changing() and former is None:
            return  # keeps the revision before the first of several incomplete deployments
        _replace(self._former, former)
        _replace(self._version, None)

    def take_over(self, status: bytes | None) -> None:
        """Convert the files of zc.zkdeployment; afterwards ``read`` no longer depends on the status."""
        if self._former.exists():
            return
        recorded = _revision(_read(self._version) or _CHANGING)
        if recorded is not None and self.read(status) is None:
            self.clear(recorded)
        else:
            _replace(self._former, None)

    def _read_sequences(self) -> dict[str, object]:
        try:
            value = json.loads(_read(self._sequences) or "{}")
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


def _was_interrupted(revision: Revision, status: bytes | None) -> bool:
    """Whether the line of the status file shows a step or a failure of a deployment of another revision."""
    fields = (status or b"").decode(errors="replace").split(maxsplit=3)
    if len(fields) != 4 or fields[2] == ("_".join(str(revision).split()) or "_"):
        return False
    return fields[3].strip() != "done" and not fields[3].startswith(WAITING_PREFIX)


def _revision(text: str) -> Revision | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if is_revision(value) else None


def _read(file: Path) -> str | None:
    """Return a file's text; ``None`` for a missing file, and with a warning for an unreadable one."""
    try:
        content = durable.read(file, _LARGEST)
    except OSError as error:
        get_logger().warning("host-file-unreadable", file=str(file), reason=error.strerror)
        return None
    return None if content is None else content.decode(errors="replace")


def _replace(file: Path, value: Revision | dict[str, int] | None) -> None:
    try:
        durable.replace(file, json.dumps(value).encode())
    except OSError as error:
        raise HostFilesError(f"cannot write {file}: {error.strerror}") from error
