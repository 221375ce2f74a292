"""The run directory of an agent: its lock, status, identity, version, failure, last publication and session.

Formats that need more than a few lines belong into their own modules, such as ``version_file``.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.host_files.agent_lock import AgentLock
from zkdeployment.adapters.host_files.failure_file import FailureFile
from zkdeployment.adapters.host_files.identity_file import IdentityFile
from zkdeployment.adapters.host_files.published_file import PublishedFile
from zkdeployment.adapters.host_files.version_file import VersionFile
from zkdeployment.adapters.late_imports import late_import
from zkdeployment.errors import ConfigurationError, HostFilesError
from zkdeployment.log import get_logger
from zkdeployment.model.stop import lacking_from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Identity
    from zkdeployment.model.publication import Published
    from zkdeployment.model.stop import LackingGroup
    from zkdeployment.pools.lease import LeaseRecord

_LARGEST = 64 * 1024
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class RunDirectory:
    """The files of one agent in the directory ``path``. Writes raise ``HostFilesError``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = AgentLock(path, use=f"the run directory {path}", key="run-directory")
        self._published = PublishedFile(path / "published")
        self._version = VersionFile(path)
        self.failure = FailureFile(path / "failure")
        self._identity = IdentityFile(path / "identity")
        self._location: list[object] = []
        self._session: int | None = None
        self._queues: dict[str, str] | None = None
        self._requests: object = None

    def acquire(self) -> None:
        """Create the directory and lock it until ``release`` or the end of this process.

        Raises ``RefusedError`` if another agent holds the lock, ``ConfigurationError`` if the directory is not
        writable.
        """
        self._lock.acquire()
        try:
            durable.replace(self.path / "writable", b"")
            durable.remove(self.path / "writable")
            self._location = _location(self.path)
        except OSError as error:
            self.release()
            raise ConfigurationError(
                f"run-directory {self.path} cannot be written: {error.strerror}; make it a directory that the"
                " agent can write to, or set another run-directory"
            ) from error

    def release(self) -> None:
        """Release the lock of the directory."""
        self._lock.release()

    def write_status(self, revision: Revision | None, status: str) -> None:
        """Replace ``status``: ``TIME PID VERSION STATUS`` in one line, the time in seconds since the epoch."""
        version = "_".join(str(revision).split()) or "_"
        text = " ".join(status.split())
        self._replace("status", f"{time.time():.3f} {os.getpid()} {version} {text}\n".encode())

    def read_status(self) -> str | None:
        """Return the status in the file: ``done``, ``error`` or a step; ``None`` for a missing or damaged file."""
        parts = (self._status_line() or b"").decode(errors="replace").strip().split(" ", 3)
        return parts[3] if len(parts) == 4 else None

    def _status_line(self) -> bytes | None:
        try:
            return durable.read(self.path / "status", _LARGEST)
        except OSError:
            return None

    def adopt(self, identity: Identity) -> None:
        """Record the host's identity; if it changed, clear the version that the host reached with other targets.

        The version stays cleared when the host changes back: meanwhile the host may run a mixture of both.
        """
        self._version.take_over(self._status_line())
        former = self.read_identity()
        if former == identity:
            return
        if former is not None:  # otherwise the last agent was that of zc.zkdeployment, or this is a new host
            get_logger().warning("identity-changed", was=asdict(former), now=asdict(identity))
            self._version.forget_sequences()
            self._version.clear(self._version.read(self._status_line()))
        self._identity.write(identity)

    def read_identity(self) -> Identity | None:
        """Return the identity with which the last agent started; ``None`` for a missing or damaged file."""
        return self._identity.read()

    def read_version(self, identity: Identity) -> Revision | None:
        """Return the revision that the host has fully deployed as ``identity``; ``None`` if it does not exist."""
        if self.read_identity() not in {None, identity}:
            return None
        return self._version.read(self._status_line())

    def read_former_version(self) -> Revision | None:
        """Return the revision that the host had fully deployed before the incomplete deployment."""
        return self._version.read_former()

    def is_changing(self) -> bool:
        """Whether a deployment has changed the host and is not complete."""
        return self._version.is_changing()

    def read_sequence(self, revision: Revision | None) -> int:
        """Return the sequence of the publication with which the host reached ``revision``; 0 if it is unknown."""
        return self._version.read_sequence(revision)

    def read_completed(self) -> int | None:
        """Return the sequence of the last publication that was deployed completely; ``None`` if it is unknown."""
        return self._version.read_completed()

    def write_version(self, revision: Revision, sequence: int = 0) -> None:
        """Record that the host has fully deployed ``revision`` with the publication ``sequence`` (0: none)."""
        self._version.write(revision, sequence)

    def clear_version(self, former: Revision | None) -> None:
        """Record that a deployment begins to change the host; ``former`` is the last known revision."""
        self._version.clear(former)

    def read_lacking(self) -> dict[str, LackingGroup]:
        """Return what the host lacks of its version, by the group that is stopped."""
        return lacking_from_json(self._read("lacking"))

    def write_lacking(self, lacking: Mapping[str, LackingGroup]) -> None:
        """Record what the host lacks."""
        content = {group: lacks.to_json() for group, lacks in lacking.items()}
        self._replace("lacking", json.dumps(content).encode())

    def read_lease(self) -> LeaseRecord | None:
        """Return the last lease that this host began to follow; ``None`` for a missing or damaged file."""
        record = self._read("lease")
        if record is None:
            return None
        with late_import():  # most hosts are never leased
            from zkdeployment.pools.lease import LeaseRecord  # noqa: PLC0415
        return LeaseRecord.from_json(record)

    def write_lease(self, record: LeaseRecord) -> None:
        """Record the lease that this host follows."""
        self._replace("lease", json.dumps(record.to_json()).encode())

    def end_leases(self, role: str | None) -> None:
        """Forget the last lease: the host, which has ``role`` now, cannot be leased any more.

        The version is cleared first, unless the host runs that role completely.
        """
        record = self.read_lease()
        if record is not None and not (record.is_reached and record.lease.role == role):
            self._version.forget_sequences()
            self._version.clear(self._version.read(self._status_line()))
        durable.remove(self.path / "lease")

    def forget_sequences(self) -> None:
        """Forget which publications this host completed: it had other targets then."""
        self._version.forget_sequences()

    def read_published(self) -> Published:
        """Return the last publication known to the agents of this host."""
        return self._published.read_published()

    def write_published(self, published: Published) -> None:
        """Record the last known publication."""
        self._published.write_published(published)

    def read_session(self) -> int | None:
        """Return the id of the last agent's ZooKeeper session; ``None`` if it is unknown.

        An id that was recorded in another directory or before the machine's boot does not count: on a copy of a
        machine, that session may belong to the live agent of the original.
        """
        session = self._session_file().get("id")
        return session if isinstance(session, int) else None

    def write_session(self, session: int) -> None:
        """Record the id of this agent's ZooKeeper session."""
        self._keep_joined()
        self._session = session
        self._write_session_file()

    def read_queues(self) -> dict[str, str] | None:
        """Return the queues that the last agent had joined; ``None`` if they are as unknown as its session."""
        queues = self._session_file().get("queues")
        if not isinstance(queues, dict) or not all(isinstance(lock, str) for lock in queues.values()):
            return None
        return queues

    def write_queues(self, queues: Mapping[str, str]) -> None:
        """Record the queues that this agent has joined, beside its session."""
        self._keep_joined()
        self._queues = dict(queues)
        self._write_session_file()

    def read_requests(self, host_id: str) -> dict[str, str | None] | None:
        """Return the paths of a host's requests for locks of roles; ``None`` if they are unknown."""
        match self._session_file().get("requests"):
            case {"host": str(host), "paths": dict(by_role)} if host == host_id:
                return {role: path if isinstance(path, str) else None for role, path in by_role.items()}
            case _:
                return None

    def write_requests(self, host_id: str, requests: Mapping[str, str | None]) -> None:
        """Record a host's requests for locks of roles, beside the session."""
        self._keep_joined()
        self._requests = {"host": host_id, "paths": dict(requests)}
        self._write_session_file()

    def _keep_joined(self) -> None:
        """Read what the last agent had joined, before this agent writes the file for the first time."""
        if self._session is None and self._queues is None and self._requests is None:
            self._queues, self._requests = self.read_queues(), self._session_file().get("requests")

    def _session_file(self) -> Mapping[str, object]:
        """Return the content of the file ``session`` if it is this directory's."""
        value = self._read("session")
        return value if isinstance(value, dict) and value.get("place") == self._location else {}

    def _write_session_file(self) -> None:
        joined = {"queues": self._queues, "requests": self._requests}
        content = {"id": self._session, "place": self._location} | {
            name: value for name, value in joined.items() if value is not None
        }
        self._replace("session", json.dumps(content).encode())

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


def _location(path: Path) -> list[object]:
    """Return values that distinguish a directory from each copy, on this machine or another."""
    status = path.stat()
    return [_BOOT_ID.read_text(encoding="ascii").strip(), status.st_dev, status.st_ino]
