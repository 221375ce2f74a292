"""The version control systems by the scheme of a version: a new one is a module beside this and a line below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from zkdeployment.adapters.checkouts.git import GitCheckouts
from zkdeployment.adapters.checkouts.svn import SvnCheckouts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from zkdeployment.model.checkout import Checkout


class VersionControl(Protocol):
    """Checks out. Raises ``CheckoutError``; with ``retry_helps`` when the repository may only be out of reach."""

    def check_out(self, checkout: Checkout, directory: Path) -> None:
        """Make ``directory``, which does not exist, hold the checkout."""

    def update(self, checkout: Checkout, directory: Path) -> None:
        """Bring a directory that holds the same checkout up to date; what was built in it stays."""


SYSTEMS: Mapping[str, VersionControl] = {
    "git": GitCheckouts(),
    "svn": SvnCheckouts(),
    "svn+ssh": SvnCheckouts(),
}
