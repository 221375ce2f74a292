"""The adapters that an agent depends on, as one value; Protocols of those with several implementations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from zkdeployment.agent.checkouts.places import CheckoutPlaces
    from zkdeployment.agent.daemon.trusted_publications import TrustedPublications
    from zkdeployment.agent.files.filesystem import Filesystem
    from zkdeployment.agent.files.run_directory import RunDirectory
    from zkdeployment.agent.files.system_files import SystemFiles
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.agent.rules.lease import HostRole, Lease, LeaseRecord
    from zkdeployment.agent.scripts import ScriptRunner
    from zkdeployment.agent.store.fleet import ZooKeeperFleet
    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import Inventory, Packages
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.machine.mail import SmtpMailer
    from zkdeployment.base.machine.systemd import SystemdNotifier
    from zkdeployment.base.plan import PackageChange
    from zkdeployment.base.system import SystemChange
    from zkdeployment.zookeeper.session import Session


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

    def installonly(self) -> frozenset[str]:
        """Return the names of installed packages of which several versions may be installed, such as kernels."""

    def lost_scripts(self, packages: Packages) -> frozenset[str]:
        """Return the names of those installed ``packages`` whose deploy or role script is missing or damaged."""

    def installed_since(self, time: float) -> frozenset[str] | None:
        """Return the names of packages installed after a time in seconds since the epoch; ``None``: unknown."""

    def missing_advisories(self, release: str) -> int | None:
        """Return the number of security advisories of a release that the host lacks; ``None``: unknown."""

    def update_exceptions(self, change: SystemChange) -> Mapping[str, str]:
        """Return the packages that an update does not treat like all others, as text by kind (``HostSystem``)."""

    def prepare(self, change: PackageChange) -> Transaction:
        """Resolve, download, verify and test a change without changing the host.

        Raises ``PackageError`` if the change would also change a package that ``change.managed`` does not name.
        """

    def prepare_system(self, change: SystemChange) -> Transaction:
        """Resolve, download, verify and test an update of the operating system without changing the host."""

    def preview_system(self, change: SystemChange) -> Packages:
        """Return the packages after such an update, as ``prepare_system`` finds them; nothing stays prepared."""

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


def no_lease(identity: Identity, *, remembers: bool = True) -> None:
    """Return ``None``: this host cannot be leased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLeases:
    """The functions with which a feature leases a host.

    ``follow`` gives the host the role of the lease that it followed last, and returns the follower of its lease.
    The arguments are the adapters, the reporting, the root directory, the role without a lease, and the name
    of its package manager. ``reader`` returns the ``lease`` of ``AgentAdapters`` for the host with this root; with
    a file of publishers, it refuses leases that none of them signed. ``end`` removes the files of leases from a
    host that has this role now and can no longer be leased.
    """

    follow: Callable[[AgentAdapters, HostReporting, Path, str, str], HostRole]
    reader: Callable[[Session, Path, Path | None], Callable[..., Lease | None]]
    end: Callable[[Path, RunDirectory, LeaseRecord, str | None], None]


@dataclass(eq=False, repr=False, kw_only=True)
class AgentAdapters:
    """All adapters of an agent, built once and passed around.

    ``files`` is the software of the host, ``run`` the state of the agent itself, ``system`` the
    operating system. ``address`` is the configured address of the host, ``None`` for that of its connection.
    ``outdated`` returns whether the program on disk
    differs from the running one. ``trusted`` reads publications of a host with publishers; without it, the host
    believes ZooKeeper. ``lease`` returns the lease of this host, whose identity it gets, and ``None`` without one;
    with its argument ``remembers``, which is true by default, an older lease is refused from now on. A malformed
    lease raises ``TreeError``, one that no publisher signed ``UntrustedError``.
    """

    session: Session
    fleet: ZooKeeperFleet
    files: Filesystem
    run: RunDirectory
    system: SystemFiles
    packages: PackageManager
    checkouts: CheckoutPlaces
    scripts: ScriptRunner
    clock: Clock
    notifier: SystemdNotifier
    mailer: SmtpMailer
    outdated: Callable[[], bool]
    address: str | None = None
    trusted: TrustedPublications | None = None
    lease: Callable[..., Lease | None] = no_lease

    def inventory(self) -> Inventory:
        """Read and return the host's inventory; raises ``PackageError`` or ``HostFilesError``."""
        inventory = self.files.inventory(self.packages.installed())
        return replace(
            inventory,
            lost_scripts=self.packages.lost_scripts(inventory.deployed_packages),
            installonly=self.packages.installonly(),
        )
