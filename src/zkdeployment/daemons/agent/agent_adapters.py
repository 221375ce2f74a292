"""All that an agent needs of the outside, in one value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.model.inventory import Inventory
    from zkdeployment.ports.fleet import FleetStore
    from zkdeployment.ports.host import Checkouts, HostFiles, PackageManager, Scripts
    from zkdeployment.ports.process import Clock, Mailer, Notifier


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAdapters:
    """The adapters of an agent.

    ``connect`` opens the session with ZooKeeper (``UnreachableError``: call it again); ``session`` tells which one
    it is. ``outdated`` says whether the program on the disk is another one than the agent's.
    """

    connect: Callable[[], None]
    session: Callable[[], int | None]
    outdated: Callable[[], bool]
    fleet: FleetStore
    files: HostFiles
    packages: PackageManager
    checkouts: Checkouts
    scripts: Scripts
    clock: Clock
    notifier: Notifier
    mailer: Mailer

    def inventory(self) -> Inventory:
        """Return what the host has; raises ``PackageError`` or ``HostFilesError``."""
        found = self.files.inventory(self.packages.installed())
        return replace(found, lost_scripts=self.packages.lost_scripts(found.deployed_packages))
