"""The fleet as an agent reads it and writes to it (a ``FleetStore``); registration has a module of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.adapters.late_imports import late_import
from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.bootstrap import make_skeleton
from zkdeployment.adapters.zookeeper.client.clients import WatchHandler
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Check, Create, Operation
from zkdeployment.adapters.zookeeper.cluster_node import changing_cluster
from zkdeployment.adapters.zookeeper.failure_outputs import write_output
from zkdeployment.adapters.zookeeper.host_registration import HostRegistration, host_path
from zkdeployment.adapters.zookeeper.inventories import replace_inventory, write_inventory
from zkdeployment.adapters.zookeeper.locks.joined_queues import JoinedQueues, JoinedRoles
from zkdeployment.adapters.zookeeper.locks.role_locks import RoleRequestLock, hand_on, leave
from zkdeployment.adapters.zookeeper.locks.service_locks import (
    LOCK_DELAY,
    LockDelay,
    ZooKeeperServiceLock,
    any_free,
    remove_work,
)
from zkdeployment.adapters.zookeeper.operator.stops import recording_stop
from zkdeployment.adapters.zookeeper.publication.assignments import read_services, read_wanted
from zkdeployment.adapters.zookeeper.publication.host_result import write_result
from zkdeployment.adapters.zookeeper.publication.last_publication import decode_published
from zkdeployment.adapters.zookeeper.rollout.permissions import read_permission, reporting
from zkdeployment.adapters.zookeeper.service_orders import finish, join, read_entries
from zkdeployment.errors import ConflictError
from zkdeployment.model.cluster import Cluster
from zkdeployment.model.cluster_machine import ClusterEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.adapters.zookeeper.awaited_services import ZooKeeperAwaitedService
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.deployment import Deployment, DesiredState
    from zkdeployment.model.history import HostResult
    from zkdeployment.model.host import Host, Identity
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import OrderEntry, Published
    from zkdeployment.model.stop import FailureOutput, Stop
    from zkdeployment.pools.lease import Lease
    from zkdeployment.ports.memory import QueueMemory
    from zkdeployment.rollout.permission import Permission, Phase, PhaseReport

#: Attempts at a write while others write to the same nodes.
_ATTEMPTS = 20


class ZooKeeperFleet:
    """The fleet through one session.

    ``previous_session``, ``save_session`` and ``patience``: see ``HostRegistration``. ``queues`` persists which
    queues of locks this host has joined. ``lock_delay`` is how many seconds a host whose session ended under a
    lock has to finish its script.
    """

    def __init__(
        self,
        session: Session,
        *,
        previous_session: int | None = None,
        save_session: Callable[[int], None] = lambda _: None,
        patience: float | None = None,
        queues: QueueMemory | None = None,
        lock_delay: float = LOCK_DELAY,
    ) -> None:
        self._session = session
        self._queues, self._roles = JoinedQueues(queues), JoinedRoles(queues)
        self._registration = HostRegistration(
            session,
            previous_session=previous_session,
            save_session=save_session,
            patience=patience,
            queues=self._queues,
        )
        self._published_inventory: KnownHost | None = None
        self._inventory_session: int | None = None
        self._delay = LockDelay(lock_delay)

    def cluster(self, changed: Callable[[], None] | None = None) -> Cluster | None:
        node = self._session.get(paths.HOSTS, watch=None if changed is None else WatchHandler(changed))
        if node is None:
            return None
        return Cluster.from_properties(node.properties, hosts=node.children, stamp=node.version)

    def published(self) -> Published:
        return decode_published(self._session.get(paths.TARGETS))

    def is_current(self, revision: Revision, stamp: int) -> bool:
        self._session.sync()
        hosts, targets = self._session.get_many([paths.HOSTS, paths.TARGETS])
        cluster = None if hosts is None else Cluster.from_properties(hosts.properties)
        return cluster is not None and cluster.revision == revision and decode_published(targets).stamp == stamp

    def watch_cluster(self, changed: Callable[[], None]) -> None:
        self._session.watch(paths.HOSTS, changed)

    def register(self, host: Host, *, adopt: bool = False) -> Revision | None:
        return self._registration.register(host, adopt=adopt)

    def is_registered(self) -> bool:
        return self._registration.is_registered()

    def update_host(self, host: Host, *, patient: bool = True) -> None:
        self._registration.update(host, patient=patient)

    def unregister(self) -> None:
        self._registration.unregister()

    def clear_stale_nodes(self) -> None:
        self._registration.clear_stale_nodes()

    def stop_fleet(self, host: Host, stop: Stop) -> bool:
        make_skeleton(self._session)
        for _ in range(_ATTEMPTS):
            operations = self._stopping(host, stop)
            if not operations:
                return False
            try:
                self._session.commit(*operations)
            except ConflictError:
                continue
            return True
        raise ConflictError(
            f"cannot stop the fleet: other writers changed its nodes during each of {_ATTEMPTS} attempts"
        )

    def permission(
        self,
        sequence: int,
        identity: Identity,
        changed: Callable[[], None] | None = None,
        *,
        follows: bool = False,
    ) -> Permission:
        return read_permission(self._session, sequence, identity.id, changed, follows=follows)

    def lease(self, identity: Identity) -> Lease | None:
        with late_import():  # most hosts are never leased
            from zkdeployment.adapters.zookeeper.pools.host_lease import read_lease  # noqa: PLC0415
        return read_lease(self._session, identity.id)

    def watch_lease(self, identity: Identity, changed: Callable[[], None]) -> None:
        self._session.watch(paths.lease_path(identity.id), changed)

    def report_phase(self, rollout: str, phase: Phase, host: Host, report: PhaseReport) -> None:
        for _ in range(_ATTEMPTS):
            operations = list(reporting(self._session, rollout, phase, host.identity.id, report))
            node = self._session.get(host_path(host))
            try:
                self._session.commit(*operations, *self._registration.update_operations(host, node))
            except ConflictError:
                continue
            return
        raise ConflictError(
            f"cannot report phase {phase.value} to rollout {rollout}: other writers changed its nodes during each"
            f" of {_ATTEMPTS} attempts"
        )

    def wanted(self, identity: Identity, revision: Revision) -> DesiredState:
        return read_wanted(self._session, identity, revision)

    def services(self, paths: Collection[str]) -> frozenset[str]:
        return read_services(self._session, paths)

    def node_lock(self, deployment: Deployment, identity: Identity) -> ZooKeeperServiceLock:
        return ZooKeeperServiceLock(self._session, deployment.lock_name, identity, self._delay, self._queues)

    def any_free(self, deployments: Collection[Deployment], identity: Identity) -> bool:
        names = {deployment.lock_name for deployment in deployments}
        return not names.isdisjoint(self._queues.kept) or any_free(self._session, names, identity, self._delay)

    def hand_on_work(self, identity: Identity, pending: Collection[Deployment] = ()) -> bool:
        names = self._queues.kept - {deployment.lock_name for deployment in pending}
        for name in sorted(names):
            remove_work(self._session, name, lambda work: work.host_id == identity.id)
            self._queues.kept.discard(name)
        return bool(names)

    def role_lock(self, role: str, identity: Identity) -> RoleRequestLock:
        return RoleRequestLock(self._session, role, identity, self._roles)

    def leave_roles(self, identity: Identity) -> list[str]:
        return leave(self._session, identity, self._roles)

    def hand_on_roles(self, identity: Identity, *, former: bool = False) -> list[str]:
        return hand_on(self._session, identity, self._roles, former=former)

    def order_entries(self, sequence: int, services: Collection[str]) -> Mapping[str, OrderEntry]:
        return read_entries(self._session, sequence, services)

    def join_order(self, sequence: int, service: str, identity: Identity) -> None:
        join(self._session, sequence, service, identity.id)

    def finish_order(self, sequence: int, service: str, identity: Identity) -> None:
        finish(self._session, sequence, service, identity.id)

    def awaited_service(self, sequence: int, service: str) -> ZooKeeperAwaitedService:
        with late_import():  # in most fleets no service waits for another
            from zkdeployment.adapters.zookeeper.awaited_services import ZooKeeperAwaitedService  # noqa: PLC0415
        return ZooKeeperAwaitedService(self._session, sequence, service)

    def publish_output(self, output: FailureOutput) -> None:
        write_output(self._session, output)

    def publish_inventory(self, known: KnownHost) -> None:
        last, current = self._published_inventory, self._session.id
        if last is None or current != self._inventory_session:  # a new session may be one with a wiped ZooKeeper
            write_inventory(self._session, known)
        elif replace(last, time=known.time) != known:
            replace_inventory(self._session, known)
        else:
            return
        self._published_inventory, self._inventory_session = known, current

    def record_result(self, revision: Revision, result: HostResult) -> None:
        write_result(self._session, revision, result)

    def _stopping(self, host: Host, stop: Stop) -> list[Operation]:
        """Return the operations that set the cluster version to null and record the stop and the host's error.

        Return none if the fleet has another publication by now. Each publication writes ``/hosts``, whose version
        the operations check, together with the node of the targets.
        """
        hosts, targets, node = self._session.get_many([paths.HOSTS, paths.TARGETS, host_path(host)])
        if hosts is None:
            stopping: Operation = Create(paths.HOSTS, encode(Cluster(None).properties({})))
        else:
            cluster = Cluster.from_properties(hosts.properties)
            sequence = 0 if host.failed is None else host.failed.sequence
            if not decode_published(targets).is_wanted(cluster, stop.revision, sequence):
                return []
            is_stopped = cluster.version is None
            stopping = (
                Check(paths.HOSTS, hosts.version) if is_stopped else changing_cluster(hosts, ClusterEvent.STOP)
            )
        return [
            stopping,
            *self._registration.update_operations(host, node),
            *recording_stop(self._session, stop),
        ]
