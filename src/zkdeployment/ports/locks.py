"""Locks that hosts hold while they change something."""

from __future__ import annotations

from typing import Protocol


class QueuedLock(Protocol):
    """A lock, held by at most one host, that is granted in the order in which hosts queue for it."""

    @property
    def ahead(self) -> int:
        """How many contenders were ahead of ours when the queue was last read."""

    def acquire(self, timeout: float) -> bool:
        """Queue for it for ``timeout`` seconds, keeping the place over calls; say whether it is ours."""

    def check(self) -> None:
        """Ask the server whether it is still ours; raises ``LockLostError``."""

    def release(self) -> None:
        """Give it back, or leave the queue: on return nothing of ours is left there, or soon."""

    def holder(self) -> str | None:
        """Say who has it: ``NAME (HOST-ID)``."""


class NodeLock(QueuedLock, Protocol):
    """A lock that ends with the session. A fresh object for each attempt; ``release`` never raises."""

    def try_acquire(self) -> bool:
        """Take it if it is free; leave no contender behind if it is not."""


class RoleLock(QueuedLock, Protocol):
    """The lock of a role, held by at most one host, across its restarts: only ``release`` or people end that.

    A request that this host left earlier is adopted. Raises ``UnreachableError``; then call again.
    """

    def withdraw(self) -> None:
        """Leave the queue; a request that was adopted stays. Never raises."""


class ServiceLock(NodeLock, Protocol):
    """The lock of a service node: work under it is recorded, for the case that the session is lost meanwhile.

    It may not be used while the lock delay of another host runs, whose session ended with work recorded.
    """

    def begin(self, step: str) -> None:
        """Make sure that it is ours and record the step until ``release``; raises ``LockLostError``."""

    def check_lease(self) -> None:
        """Raise ``LockLostError`` if ``begin`` was too long ago to be sure of it: this host was asleep."""
