"""The adapters of an agent that have more than one implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.base.inventory import Packages
    from zkdeployment.base.plan import PackageChange
    from zkdeployment.publishing.signing.statement import SignedStatement


class Transaction(Protocol):
    """A package change that was resolved, downloaded and tested, and is ready to be committed."""

    @property
    def before(self) -> Packages:
        """The packages of the host when the transaction was prepared."""

    @property
    def after(self) -> Packages:
        """The packages of the host after the commit, unmanaged ones included."""

    @property
    def reversible(self) -> bool:
        """Whether all packages that a rollback needs are available."""


class PackageManager(Protocol):
    """The host's packages: the only way to read and change them. Raises ``PackageError``."""

    def installed(self) -> Packages:
        """Read all installed packages, in one pass."""

    def lost_scripts(self, packages: Packages) -> frozenset[str]:
        """Return the names of those installed ``packages`` whose deploy or role script is missing or damaged."""

    def prepare(self, change: PackageChange) -> Transaction:
        """Resolve, download, verify and test a change without changing the host.

        Raises ``PackageError`` if the change would also change a package that ``change.managed`` does not name.
        """

    def commit(self, transaction: Transaction) -> None:
        """Apply a transaction and verify all packages; on failure roll back to ``before`` and raise.

        ``PackageError.changed``: the rollback failed. ``PackageError.retry_helps``: prepare and commit again.
        """

    def recover(self) -> None:
        """Roll back the transaction that a crash interrupted, if there is one."""


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


class PublisherKeys(Protocol):
    """The keys whose publications this host deploys."""

    def verify(self, signed: SignedStatement) -> None:
        """Return if a publisher signed the statement.

        Raises ``UntrustedError`` if none did, ``HostFilesError`` if the keys cannot be read.
        """
