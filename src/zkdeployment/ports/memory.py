"""What daemons remember on their machine over restarts, in small files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Identity
    from zkdeployment.model.publication import Published
    from zkdeployment.rollout.failure import Failure


class PublicationMemory(Protocol):
    """Remembers the last publication, over restarts."""

    def read_published(self) -> Published:
        """Return the last publication known; unknown (missing, corrupt) has sequence 0."""

    def write_published(self, published: Published) -> None:
        """Record the revision and the sequence of the last publication known; raises ``HostFilesError``."""


class HostMemory(PublicationMemory, Protocol):
    """What an agent remembers. Writes are atomic and durable, and raise ``HostFilesError``."""

    def write_status(self, revision: Revision | None, status: str) -> None:
        """Replace ``RUN/status``; ``status`` is ``done``, ``error`` or the step under way."""

    def read_status(self) -> str | None:
        """Return what ``RUN/status`` shows; unknown (missing, corrupt) is ``None``."""

    def read_version(self, identity: Identity) -> Revision | None:
        """Return the revision that the host runs whole as ``identity``; ``None`` if it runs none, or unknown."""

    def read_failure(self) -> Failure | None:
        """Return the failure that is not reported to ZooKeeper yet; unknown (missing, corrupt) is ``None``."""

    def write_failure(self, failure: Failure) -> None:
        """Keep a failure until it is reported."""

    def clear_failure(self) -> None:
        """Forget the failure, which is reported."""

    def is_changing(self) -> bool:
        """Whether a deployment has changed the host and was not completed."""

    def write_version(self, revision: Revision) -> None:
        """Record that the host runs ``revision`` whole."""

    def clear_version(self, former: Revision | None) -> None:
        """Record that the host runs no revision whole any more; ``former`` is the one before, if it is known."""
