"""The port of an agent to the packages of its host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.model.inventory import Packages
    from zkdeployment.model.plan import PackageChange


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
