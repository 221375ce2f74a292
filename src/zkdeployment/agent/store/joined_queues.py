"""The queues of locks that a host has joined, remembered on its disk for the case that its agent is killed.

``JoinedQueues`` are those of service locks, whose contenders end with the session, and the service locks that are
kept for the host; ``JoinedRoles`` those of role locks, whose requests stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.agent.files.run_directory import RunDirectory


class JoinedQueues:
    """The queues that this agent, or the killed one before it, has joined and perhaps not left.

    ``kept`` are the names of the locks whose work records are kept for this host.

    Each is recorded before its contender is created: the name of the lock, by the unique prefix of the contender.
    Without ``memory`` nothing is recorded, and it is not known what another agent joined.
    """

    def __init__(self, memory: RunDirectory | None) -> None:
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
        """Note that the contender and the record of its work are gone; the next record does not name them."""
        self._joined.pop(prefix, None)

    def forget_inherited(self) -> None:
        """Record that nothing is left of the agent before, except for work that is kept."""
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

    def __init__(self, memory: RunDirectory | None = None) -> None:
        self._memory = memory
        self._known: dict[str, Mapping[str, str | None] | None] = {}

    def requests(self, host_id: str) -> Mapping[str, str | None] | None:
        """Return the paths of a host's requests by role; ``None`` if they are unknown.

        A single path that is unknown is ``None``, too.
        """
        if host_id not in self._known:
            self._known[host_id] = None if self._memory is None else self._memory.read_requests(host_id)
        return self._known[host_id]

    def join(self, host_id: str, role: str, path: str | None = None) -> None:
        """Record that a host is about to join the queue of a role, or has, with the request at ``path``.

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
        """Note which requests of a host are left in all queues."""
        former, self._known[host_id] = self.requests(host_id), requests
        try:
            if former != requests:
                self._write(host_id, requests)
        except HostFilesError as error:  # the record names more requests than there are
            get_logger().warning("requests-not-remembered", reason=str(error))

    def _write(self, host_id: str, requests: Mapping[str, str | None]) -> None:
        if self._memory is not None:
            self._memory.write_requests(host_id, requests)
