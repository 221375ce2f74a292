"""The adapters an agent depends on, as values that are built once and passed around."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.agent.checkouts.places import CheckoutPlaces
    from zkdeployment.agent.daemon.trusted_publications import TrustedPublications
    from zkdeployment.agent.files.filesystem import Filesystem
    from zkdeployment.agent.files.run_directory import RunDirectory
    from zkdeployment.agent.ports import PackageManager
    from zkdeployment.agent.rules.lease import Lease
    from zkdeployment.agent.scripts import ScriptRunner
    from zkdeployment.agent.store.fleet import ZooKeeperFleet
    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import Inventory
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.machine.mail import SmtpMailer
    from zkdeployment.base.machine.systemd import SystemdNotifier
    from zkdeployment.pools.host.lease_follower import TrustedLeases


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
