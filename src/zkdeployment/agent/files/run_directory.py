"""The run directory of an agent: its lock, status, identity, versions, session and failure.

An agent locks its run directory first. No lock is waited for, so two agents cannot block each other.

The file of the session also has the queues for locks that the host's agents joined: ``JoinedQueues`` are those of
service locks, whose contenders end with the session, and the service locks that are kept for the host;
``JoinedRoles`` are those of role locks, whose requests stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from zkdeployment.agent.rules.lease import LeaseRecord
from zkdeployment.base.cluster import Revision, is_revision
from zkdeployment.base.errors import ConfigurationError, HostFilesError, RefusedError
from zkdeployment.base.host import WAITING_PREFIX, Host, Identity
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files
from zkdeployment.base.machine.boots import read_boot_id
from zkdeployment.base.machine.files import JsonFile, converting_errors, json_object
from zkdeployment.base.publication import is_sequence
from zkdeployment.base.records import OMITTED, Record
from zkdeployment.base.stop import LackingGroup, lacking_from_json
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.watermark import published_file
from zkdeployment.strategies.permission import Failure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path


@contextlib.contextmanager
def _sole_agent(directory: Path, *, use: str, key: str) -> Iterator[None]:
    """Create a directory and hold its lock, the file ``lock``, which names the process of the holder.

    ``use`` completes the error "another agent (process 17) uses …", ``key`` is the key of the configuration for
    the directory. Raises ``RefusedError`` if another agent holds the lock, ``ConfigurationError`` if the directory
    is not writable.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(directory / "lock", flags, 0o600)
        os.fchmod(descriptor, 0o600)  # former agents let every user read the file, and thereby hold its lock
    except OSError as error:
        raise ConfigurationError(
            f"{key} {directory} cannot be written: {error.strerror}; make it a directory that the agent can write"
            f" to, or set another {key}"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", errors="replace").strip() or "unknown"
            raise RefusedError(
                f"another agent (process {holder}) uses {use}; stop that agent, or set another {key}"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        yield
    finally:
        os.close(descriptor)


def sole_agent_of(root: Path) -> contextlib.AbstractContextManager[None]:
    """Hold the lock of a host: two agents with one root would change the same packages, services and records."""
    return _sole_agent(lasting_directory(root), use=f"the root directory {root}", key="root")


def lasting_directory(root: Path) -> Path:
    """Return the directory of the host with this root whose files outlive a boot, unlike the run directory."""
    return root / "var" / "lib" / "zkdeployment"


#: The names of the files about leases.
LEASE, LEASE_BASELINE, SSH_BEFORE_LEASE = "lease", "lease-baseline", "ssh-before-lease"


#: The files that former agents had in the run directory.
_MOVED = (LEASE, LEASE_BASELINE, SSH_BEFORE_LEASE, "published", "failure")


def _move_lasting_files(run: Path, root: Path) -> None:
    """Move the files that must outlive a boot from the run directory, where former agents had them."""
    for name in _MOVED:
        file = run / name
        if file.is_file():
            with converting_errors("move", file):
                files.replace(lasting_directory(root) / name, file.read_bytes(), mode=0o600)
                files.remove(file)


def identity_file(file: Path) -> JsonFile[Identity]:
    """Return the file with a host's identity, ``{"id", "name", "role"}``."""
    return JsonFile(file, _identity, asdict)


def _identity(value: object) -> Identity | None:
    match value:
        case {"id": str(host_id), "name": str(name), "role": str() | None as role}:
            return Identity(host_id, name, role)
    return None


#: What the file of a version holds: a revision, or ``null`` while the host has no revision.
_Recorded = tuple["Revision | None"]

_NOTHING: _Recorded = (None,)


def _version_file(file: Path) -> JsonFile[_Recorded]:
    return JsonFile(file, _recorded, lambda recorded: recorded[0], expected="a revision")


def _recorded(value: Any) -> _Recorded:
    if value is not None and not is_revision(value):
        raise ValueError("not a revision")
    return (value,)


@dataclass(frozen=True)
class HostVersions:
    """The revisions that a host had, as its run directory records them.

    ``current`` is the fully deployed revision, ``None`` while a deployment changes the host (``is_changing``).
    ``former`` is the revision before. ``sequences`` are those of the publications with which the host reached
    these revisions. ``is_converted`` is false for the files of zc.zkdeployment, whose agent recorded only in its
    status that it had begun to change the host: ``interrupted`` is the revision that was ``current`` then.
    """

    current: Revision | None
    former: Revision | None
    sequences: Mapping[str, object]
    is_changing: bool
    is_converted: bool
    interrupted: Revision | None = None

    def sequence(self, revision: Revision | None) -> int:
        """Return the sequence of the publication with which the host reached ``revision``; 0 if it is unknown."""
        sequence = self.sequences.get(str(revision))
        return sequence if is_sequence(sequence) else 0

    @property
    def completed(self) -> int | None:
        """The sequence of the last publication that was deployed completely; ``None`` if it is unknown."""
        return self.sequence(self.former if self.is_changing else self.current) or None


class VersionFiles:
    """The files ``host_version``, ``former_version`` and ``sequences`` of a run directory.

    Writes raise ``HostFilesError``.

    ``host_version`` is the JSON of the fully deployed revision; it is ``null`` from the first change of a
    deployment until the deployment is complete. ``former_version`` is the JSON of the previous revision, for
    operators. zc.zkdeployment wrote no ``former_version``, and kept ``host_version`` while it changed the host.
    ``sequences`` is a JSON object that maps the host's revision to the sequence of the publication with which the
    host reached it. The object also contains the previous revision, so that it is correct before and after
    ``host_version`` is replaced.
    """

    def __init__(self, directory: Path) -> None:
        self._version = _version_file(directory / "host_version")
        self._former = _version_file(directory / "former_version")
        self._sequences = JsonFile(directory / "sequences", json_object, dict)
        self._status = directory / "status"

    def read(self) -> HostVersions:
        """Return the records of the files; a damaged file counts as missing and is logged."""
        version, former = self._version.load() or _NOTHING, self._former.load() or _NOTHING
        versions = HostVersions(
            current=version[0],
            former=former[0],
            sequences=self._sequences.load() or {},
            is_changing=version is not _NOTHING and version[0] is None,
            is_converted=self._former.file.exists(),
        )
        if versions.is_converted or not self._was_interrupted(versions.current):
            return versions
        get_logger().warning("host-version-ignored", version=versions.current, reason="deployment interrupted")
        return replace(versions, current=None, interrupted=versions.current)

    def _was_interrupted(self, revision: Revision | None) -> bool:
        """Whether the status file shows a step or a failure of a deployment of another revision."""
        fields = (read_status_line(self._status) or b"").decode(errors="replace").split(maxsplit=3)
        if revision is None or len(fields) != 4 or fields[2] == ("_".join(str(revision).split()) or "_"):
            return False
        return fields[3].strip() != "done" and not fields[3].startswith(WAITING_PREFIX)

    def write(self, revision: Revision, sequence: int = 0) -> None:
        """Record that the host has fully deployed ``revision`` with the publication ``sequence`` (0: none)."""
        before = self.read()
        known = {} if before.current is None else {str(before.current): before.sequence(before.current)}
        self._sequences.save({**known, str(revision): sequence})
        self._version.save((revision,))

    def clear(self, former: Revision | None) -> None:
        """Record that a deployment begins to change the host; ``former`` is the last known revision."""
        if former is None and self.read().is_changing:
            return  # keeps the revision before the first of several incomplete deployments
        self._former.save((former,))
        self._version.save(_NOTHING)

    def forget_sequences(self) -> None:
        """Forget the sequences: the host had other targets when it completed these publications."""
        self._sequences.save({})

    def convert(self) -> None:
        """Record that a version of zc.zkdeployment is complete."""
        self._former.save(_NOTHING)


def read_status_line(file: Path) -> bytes | None:
    """Return the line of a status file; ``None`` for a missing or unreadable one."""
    try:
        return files.read(file, _LARGEST)
    except OSError:
        return None


@dataclass(eq=False, repr=False)
class SessionFile:
    """The last session with ZooKeeper, and the queues for locks that agents of this directory have joined.

    Nothing counts that was recorded at another ``place``, in another directory or before the machine's boot: on a
    copy of a machine, that session may belong to the live agent of the original.
    """

    file: JsonFile[dict[str, Any]]
    place: list[object] = field(default_factory=list)
    _session: int | None = None
    _queues: dict[str, str] | None = None
    _requests: object = None

    def read_session(self) -> int | None:
        """Return the id of the last agent's ZooKeeper session; ``None`` if it is unknown."""
        session = self._read().get("id")
        return session if isinstance(session, int) else None

    def write_session(self, session: int) -> None:
        """Record the id of this agent's ZooKeeper session."""
        self._keep_joined()
        self._session = session
        self._write()

    def read_queues(self) -> dict[str, str] | None:
        """Return the queues that the last agent had joined; ``None`` if they are as unknown as its session."""
        queues = self._read().get("queues")
        if not isinstance(queues, dict) or not all(isinstance(lock, str) for lock in queues.values()):
            return None
        return queues

    def write_queues(self, queues: Mapping[str, str]) -> None:
        """Record the queues that this agent has joined, beside its session."""
        self._keep_joined()
        self._queues = dict(queues)
        self._write()

    def read_requests(self, host_id: str) -> dict[str, str | None] | None:
        """Return the paths of a host's requests for locks of roles; ``None`` if they are unknown."""
        match self._read().get("requests"):
            case {"host": str(host), "paths": dict(by_role)} if host == host_id:
                return {role: path if isinstance(path, str) else None for role, path in by_role.items()}
            case _:
                return None

    def write_requests(self, host_id: str, requests: Mapping[str, str | None]) -> None:
        """Record a host's requests for locks of roles, beside the session."""
        self._keep_joined()
        self._requests = {"host": host_id, "paths": dict(requests)}
        self._write()

    def _keep_joined(self) -> None:
        """Read the queues that the last agent had joined, before this agent first writes the file."""
        if self._session is None and self._queues is None and self._requests is None:
            self._queues, self._requests = self.read_queues(), self._read().get("requests")

    def _read(self) -> dict[str, Any]:
        value = self.file.load() or {}
        return value if value.get("place") == self.place else {}

    def _write(self) -> None:
        joined = {"queues": self._queues, "requests": self._requests}
        known = {name: value for name, value in joined.items() if value is not None}
        self.file.save({"id": self._session, "place": self.place} | known)


class JoinedQueues:
    """The queues that this agent, or the killed one before it, has joined and perhaps not left.

    ``kept`` are the names of the locks whose work records are kept for this host.

    Each queue is recorded before its contender is created: the name of the lock, by the unique prefix of the
    contender. Without ``memory`` nothing is recorded, and the queues of an earlier agent are unknown.
    """

    def __init__(self, memory: SessionFile | None) -> None:
        self._memory = memory
        self.inherited: Mapping[str, str] | None = None if memory is None else memory.read_queues()
        self._joined: dict[str, str] = {}
        self.kept: set[str] = set()

    @property
    def locks(self) -> Collection[str] | None:
        """The names of the locks under which the host may have left work; ``None`` if they are unknown."""
        return None if self.inherited is None else sorted({*self.inherited.values(), *self._joined.values()})

    def join(self, prefix: str, lock: str) -> None:
        """Record that a contender with this prefix is about to be created."""
        self._joined[prefix] = lock
        self._write()

    def leave(self, prefix: str) -> None:
        """Note that the contender and the record of its work are removed; the next record omits them."""
        self._joined.pop(prefix, None)

    def forget_inherited(self) -> None:
        """Record that nothing remains of the previous agent, except for kept work."""
        was_known, self.inherited = self.inherited == {}, {}
        if not was_known:
            self._write()

    def _write(self) -> None:
        if self._memory is None:
            return
        try:
            kept = {lock: lock for lock in self.kept}  # no contender has such a prefix
            self._memory.write_queues({**(self.inherited or {}), **kept, **self._joined})
        except HostFilesError as error:
            get_logger().warning("queues-not-remembered", reason=str(error))


class JoinedRoles:
    """The roles in whose queues a host may have requests, with the path of each request.

    A role is recorded before its request is created, at first without a path. Without ``memory``, or if the record
    was lost, nothing is known until all queues were searched.
    """

    def __init__(self, memory: SessionFile | None = None) -> None:
        self._memory = memory
        self._known: dict[str, Mapping[str, str | None] | None] = {}

    def requests(self, host_id: str) -> Mapping[str, str | None] | None:
        """Return the paths of a host's requests by role; ``None`` if they are unknown.

        A single unknown path is also ``None``.
        """
        if host_id not in self._known:
            self._known[host_id] = None if self._memory is None else self._memory.read_requests(host_id)
        return self._known[host_id]

    def join(self, host_id: str, role: str, path: str | None = None) -> None:
        """Record that a host is about to join the queue of a role, or with ``path``, that it has a request there.

        Raises ``HostFilesError``: a request that is not recorded could block the role forever.
        """
        requests = {**(self.requests(host_id) or {}), role: path}
        self._write(host_id, requests)
        self._known[host_id] = requests

    def leave(self, host_id: str, role: str) -> None:
        """Note that a host has left the queue of a role."""
        known = self.requests(host_id)
        if known is not None:
            self.keep(host_id, {name: path for name, path in known.items() if name != role})

    def keep(self, host_id: str, requests: Mapping[str, str | None]) -> None:
        """Note the requests of a host that remain in all queues."""
        former, self._known[host_id] = self.requests(host_id), requests
        try:
            if former != requests:
                self._write(host_id, requests)
        except HostFilesError as error:  # the record names more requests than there are
            get_logger().warning("requests-not-remembered", reason=str(error))

    def _write(self, host_id: str, requests: Mapping[str, str | None]) -> None:
        if self._memory is not None:
            self._memory.write_requests(host_id, requests)


_LARGEST = 64 * 1024


@dataclass(frozen=True, slots=True)
class DeploymentAttempt(Record):
    """An attempt of a host to deploy a publication, which has begun to change the host.

    ``begun`` is its begin, later by the waits for the rollout. ``paused`` is when the agent abandoned the attempt,
    because the host lost its permission or ZooKeeper; ``None``: it is under way, also while no agent runs.
    Both are in seconds since the epoch.
    """

    is_lenient: ClassVar[bool] = True
    revision: Revision
    sequence: int
    begun: float
    paused: Annotated[float | None, OMITTED] = None

    def seconds(self, now: float) -> float:
        """Return the time that the host has worked on the publication."""
        return max(0.0, (now if self.paused is None else self.paused) - self.begun)


class RunDirectory:
    """The files of one agent in the directory ``path``. Writes raise ``HostFilesError``.

    ``identity`` is that with which the last agent started, ``lacking`` what the host lacks of its version, by the
    group that is stopped. ``published`` is the last publication that the agent has seen, ``failure`` one that is
    not reported yet, ``lease`` the last lease that this host began to follow, ``attempt`` the deployment that has
    begun to change the host. These four are below ``root``, if that is given, because they must outlive a boot.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self.path = path
        self.identity = identity_file(path / "identity")
        self.version = VersionFiles(path)
        self.session = SessionFile(JsonFile(path / "session", json_object, dict))
        lasting = path if root is None else lasting_directory(root)
        self.published = published_file(lasting / "published")
        self.failure = JsonFile(lasting / "failure", Failure.from_json, Failure.to_json, expected="a failure")
        self.lease = JsonFile(lasting / LEASE, LeaseRecord.if_valid, LeaseRecord.to_json)
        self.lacking = JsonFile(path / "lacking", lacking_from_json, _lacking_to_json)
        self.attempt = JsonFile(lasting / "attempt", DeploymentAttempt.from_json, DeploymentAttempt.to_json)

    @contextlib.contextmanager
    def locked(self, root: Path | None = None) -> Iterator[None]:
        """Create the directory and hold its lock; with ``root``, also that of the host, to start its agent.

        Raises ``RefusedError`` if another agent holds a lock, ``ConfigurationError`` if the directory is not
        writable.
        """
        of_root = contextlib.nullcontext() if root is None else sole_agent_of(root)
        with _sole_agent(self.path, use=f"the run directory {self.path}", key="run-directory"), of_root:
            try:
                status = self.path.stat()
                self.session.place = [read_boot_id(), status.st_dev, status.st_ino]
                files.replace(self.path / "writable", b"")
                files.remove(self.path / "writable")
            except OSError as error:
                raise ConfigurationError(
                    f"run-directory {self.path} cannot be written: {error.strerror}; make it a directory that the"
                    " agent can write to, or set another run-directory"
                ) from error
            if root is not None:
                _move_lasting_files(self.path, root)
            yield

    def write_status(self, revision: Revision | None, status: str) -> None:
        """Replace ``status``: ``TIME PID VERSION STATUS`` in one line, the time in seconds since the epoch."""
        version = "_".join(str(revision).split()) or "_"
        line = f"{time.time():.3f} {os.getpid()} {version} {' '.join(status.split())}\n"
        with converting_errors("write", self.path / "status"):
            files.replace(self.path / "status", line.encode())

    def read_status(self) -> str | None:
        """Return the status in the file: ``done``, ``error`` or a step; ``None`` for a missing or damaged file."""
        parts = (read_status_line(self.path / "status") or b"").decode(errors="replace").strip().split(" ", 3)
        return parts[3] if len(parts) == 4 else None

    def adopt(self, identity: Identity) -> None:
        """Record the host's identity; if it changed, clear the version, which the host reached with other targets.

        The version stays cleared if the identity changes back: the host may have deployed a part of the other
        targets.
        """
        versions, former = self.version.read(), self.identity.load()
        has_changed = former is not None and former != identity
        if former is not None and former != identity:
            get_logger().warning("identity-changed", was=asdict(former), now=asdict(identity))
            self.version.forget_sequences()
        if has_changed or versions.interrupted is not None:
            self.version.clear(versions.interrupted or versions.current)
        elif not versions.is_converted:
            self.version.convert()
        if former != identity:
            self.identity.save(identity)

    def read_host(self, identity: Identity) -> Host:
        """Return the host as its last agent recorded it; without a version if that was not for ``identity``."""
        versions, lacking = self.version.read(), self.lacking.load() or {}
        has_changed = self.identity.load() not in {None, identity}
        version = None if has_changed else versions.current
        return Host(
            identity,
            version=version,
            sequence=versions.sequence(version),
            completed=None if lacking else versions.completed,
            former=versions.former if versions.is_changing else None,
            lacking=lacking,
        )

    def end_leases(self, role: str | None) -> None:
        """Forget the last lease: the host, which has ``role`` now, can no longer be leased.

        The version is cleared first, unless the host runs that role completely.
        """
        record = self.lease.load()
        if record is not None and not (record.is_reached and record.lease.role == role):
            self.version.forget_sequences()
            self.version.clear(self.version.read().current)
        self.lease.clear()


def _lacking_to_json(lacking: Mapping[str, LackingGroup]) -> dict[str, object]:
    return {group: lacks.to_json() for group, lacks in lacking.items()}
