"""Ports of an agent that deploys only signed publications: the publishers' keys and the verified files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.tree import Properties
    from zkdeployment.signing.statement import SignedStatement


class PublisherKeys(Protocol):
    """The keys whose publications this host deploys."""

    def verify(self, signed: SignedStatement) -> None:
        """Return if a publisher signed the statement.

        Raises ``UntrustedError`` if none did, ``HostFilesError`` if the keys cannot be read.
        """


class VerifiedFiles(Protocol):
    """Files with the verified properties of services, which the scripts of this host read."""

    def replace(self, properties: Mapping[str, Properties]) -> None:
        """Write the properties of these services, by path, and remove those of others.

        Raises ``HostFilesError``.
        """

    def file(self, path: str) -> str:
        """Return the file for the properties of a service; it exists only if they were written."""
