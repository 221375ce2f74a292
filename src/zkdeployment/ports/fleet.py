"""Ports of an agent to the fleet: cluster version and targets, registration, reports, locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.adapters.zookeeper.awaited_services import ZooKeeperAwaitedService
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.deployment import Deployment, DesiredState
    from zkdeployment.model.history import HostResult
    from zkdeployment.model.host import Host, Identity
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import OrderEntry, Published
    from zkdeployment.model.stop import FailureOutput, Stop
    from zkdeployment.pools.lease import Lease
    from zkdeployment.ports.locks import RoleLock, ServiceLock
    from zkdeployment.rollout.permission import Permission, Phase, PhaseReport


class ClusterReader(Protocol):
    """The cluster version, the last publication, and what they mean for this host."""

    def cluster(self, changed: Callable[[], None] | None = None) -> Cluster | None:
        """Read the cluster version; ``None`` if ``/hosts`` does not exist.

        ``changed`` (which must not block) is called once, when the cluster version may have changed.
        """

    def published(self) -> Published:
        """Read the revision and the sequence of the last publication."""

    def is_current(self, revision: Revision, stamp: int) -> bool:
        """Whether ``revision`` is the cluster version, and nothing was published or imported since ``stamp``.

        ``stamp`` is the stamp of the last publication when that was read. All writes before this call count.
        """

    def watch_cluster(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) whenever the cluster version may have changed."""

    def permission(
        self, sequence: int, identity: Identity, changed: Callable[[], None] | None, *, follows: bool
    ) -> Permission:
        """Read which phases the rollout of the publication with this sequence permits this host to run.

        ``changed`` (which must not block) is called once, when the permission may have changed. A host that only
        ``follows`` is in no group: it may run both phases when the rollout has ended without stopping the fleet.
        """

    def lease(self, identity: Identity) -> Lease | None:
        """Read the lease of this host; ``None`` if it has none. Raises ``TreeError`` for a malformed one."""

    def watch_lease(self, identity: Identity, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) whenever the lease of this host may have changed."""

    def wanted(self, identity: Identity, revision: Revision) -> DesiredState:
        """Read what this host is to run at ``revision``.

        The targets compiled with the publication are used if they belong to ``revision``; otherwise the whole tree
        is read, with the same result. Raises ``ConflictError`` if the cluster version or the tree changed while
        they were read, ``TreeError`` if the tree contradicts itself for this host.
        """

    def services(self, paths: Collection[str]) -> frozenset[str]:
        """Return those of these paths that are service nodes of the tree, for whichever hosts."""


class HostRegistrar(Protocol):
    """The registration of this host: its ephemeral node.

    The first registration in a session keeps the records of work that earlier sessions of this host left under the
    locks of services.
    """

    def register(self, host: Host, *, adopt: bool) -> Revision | None:
        """Create this host's ephemeral node, or update it if this session owns it.

        With ``adopt``, the version in a persistent node, which only agents of old releases created, replaces the
        host's own and is returned. Raises ``DuplicateError`` if another live host has this id or name.
        """

    def is_registered(self) -> bool:
        """Whether this host's node exists and belongs to this session."""

    def update_host(self, host: Host, *, patient: bool = True) -> None:
        """Replace the properties of this host's node; register again if the session that owned it has ended.

        ``patient``: if another host has this id or name now, wait for the end of its session, which may be that of
        a killed agent, as a registration does. Otherwise ``DuplicateError`` is raised at once.
        """

    def unregister(self) -> None:
        """Remove this host's node."""

    def clear_stale_nodes(self) -> None:
        """Remove the lock contenders of this host's killed agent.

        Call it only when nothing that agent started can still be running.
        """


class HostReports(Protocol):
    """The results that this host reports to the fleet."""

    def stop_fleet(self, host: Host, stop: Stop) -> bool:
        """Record a failure in one transaction: cluster version null, ``host.error``, and the stop.

        The host's node is left out if it is gone or belongs to another session. Returns ``False``, and writes
        nothing, if the fleet is not to deploy any more what failed: the revision of ``stop`` of the publication
        that ``host.failed`` names. The transaction fails if the cluster version was written meanwhile.
        """

    def report_phase(self, rollout: str, phase: Phase, host: Host, report: PhaseReport) -> None:
        """Record the outcome of a phase, and the host's node, in one transaction.

        An earlier report of the same phase is kept. Nothing is reported to a rollout that no longer exists. The
        host's node is left out if it is gone or belongs to another session.
        """

    def publish_output(self, output: FailureOutput) -> None:
        """Write the end of the output of this host's failed script, if not too many hosts have failed."""

    def publish_inventory(self, known: KnownHost) -> None:
        """Write this host's inventory unless it is unchanged; one that is too large is written as unknown."""

    def record_result(self, revision: Revision, result: HostResult) -> None:
        """Record in the history the result of publication ``revision`` on this host.

        A version that was set by hand has no publication and is not recorded.
        """


class HostLocks(Protocol):
    """The locks that this host needs for its steps."""

    def node_lock(self, deployment: Deployment, identity: Identity) -> ServiceLock:
        """Return a new lock object for the deployment's service node; use it for one attempt."""

    def any_free(self, deployments: Collection[Deployment], identity: Identity) -> bool:
        """Whether the lock of any of these service nodes can be acquired now; reads all in one round."""

    def hand_on_work(self, identity: Identity, pending: Collection[Deployment] = ()) -> bool:
        """Remove the work records that are kept for this host, except those of the services of ``pending``.

        Other hosts then proceed. Return whether there were any. Sends no request if no record is kept.
        """

    def role_lock(self, role: str, identity: Identity) -> RoleLock:
        """Return the lock of a role that has a controller; raises ``TreeError`` if its lock node is missing."""

    def leave_roles(self, identity: Identity) -> list[str]:
        """Remove this host's requests for locks of roles, and its mark as out of service.

        Return the roles of the requests: the host may have had other roles before. Call this when the host has
        nothing left to do under the locks.
        """

    def hand_on_roles(self, identity: Identity, *, former: bool = False) -> list[str]:
        """Remove this host's requests for locks of roles before the host has finished, so that others proceed.

        With ``former``, only those for roles that the host does not have any more. Return the roles whose locks
        the host held. If there are any, the host is marked as out of service until it releases the lock of its
        role itself, or leaves all roles.
        """


class ServiceOrders(Protocol):
    """The order between services in one publication, which its ``sequence`` identifies."""

    def order_entries(self, sequence: int, services: Collection[str]) -> Mapping[str, OrderEntry]:
        """Read the entries of these services, by path; services that nobody awaits have none.

        Raises ``ConflictError`` if a later publication changed something for hosts.
        """

    def join_order(self, sequence: int, service: str, identity: Identity) -> None:
        """Add this host to those that are expected to deploy a service, unless the service is complete."""

    def finish_order(self, sequence: int, service: str, identity: Identity) -> None:
        """Record that this host has deployed a service, unless that was recorded or nobody awaits the service."""

    def awaited_service(self, sequence: int, service: str) -> ZooKeeperAwaitedService:
        """Return the progress of a service."""


class FleetStore(ClusterReader, HostRegistrar, HostReports, HostLocks, ServiceOrders, Protocol):
    """The fleet as an agent reads it and writes to it.

    Every call has a time limit and raises ``UnreachableError`` when that is exceeded.
    """
