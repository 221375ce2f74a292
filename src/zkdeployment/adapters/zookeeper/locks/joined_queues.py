"""The queues of locks that a host has joined, remembered on its disk for the case that its agent is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.ports.memory import QueueMemory


class JoinedQueues:
    """The queues that this agent, or the killed one before it, has joined and perhaps not left.

    Each is recorded before its contender is created: the name of the lock, by the unique prefix of the contender.
    Without ``memory`` nothing is recorded, and it is not known what another agent joined.
    """

    def __init__(self, memory: QueueMemory | None) -> None:
        self._memory = memory
        self.inherited: Mapping[str, str] | None = None if memory is None else memory.read_queues()
        self._joined: dict[str, str] = {}

    def join(self, prefix: str, lock: str) -> None:
        """Record that a contender with this prefix is about to be created."""
        self._joined[prefix] = lock
        self._write()

    def leave(self, prefix: str) -> None:
        """Note that the contender and the record of its work are gone; the next record does not name them."""
        self._joined.pop(prefix, None)

    def forget_inherited(self) -> None:
        """Record that nothing is left of the agent before."""
        was_known, self.inherited = self.inherited == {}, {}
        if not was_known:
            self._write()

    def _write(self) -> None:
        if self._memory is None:
            return
        try:
            self._memory.write_queues({**(self.inherited or {}), **self._joined})
        except HostFilesError as error:
            get_logger().warning("queues-not-remembered", reason=str(error))
