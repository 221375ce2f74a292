"""The role of a host as the agent's cycle uses it. Leases, which change it, belong to ``lease_follower``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.errors import HostFilesError, RefusedError, TreeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.cluster import ClusterState, Revision

#: The errors of a lease that cannot be followed.
LEASE_ERRORS = (HostFilesError, RefusedError, TreeError)


class HostRole:
    """The role of a host that cannot be leased: it never changes, and no method does anything or sends a request.

    Such a host does not import ``lease_follower``.
    """

    def watch(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` (which must not block) whenever the lease may have changed."""

    @property
    def is_outdated(self) -> bool:
        """Whether the lease may have changed since it was last read."""
        return False

    @property
    def is_leasable(self) -> bool:
        """Whether leases decide the role of this host."""
        return False

    @property
    def is_reached(self) -> bool:
        """Whether the host runs the role of its lease; true of a host that cannot be leased."""
        return True

    def read(self) -> None:
        """Read the lease, and admit or remove keys accordingly; confirm a lease that changed nothing else.

        Raises one of ``LEASE_ERRORS`` if the lease is malformed or older than one that the host knows, or if the
        keys cannot be written.
        """

    def check(self) -> None:
        """Read the lease again during a deployment; raise ``ConflictError`` if it gives the host another role."""

    def take_role(self) -> None:
        """Begin to change the host to the role of its lease; the host leaves the lock of its former role.

        A crash before the record is written repeats this. Raises ``HostFilesError``.
        """

    def reach(self) -> None:
        """Record that the host runs its role completely, and admit the keys of its lease.

        Raises ``HostFilesError``.
        """

    def fail(self, revision: Revision, *, is_gated: bool) -> None:
        """Note that a deployment failed: a leased host does not repeat it for the same revision and lease.

        No other host waits for the lock of its role. A rollout remembers the failures of its own deployments.
        """

    def note_failure(self) -> None:
        """Show that the host cannot follow its present lease, also if its error is that of an earlier lease."""

    def forget_failure(self) -> None:
        """Permit the failed deployment again."""

    def has_failed(self, revision: Revision) -> bool:  # noqa: ARG002  the agent stops the fleet instead
        """Whether the deployment of this revision with this lease failed before."""
        return False

    def show_waiting(self, state: ClusterState) -> None:
        """Show that the lease waits for the fleet, which is in ``state``; show nothing if no lease waits."""
