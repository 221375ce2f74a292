"""Ports of locks: what syncers and agents hold while they change something. All raise ``UnreachableError``."""

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


class NodeLock(QueuedLock, Protocol):
    """A lock that ends with the session. Use a new object for each attempt; ``release`` never raises."""

    def try_acquire(self) -> bool:
        """Acquire the lock if it is free, and return whether it was; otherwise leave no contender behind."""


class RoleLock(QueuedLock, Protocol):
    """The lock of a role, held by at most one host, across restarts of that host.

    A request that this host left earlier is adopted. After ``UnreachableError``, call the method again. Only
    ``release``, or an operator, gives the lock to the next host: on return from ``release`` no request of this
    host is left, and the host is not marked as out of service any more.
    """

    def withdraw(self) -> None:
        """Leave the queue, or release the lock before it was used. Never raises.

        An adopted request stays: an earlier deployment may have begun under it.
        """


class ServiceLock(NodeLock, Protocol):
    """The lock of a service node, with a record of the work that is done under it.

    If the session of a host ends while work is recorded, its script may still run: during the *lock delay*, no
    other host can use the lock, even at the head of the queue. While the record is kept for a host, only that host
    can use the lock, at once and without a place in the queue.
    """

    def begin(self, step: str, stamp: int | None = None) -> None:
        """Verify that the lock is held and record ``step``, in one transaction; raises ``LockLostError``.

        With ``stamp``, that of the cluster version, the transaction also verifies that ``/hosts`` was not written
        since; otherwise raises ``ConflictError``. The record stays until ``release``.
        """

    def check_lease(self) -> None:
        """Raise ``LockLostError`` if ``begin`` is too long ago, for instance because this host was suspended.

        Sends no request.
        """

    def give_back(self) -> None:
        """Release the lock before its step is complete; a lock that was kept for this host stays kept.

        Never raises.
        """

    def keep(self) -> None:
        """Release the lock, but keep it for this host if work has begun under it: the step was cut off.

        Never raises. If ZooKeeper cannot be reached, the lock delay protects the step.
        """
