"""The version control systems by the scheme of a version.

A new system needs a module in this folder and an entry in ``SYSTEMS``. The module is imported with the first
checkout from such a system: most hosts have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from zkdeployment.adapters.late_imports import late_import

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from zkdeployment.model.checkout import Checkout


class VersionControl(Protocol):
    """A version control system. Raises ``CheckoutError``, with ``retry_helps`` for an unreachable repository."""

    def check_out(self, checkout: Checkout, directory: Path) -> None:
        """Create ``directory`` with the checkout."""

    def update(self, checkout: Checkout, directory: Path) -> None:
        """Update a directory that holds an older state of the same checkout; built files stay."""


def _git() -> VersionControl:
    with late_import():
        from zkdeployment.adapters.checkouts.git import GitCheckouts  # noqa: PLC0415
    return GitCheckouts()


def _svn() -> VersionControl:
    with late_import():
        from zkdeployment.adapters.checkouts.svn import SvnCheckouts  # noqa: PLC0415
    return SvnCheckouts()


SYSTEMS: Mapping[str, Callable[[], VersionControl]] = {"git": _git, "svn": _svn, "svn+ssh": _svn}
