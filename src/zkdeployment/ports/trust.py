"""The port of an agent that deploys only signed publications to the publishers' keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.signing.statement import SignedStatement


class PublisherKeys(Protocol):
    """The keys whose publications this host deploys."""

    def verify(self, signed: SignedStatement) -> None:
        """Return if a publisher signed the statement.

        Raises ``UntrustedError`` if none did, ``HostFilesError`` if the keys cannot be read.
        """
