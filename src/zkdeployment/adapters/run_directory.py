"""The run directory of an agent: its lock, its status, the version it reached and as whom, its session."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.failure_file import FailureFile
from zkdeployment.adapters.identity_file import IdentityFile
from zkdeployment.adapters.published_file import PublishedFile
from zkdeployment.adapters.version_file import VersionFile
from zkdeployment.errors import ConfigurationError, HostFilesError, RefusedError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Identity
    from zkdeployment.model.publication import Published

_LARGEST = 64 * 1024
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class RunDirectory:
    """The files of one agent in ``path``; raises ``HostFilesError`` when one cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._published = PublishedFile(path / "published")
        self._version = VersionFile(path)
        self.failure = FailureFile(path / "failure")
        self._identity = IdentityFile(path / "identity")
        self._place: list[object] = []

    def acquire(self) -> None:
        """Make the directory and lock it for this process, for as long as it runs.

        Raises ``RefusedError`` if another agent has it, ``ConfigurationError`` if it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            durable.replace(self.path / "writable", b"")
            durable.remove(self.path / "writable")
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self.path / "lock", flags, 0o644)
            self._place = _place(self.path)
        except OSError as error:
            raise ConfigurationError(
                f"run-directory {self.path} cannot be written ({error.strerror}): make it a directory that"
                " the agent can write to, or set another run-directory"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise RefusedError(f"another agent (process {holder}) uses the run directory {self.path}") from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        self._lock = descriptor

    def release(self) -> None:
        """Let another agent have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write_status(self, revision: Revision | None, status: str) -> None:
        """Replace ``status``: ``TIME PID VERSION STATUS``, one line, times in seconds since the epoch."""
        version = "_".join(str(revision).split()) or "_"
        words = " ".join(status.split())
        self._replace("status", f"{time.time():.3f} {os.getpid()} {version} {words}\n".encode())

    def read_status(self) -> str | None:
        """Return what the status file shows: ``done``, ``error`` or a step; ``None`` if it makes no sense."""
        parts = (self._status_line() or b"").decode(errors="replace").strip().split(" ", 3)
        return parts[3] if len(parts) == 4 else None

    def _status_line(self) -> bytes | None:
        try:
            return durable.read(self.path / "status", _LARGEST)
        except OSError:
            return None

    def become(self, identity: Identity) -> None:
        """Note who this host is now; what it reached as somebody else, with other targets, is forgotten.

        At once and for good: who changes back before anything was deployed may have the one's and the other's.
        """
        self._version.take_over(self._status_line())
        former = self.read_identity()
        if former == identity:
            return
        if former is not None:  # else an older agent was here, or none
            get_logger().warning("identity-changed", was=asdict(former), now=asdict(identity))
            self._version.clear(self._version.read(self._status_line()))
        self._identity.write(identity)

    def read_identity(self) -> Identity | None:
        """Return who this host was when its last agent started; unknown (missing, corrupt) is ``None``."""
        return self._identity.read()

    def read_version(self, identity: Identity) -> Revision | None:
        """Return the revision that this host runs whole as ``identity``; ``None`` if it runs none."""
        if self.read_identity() not in {None, identity}:
            return None
        return self._version.read(self._status_line())

    def read_former_version(self) -> Revision | None:
        """Return the revision that the host ran whole before a deployment that is not whole yet."""
        return self._version.read_former()

    def is_changing(self) -> bool:
        """Whether a deployment has changed the host and was not completed."""
        return self._version.is_changing()

    def write_version(self, revision: Revision) -> None:
        """Record that the host runs ``revision`` whole."""
        self._version.write(revision)

    def clear_version(self, former: Revision | None) -> None:
        """Record that the host runs no revision whole any more; ``former`` is the one before, if it is known."""
        self._version.clear(former)

    def read_published(self) -> Published:
        """Return the last publication that this host's agent knew of."""
        return self._published.read_published()

    def write_published(self, published: Published) -> None:
        """Record the last publication known."""
        self._published.write_published(published)

    def read_session(self) -> int | None:
        """Return the id of the ZooKeeper session that the last agent here had, if it is known.

        One that was recorded elsewhere, or before the machine started, is not: it may be that of a live agent on
        the machine of which this one is a copy.
        """
        found = self._read("session")
        if not isinstance(found, dict) or found.get("place") != self._place:
            return None
        session = found.get("id")
        return session if isinstance(session, int) else None

    def write_session(self, session: int) -> None:
        """Record the id of our ZooKeeper session."""
        self._replace("session", json.dumps({"id": session, "place": self._place}).encode())

    def _read(self, name: str) -> object | None:
        file = self.path / name
        try:
            content = durable.read(file, _LARGEST)
            return None if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not JSON"
            get_logger().warning("host-file-unreadable", file=str(file), reason=reason)
            return None

    def _replace(self, name: str, content: bytes) -> None:
        try:
            durable.replace(self.path / name, content)
        except OSError as error:
            raise HostFilesError(f"cannot write {self.path / name}: {error.strerror}") from error


def _place(path: Path) -> list[object]:
    """Return what no copy of a directory has in common with it, on this machine or another."""
    found = path.stat()
    return [_BOOT_ID.read_text(encoding="ascii").strip(), found.st_dev, found.st_ino]
