"""The adapters of the syncer that have more than one implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.publication import Origin
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.publishing.signing.statement import SignedStatement


class PublicationSigner(Protocol):
    """The key with which publications are signed."""

    def expect(self) -> None:
        """Prepare for a text that will be signed soon, so that its signature takes less time."""

    def abandon(self) -> None:
        """End the preparation, if no text has to be signed after all."""

    def start(self, text: str) -> Callable[[], str]:
        """Begin to sign a text; return a function that waits for the signature and returns it.

        The returned function raises ``ConfigurationError`` if the key can no longer be used.
        """

    def made(self, statement: SignedStatement) -> bool:
        """Whether the signature of a statement is valid and made with this key."""


class TreeSource(Protocol):
    """The tree's repository. Raises ``SourceError``."""

    def fetch(self) -> Revision:
        """Update the mirror and return the tip of the branch."""

    def files(self, revision: Revision) -> Sequence[SourceFile]:
        """Read the tree files and rollout documents in the top directory of a revision, sorted by name.

        Rollout documents are the YAML files that mention a schema of rollouts; other YAML files are not read
        further. If signatures are required, a revision without a valid signature raises ``SourceError``.
        """

    def origin(self, revision: Revision) -> Origin:
        """Return author, subject and time of a revision, and its signer if the signature was verified."""

    def descends(self, revision: Revision, ancestor: Revision) -> bool:
        """Whether ``revision`` is ``ancestor`` or one of its descendants; ``False`` if ``ancestor`` is unknown."""
