"""Hosts without RPM: software gets under ``/opt`` by other means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.errors import PackageError

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.model.inventory import Packages
    from zkdeployment.model.plan import PackageChange
    from zkdeployment.ports.host import Transaction


@dataclass(frozen=True, slots=True)
class NoTransaction:
    """Nothing to do."""

    before: Packages = field(default_factory=dict)
    after: Packages = field(default_factory=dict)
    reversible: bool = True


class NoPackages:
    """Implements ``ports.PackageManager`` for ``packages = none``: it changes nothing.

    No package is ever installed as far as this can tell, so a planner asks for every package it needs each time.
    Asking for one means checking that ``/opt/PACKAGE`` is there; its version is the business of whoever put it
    there. Removing one means nothing.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def installed(self) -> Packages:
        """Return no packages: nothing is known of any."""
        return {}

    def lost_scripts(self, packages: Packages) -> frozenset[str]:  # noqa: ARG002  as in the protocol
        """Return no packages: nothing is known of any."""
        return frozenset()

    def prepare(self, change: PackageChange) -> NoTransaction:
        """Check that the software wanted is there; raises ``PackageError`` naming what is not."""
        missing = [str(path) for name in sorted(change.want) if not (path := self._root / "opt" / name).is_dir()]
        if missing:
            raise PackageError(
                f"{', '.join(missing)} does not exist; with packages = none software is to be put there "
                "before it is deployed: do so, or set packages = dnf"
            )
        return NoTransaction()

    def commit(self, transaction: Transaction) -> None:
        """Do nothing."""

    def recover(self) -> None:
        """Do nothing."""
