"""The port to the package repositories of hosts, as the syncer and operators' commands read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.planning.availability.findings import Offers, PaperResolution
    from zkdeployment.planning.availability.paper_transactions import PaperTransaction


class HostRepositories(Protocol):
    """Repositories that hosts install packages from. Raises ``PackageError`` if they cannot be read at all."""

    def within(self, seconds: float) -> HostRepositories:
        """Return the same repositories, whose calls raise ``PackageError`` from ``seconds`` after now."""

    def offers(self, names: Collection[str], arch: str) -> Offers:
        """Return the available packages of these names, for hosts of the architecture ``arch``.

        With an empty ``arch``, those for any architecture are returned. The metadata of all repositories is
        brought up to date; an unreachable repository is reported and left out.
        """

    def resolve(self, transactions: Collection[PaperTransaction], arch: str) -> PaperResolution:
        """Return which transactions hosts of the architecture could not make.

        An empty ``arch`` is the architecture of this machine. The metadata is that of the last ``offers``. Raises
        no ``PackageError``: what was resolved before an error counts.
        """
