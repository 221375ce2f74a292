"""The run directory of an agent: its lock, status, identity, version and failure.

An agent locks its run directory first. No lock is waited for, so two agents cannot block each other.

Formats that need more than a few lines belong into their own modules, such as ``version_file``.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import is_revision
from zkdeployment.base.errors import ConfigurationError, HostFilesError, RefusedError
from zkdeployment.base.host import WAITING_PREFIX, Identity
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files
from zkdeployment.base.machine.program import late_import
from zkdeployment.base.publication import is_sequence
from zkdeployment.base.stop import lacking_from_json
from zkdeployment.publishing.watermark import PublishedFile
from zkdeployment.strategies.permission import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.agent.rules.lease import LeaseRecord
    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.publication import Published
    from zkdeployment.base.stop import LackingGroup


class AgentLock:
    """The lock of a directory, in its file ``lock``, which names the process of the holder.

    ``use`` completes the error "another agent (process 17) uses …", ``key`` is the key of the configuration for
    the directory.
    """

    def __init__(self, directory: Path, *, use: str, key: str) -> None:
        self._directory = directory
        self._use = use
        self._key = key
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Create the directory and lock it until ``release`` or the end of this process.

        Raises ``RefusedError`` if another agent holds the lock, ``ConfigurationError`` if the directory is not
        writable.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._directory / "lock", flags, 0o644)
        except OSError as error:
            raise ConfigurationError(
                f"{self._key} {self._directory} cannot be written: {error.strerror}; make it a directory that the"
                f" agent can write to, or set another {self._key}"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise RefusedError(
                f"another agent (process {holder}) uses {self._use}; stop that agent, or set another {self._key}"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def root_lock(root: Path) -> AgentLock:
    """Return the lock of a host: two agents with one root would change the same packages, services and records."""
    return AgentLock(root / "var" / "lib" / "zkdeployment", use=f"the root directory {root}", key="root")


_LARGEST = 64 * 1024


class IdentityFile:
    """A file with one JSON object, ``{"id", "name", "role"}``, replaced atomically and durably."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> Identity | None:
        """Return the identity; ``None`` without one, and with a warning if the file cannot be read."""
        try:
            content = files.read(self._file, _LARGEST)
            value = None if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not JSON"
            get_logger().warning("host-file-unreadable", file=str(self._file), reason=reason)
            return None
        match value:
            case {"id": str(host_id), "name": str(name), "role": str() | None as role}:
                return Identity(host_id, name, role)
            case _:
                return None

    def write(self, identity: Identity) -> None:
        """Replace the file unless it already holds ``identity``; raises ``HostFilesError``."""
        if self.read() == identity:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            files.replace(self._file, json.dumps(asdict(identity)).encode())
        except OSError as error:
            raise HostFilesError(f"cannot write {self._file}: {error.strerror}") from error


class FailureFile:
    """A file with one JSON object, replaced atomically and durably. Writes raise ``HostFilesError``."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> Failure | None:
        """Return the unreported failure; ``None`` without one, and with a warning for a damaged file."""
        try:
            content = files.read(self._file, _LARGEST)
            return None if content is None else Failure.from_json(json.loads(content))
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a failure"
            get_logger().warning("host-file-unreadable", file=str(self._file), reason=reason)
            return None

    def write(self, failure: Failure) -> None:
        """Record a failure, so that it survives a restart."""
        try:
            files.replace(self._file, json.dumps(failure.to_json()).encode())
        except OSError as error:
            raise HostFilesError(f"cannot write {self._file}: {error.strerror}") from error

    def clear(self) -> None:
        """Remove a failure that was reported."""
        try:
            files.remove(self._file)
        except OSError as error:
            raise HostFilesError(f"cannot remove {self._file}: {error.strerror}") from error


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
        content = files.read(file, _LARGEST)
    except OSError as error:
        get_logger().warning("host-file-unreadable", file=str(file), reason=error.strerror)
        return None
    return None if content is None else content.decode(errors="replace")


def _replace(file: Path, value: Revision | dict[str, int] | None) -> None:
    try:
        files.replace(file, json.dumps(value).encode())
    except OSError as error:
        raise HostFilesError(f"cannot write {file}: {error.strerror}") from error


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
            files.replace(self.path / "writable", b"")
            files.remove(self.path / "writable")
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
            return files.read(self.path / "status", _LARGEST)
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
            from zkdeployment.agent.rules.lease import LeaseRecord  # noqa: PLC0415
        return LeaseRecord.if_valid(record)

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
        files.remove(self.path / "lease")

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
            content = files.read(file, _LARGEST)
            return None if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not JSON"
            get_logger().warning("host-file-unreadable", file=str(file), reason=reason)
            return None

    def _replace(self, name: str, content: bytes) -> None:
        try:
            files.replace(self.path / name, content)
        except OSError as error:
            raise HostFilesError(f"cannot write {self.path / name}: {error.strerror}") from error


def _location(path: Path) -> list[object]:
    """Return values that distinguish a directory from each copy, on this machine or another."""
    status = path.stat()
    return [_BOOT_ID.read_text(encoding="ascii").strip(), status.st_dev, status.st_ino]
