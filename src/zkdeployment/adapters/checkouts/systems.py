"""The version control systems by the scheme of a version.

A new system needs a module in this folder and an entry in ``SYSTEMS``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from zkdeployment.adapters.checkouts.git import GitCheckouts
from zkdeployment.adapters.checkouts.svn import SvnCheckouts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from zkdeployment.model.checkout import Checkout


class VersionControl(Protocol):
    """A version control system. Raises ``CheckoutError``, with ``retry_helps`` for an unreachable repository."""

    def check_out(self, checkout: Checkout, directory: Path) -> None:
        """Create ``directory`` with the checkout."""

    def update(self, checkout: Checkout, directory: Path) -> None:
        """Update a directory that holds an older state of the same checkout; built files stay."""


SYSTEMS: Mapping[str, VersionControl] = {
    "git": GitCheckouts(),
    "svn": SvnCheckouts(),
    "svn+ssh": SvnCheckouts(),
}
