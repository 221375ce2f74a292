"""Ports of what daemons persist on their machine across restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Identity
    from zkdeployment.model.publication import Published
    from zkdeployment.pools.lease import LeaseRecord
    from zkdeployment.rollout.failure import Failure


class PublicationMemory(Protocol):
    """The last known publication, persisted."""

    def read_published(self) -> Published:
        """Return the last known publication; with sequence 0 if the record is missing.

        A corrupt record counts as missing, or raises ``HostFilesError`` if old publications must be refused.
        """

    def write_published(self, published: Published) -> None:
        """Record revision and sequence of the last known publication; raises ``HostFilesError``."""


class HostMemory(PublicationMemory, Protocol):
    """The state of an agent, persisted. Writes are atomic and durable, and raise ``HostFilesError``."""

    def write_status(self, revision: Revision | None, status: str) -> None:
        """Replace ``RUN/status``; ``status`` is ``done``, ``error`` or the current step."""

    def read_status(self) -> str | None:
        """Return the status in ``RUN/status``; ``None`` if the file is missing or corrupt."""

    def read_version(self, identity: Identity) -> Revision | None:
        """Return the revision that is completely deployed for ``identity``; ``None`` if none is, or unknown."""

    def read_sequence(self, revision: Revision | None) -> int:
        """Return the sequence of the publication with which the host reached ``revision``; 0 if it is unknown."""

    def read_failure(self) -> Failure | None:
        """Return the failure that is not reported to ZooKeeper yet; ``None`` if there is no valid one."""

    def write_failure(self, failure: Failure) -> None:
        """Record a failure until it is reported."""

    def clear_failure(self) -> None:
        """Remove the recorded failure: it was reported."""

    def read_lease(self) -> LeaseRecord | None:
        """Return the last lease that this host began to follow; ``None`` if there is none, or unknown."""

    def write_lease(self, record: LeaseRecord) -> None:
        """Record the lease that this host follows."""

    def forget_sequences(self) -> None:
        """Forget which publications this host completed: it had other targets then."""

    def is_changing(self) -> bool:
        """Whether a deployment changed the host and is not complete."""

    def write_version(self, revision: Revision, sequence: int = 0) -> None:
        """Record that ``revision`` is completely deployed, with the publication of this sequence (0: none)."""

    def clear_version(self, former: Revision | None) -> None:
        """Record that no revision is completely deployed; ``former`` is the previous one, if known."""
