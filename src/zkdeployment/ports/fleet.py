"""The fleet as an agent sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.deployment import Deployment, DesiredState
    from zkdeployment.model.history import HostResult
    from zkdeployment.model.host import Host, Identity
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import Published
    from zkdeployment.model.stop import Stop
    from zkdeployment.ports.locks import RoleLock, ServiceLock
    from zkdeployment.rollout.state import (
        Permission,
        PhaseReport,
    )
    from zkdeployment.rollout.state_machine import Phase


class FleetStore(Protocol):
    """What the agent sees of the fleet. Every call has a time limit; raises ``UnreachableError``."""

    def cluster(self) -> Cluster | None:
        """Read the cluster version; ``None`` where ``/hosts`` does not exist."""

    def published(self) -> Published:
        """Read the revision and the sequence of the last publication."""

    def watch_cluster(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) whenever the cluster version may have changed."""

    def register(self, host: Host, *, adopt: bool) -> Revision | None:
        """Make this host's ephemeral node; with ``adopt`` return the version of an old agent's persistent node.

        Raises ``DuplicateError`` if another live host has this id, or this name.
        """

    def is_registered(self) -> bool:
        """Whether this host's node is there, and this session's."""

    def clear_remains(self) -> None:
        """Remove contenders and records of work of this host's killed agent, of which nothing may run any more."""

    def update_host(self, host: Host) -> None:
        """Replace the properties of this host's node."""

    def unregister(self) -> None:
        """Remove this host's node."""

    def stop_fleet(self, host: Host, stop: Stop) -> None:
        """Record a failure in one transaction: cluster version null, ``host.error``, a stop."""

    def permission(self, sequence: int, identity: Identity, changed: Callable[[], None] | None) -> Permission:
        """Read what a publication's rollout lets this host do; ``changed``, which must not block, is told once."""

    def report_phase(self, rollout: str, phase: Phase, host: Host, report: PhaseReport) -> None:
        """Record how a phase went, and the host's node, in one transaction; the first report of a phase stays."""

    def wanted(self, identity: Identity, revision: Revision) -> DesiredState:
        """Read what this host is to run at ``revision``.

        From the compiled targets when they are of that revision, else from the tree; the same either way.
        Raises ``ConflictError`` when the cluster has moved on while reading, ``TreeError`` when the tree
        contradicts itself for this host.
        """

    def services(self, paths: Collection[str]) -> frozenset[str]:
        """Return those of these paths that are service nodes of the tree, whatever hosts they are for."""

    def node_lock(self, deployment: Deployment, identity: Identity) -> ServiceLock:
        """Return a fresh lock of the deployment's service node."""

    def any_free(self, deployments: Collection[Deployment], identity: Identity) -> bool:
        """Whether the lock of any of these service nodes may be taken now; all are looked at in one round."""

    def role_lock(self, role: str, identity: Identity) -> RoleLock:
        """Return the lock of a role that has a controller; ``TreeError`` if there is no place for it."""

    def hand_on_role(self, identity: Identity) -> bool:
        """Give the lock of a host's role to others although the host is not through; return whether it held it.

        The host is marked as out of service then, until it releases the lock of its role itself.
        """

    def publish_inventory(self, known: KnownHost) -> None:
        """Write what this host has, unless that is what it last wrote; what is too large is written as unknown."""

    def record_result(self, revision: Revision, result: HostResult) -> None:
        """Record in the history how the publication of a revision went here; not for a version set by hand."""
