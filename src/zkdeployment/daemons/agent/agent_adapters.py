"""The adapters an agent depends on, as values that are built once and passed around."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.checkouts.places import CheckoutPlaces
    from zkdeployment.adapters.host_files.filesystem import Filesystem
    from zkdeployment.adapters.host_files.run_directory import RunDirectory
    from zkdeployment.adapters.mail import SmtpMailer
    from zkdeployment.adapters.scripts.runner import ScriptRunner
    from zkdeployment.adapters.systemd import SystemdNotifier
    from zkdeployment.adapters.zookeeper.fleet import ZooKeeperFleet
    from zkdeployment.daemons.agent.trusted_leases import TrustedLeases
    from zkdeployment.daemons.agent.trusted_publications import TrustedPublications
    from zkdeployment.model.host import Identity
    from zkdeployment.model.inventory import Inventory
    from zkdeployment.pools.lease import Lease
    from zkdeployment.ports.host import PackageManager
    from zkdeployment.ports.process import Clock


@dataclass(frozen=True, kw_only=True)
class ReportingAdapters:
    """The adapters with which a host reports its state.

    ``connect`` opens the session with ZooKeeper (``UnreachableError``: call it again); ``session`` returns the id
    of the current session, ``None`` without a session. ``address`` returns the host's address if it is known.
    ``files`` is the software of the host, ``run`` the state of the agent itself.
    ``adopts_versions`` is whether the host believes the version in a node that zc.zkdeployment left.
    """

    connect: Callable[[], None]
    session: Callable[[], int | None]
    address: Callable[[], str | None]
    fleet: ZooKeeperFleet
    files: Filesystem
    run: RunDirectory
    clock: Clock
    notifier: SystemdNotifier
    mailer: SmtpMailer
    adopts_versions: bool = True


@dataclass(frozen=True, kw_only=True)
class AgentAdapters(ReportingAdapters):
    """All adapters of an agent: those for reports and those that change the host.

    ``outdated`` returns whether the program on disk differs from the running one. ``trusted`` reads publications
    of a host with publishers, ``trusted_leases`` its lease; without them, the host believes ZooKeeper.
    """

    outdated: Callable[[], bool]
    packages: PackageManager
    checkouts: CheckoutPlaces
    scripts: ScriptRunner
    trusted: TrustedPublications | None = None
    trusted_leases: TrustedLeases | None = None

    def lease(self, identity: Identity, *, remembers: bool = True) -> Lease | None:
        """Read the lease of this host, ``None`` if it has none; verify it if the host has publishers.

        Raises ``TreeError`` for a malformed lease, and the errors of ``TrustedLeases.lease``.
        """
        if self.trusted_leases is None:
            return self.fleet.lease(identity)
        return self.trusted_leases.lease(identity, remembers=remembers)

    def inventory(self) -> Inventory:
        """Read and return the host's inventory; raises ``PackageError`` or ``HostFilesError``."""
        inventory = self.files.inventory(self.packages.installed())
        return replace(inventory, lost_scripts=self.packages.lost_scripts(inventory.deployed_packages))
