"""Package management for hosts without RPM, whose software is installed under ``/opt`` by other means."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from zkdeployment.base.errors import PackageError
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from zkdeployment.agent.adapters import Transaction
    from zkdeployment.base.inventory import Packages
    from zkdeployment.base.plan import PackageChange
    from zkdeployment.base.system import SystemChange


@dataclass(frozen=True)
class NoTransaction:
    """A transaction that changes nothing."""

    before: Packages = field(default_factory=dict)
    after: Packages = field(default_factory=dict)
    reversible: bool = True


@dataclass(frozen=True)
class NoPackages:
    """Implements ``PackageManager`` for ``packages = none`` and changes nothing.

    The package manager reports no installed packages, so the planner requests every needed package each time.
    A requested package only has to exist as ``/opt/PACKAGE``; its version is not checked. Removals do nothing.
    """

    root: Path

    def installed(self) -> Packages:
        return {}

    def installonly(self) -> frozenset[str]:
        return frozenset()

    def installed_since(self, time: float) -> None:
        pass

    def missing_advisories(self, release: str) -> None:
        pass

    def update_exceptions(self, change: SystemChange) -> Mapping[str, str]:  # noqa: ARG002  as in the protocol
        return {}

    def lost_scripts(self, packages: Packages) -> frozenset[str]:  # noqa: ARG002  as in the protocol
        return frozenset()

    def prepare(self, change: PackageChange) -> NoTransaction:
        """Raise ``PackageError`` if a requested package has no directory under ``/opt``."""
        missing = [str(path) for name in sorted(change.want) if not (path := self.root / "opt" / name).is_dir()]
        if missing:
            raise PackageError(
                f"{', '.join(missing)} does not exist, and packages = none installs no software; install the"
                " software there before it is deployed, or set packages = dnf"
            )
        return NoTransaction()

    def prepare_system(self, change: SystemChange) -> NoTransaction:  # noqa: ARG002  as in the protocol
        raise PackageError("packages = none updates no operating system; set packages = dnf on this host")

    def preview_system(self, change: SystemChange) -> Packages:
        return self.prepare_system(change).after

    def commit(self, transaction: Transaction) -> None:
        pass

    def recover(self) -> None:
        pass
