"""The port of all queues for locks. All methods raise ``UnreachableError``."""

from __future__ import annotations

from typing import Protocol


class QueuedLock(Protocol):
    """A lock that at most one contender holds, granted in the order in which contenders joined the queue."""

    @property
    def ahead(self) -> int:
        """The number of contenders ahead of this contender when the queue was last read."""

    def acquire(self, timeout: float) -> bool:
        """Join the queue and wait for the lock for ``timeout`` seconds; return whether it was acquired.

        The place in the queue is kept between calls, also after ``UnreachableError`` for as long as the session
        lives: call again, or ``release``.
        """

    def check(self) -> None:
        """Ask the server whether the lock is still held; raises ``LockLostError`` if it is not."""

    def release(self) -> None:
        """Release the lock, or leave the queue.

        On return no contender of this object is left, or it will be removed as soon as ZooKeeper is reachable.
        """

    def holder(self) -> str | None:
        """Return the name of the holder, for hosts ``NAME (HOST-ID)``; ``None`` if the lock is free."""
