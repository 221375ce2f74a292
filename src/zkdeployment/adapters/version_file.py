"""The files in which a host records the revision that it runs whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.errors import HostFilesError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import is_revision
from zkdeployment.model.host import WAITING_PREFIX

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.model.cluster import Revision

_LARGEST = 64 * 1024
_CHANGING = "null"


class VersionFile:
    """``host_version`` and ``former_version`` in a run directory; writes raise ``HostFilesError``.

    ``host_version`` is the JSON of a revision while the host runs that revision whole, and ``null`` from the first
    change of a deployment until the deployment is whole. ``former_version`` is the JSON of the revision before
    that, for people. Older agents wrote no ``former_version``, and kept ``host_version`` while they changed the
    host.
    """

    def __init__(self, directory: Path) -> None:
        self._version = directory / "host_version"
        self._former = directory / "former_version"

    def read(self, status: bytes | None) -> Revision | None:
        """Return the revision that the host runs whole.

        ``None`` if it runs none, and with a warning for a file that makes no sense. ``status`` is the line of the
        status file, which says whether an older agent left the host in the middle of a deployment.
        """
        text = _read(self._version)
        if text is None or text.strip() == _CHANGING:
            return None
        revision = _revision(text)
        if revision is None:
            get_logger().warning("host-version-unknown", file=str(self._version), reason="not a revision")
        elif not self._former.exists() and _was_left_midway(revision, status):
            get_logger().warning("host-version-distrusted", version=revision, reason="left midway")
            return None
        return revision

    def read_former(self) -> Revision | None:
        """Return the revision that the host ran whole before the deployment that is not whole yet."""
        return _revision(_read(self._former) or _CHANGING) if self.is_changing() else None

    def is_changing(self) -> bool:
        """Whether a deployment has changed the host and was not completed."""
        return (_read(self._version) or "").strip() == _CHANGING

    def write(self, revision: Revision) -> None:
        """Record that the host runs ``revision`` whole."""
        _replace(self._version, revision)

    def clear(self, former: Revision | None) -> None:
        """Record that the host runs no revision whole any more; ``former`` is the one before, if it is known."""
        if self.is_changing() and former is None:
            return  # the revision before the first of several deployments in a row stays known
        _replace(self._former, former)
        _replace(self._version, None)

    def take_over(self, status: bytes | None) -> None:
        """Correct what an older agent left; from then on ``host_version`` is true, whatever the status says."""
        if self._former.exists():
            return
        recorded = _revision(_read(self._version) or _CHANGING)
        if recorded is not None and self.read(status) is None:
            self.clear(recorded)
        else:
            _replace(self._former, None)


def _was_left_midway(revision: Revision, status: bytes | None) -> bool:
    """Whether a status file's line shows a step or a failure on the way to another revision."""
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
    """Return a file's text; ``None`` if there is none, and with a warning if it cannot be read."""
    try:
        content = durable.read(file, _LARGEST)
    except OSError as error:
        get_logger().warning("host-file-unreadable", file=str(file), reason=error.strerror)
        return None
    return None if content is None else content.decode(errors="replace")


def _replace(file: Path, revision: Revision | None) -> None:
    try:
        durable.replace(file, json.dumps(revision).encode())
    except OSError as error:
        raise HostFilesError(f"cannot write {file}: {error.strerror}") from error
