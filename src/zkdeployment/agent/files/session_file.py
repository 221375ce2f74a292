"""The last session of a host with ZooKeeper, and the queues for locks that its agents joined, kept on its disk.

``JoinedQueues`` are the queues of service locks, whose contenders end with the session, and the service locks that
are kept for the host. ``JoinedRoles`` are the queues of role locks, whose requests stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.base.machine.files import JsonFile


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
