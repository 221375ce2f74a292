"""The fleet as an agent reads it and writes to it: cluster version, and the result of its host."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from zkdeployment.agent.files.run_directory import JoinedRoles, SessionFile
from zkdeployment.agent.rules.draining import OtherHost, has_running
from zkdeployment.agent.store.registration import HostRegistration, host_path
from zkdeployment.agent.store.role_locks import RoleRequests
from zkdeployment.agent.store.service_locks import (
    LOCK_DELAY,
    LockDelay,
    ZooKeeperServiceLock,
    any_free,
    remove_work,
)
from zkdeployment.base.cluster import Cluster, ClusterEvent, Revision, succeeding
from zkdeployment.base.deployment import ONE, Deployment, DeploymentFailure, DesiredState, HostResult
from zkdeployment.base.host import Host, Identity
from zkdeployment.publishing.store.assignments import read_wanted
from zkdeployment.publishing.store.cluster import (
    changing_cluster,
    cluster_of,
    decode_published,
    in_force,
    maintenance_of,
    read_maintenance,
    recording_stop,
    setting_cluster,
    stopped_groups,
    stopping_group,
    write_output,
)
from zkdeployment.publishing.store.hosts import read_inventories, replace_inventory, write_inventory
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.strategies.permission import Grant, Permission, Phase, PhaseReport, RolloutPart
from zkdeployment.strategies.store.agent_records import (
    encode_report,
    read_judging_part,
    read_outline,
    read_permission,
    read_rollout_id,
)
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.connection import WatchHandler
from zkdeployment.zookeeper.nodes import Node, encode, is_path
from zkdeployment.zookeeper.transactions import (
    Check,
    Create,
    Operation,
    Set,
    TransactionError,
    commit_afresh,
    make_skeleton,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.publication import Published
    from zkdeployment.base.stop import FailureOutput, GroupStop, Stop
    from zkdeployment.zookeeper.session import Session


class ZooKeeperFleet(HostRegistration):
    """The fleet as one host reads it and writes to it, through one session.

    Every call has a time limit and raises ``UnreachableError`` when that is exceeded. ``lock_delay`` is how many
    seconds a host whose session ended under a lock has to finish its script. ``roles`` are the requests of this
    host for the locks of roles.
    """

    def __init__(
        self,
        session: Session,
        *,
        memory: SessionFile | None = None,
        patience: float | None = None,
        lock_delay: float = LOCK_DELAY,
    ) -> None:
        super().__init__(session, memory=memory, patience=patience)
        self.roles = RoleRequests(session, JoinedRoles(memory))
        self._published_inventory: KnownHost | None = None
        self._inventory_session: int | None = None
        self._delay = LockDelay(lock_delay)

    def cluster(self, identity: Identity, changed: Callable[[], None] | None = None) -> Cluster | None:
        """Read the cluster version, with the maintenance of this host; ``None`` if ``/hosts`` does not exist.

        ``changed`` (which must not block) is called once, when either may have changed.
        """
        own = paths.maintenance_path(identity.id)
        if changed is not None:
            for path in (paths.HOSTS, own):
                self._session.exists(path, WatchHandler(changed))
        return self._cluster_of(identity, *self._session.get_many([paths.HOSTS, paths.MAINTENANCE, own]))

    @staticmethod
    def _cluster_of(
        identity: Identity, hosts: Node | None, above: Node | None, own: Node | None
    ) -> Cluster | None:
        """Return the cluster in ``/hosts``, with the maintenance of this host in the node ``own``.

        The node ``above`` must be read before ``own``: its version then proves that no later maintenance began.
        """
        if hosts is None:
            return None
        records = () if own is None else (maintenance_of(quote(identity.id, safe=""), own),)
        return replace(
            cluster_of(hosts),
            maintenance=in_force(records, time.time()),
            maintenance_stamp=None if above is None else above.version,
        )

    def published(self) -> Published:
        """Read the revision and the sequence of the last publication."""
        return decode_published(self._session.get(paths.TARGETS))

    def is_current(self, identity: Identity, revision: Revision, stamp: int) -> bool:
        """Whether this host may deploy ``revision``, and nothing was published or imported since ``stamp``.

        ``stamp`` belongs to the last publication that was read. The answer includes all writes before this call.
        """
        self._session.sync()
        own = paths.maintenance_path(identity.id)
        places = [paths.HOSTS, paths.TARGETS, paths.MAINTENANCE, own]
        hosts, targets, *maintenance = self._session.get_many(places)
        cluster = self._cluster_of(identity, hosts, *maintenance)
        mandate = None if cluster is None else cluster.mandate(identity.id)
        return mandate is not None and mandate.revision == revision and decode_published(targets).stamp == stamp

    def watch_cluster(self, identity: Identity, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever the cluster version or the maintenance of this host may have changed.

        ``changed`` must not block.
        """
        self._session.watch(paths.HOSTS, changed)
        self._session.watch(paths.maintenance_path(identity.id), changed)

    def stop_fleet(self, host: Host, stop: Stop) -> bool:
        """Record a failure in one transaction: cluster version null, ``host.error``, and the stop.

        The transaction omits the host's node if the node is missing or belongs to another session. Returns
        ``False``, and writes nothing, if the fleet no longer has the failed publication: the revision of ``stop``
        in the publication that ``host.failed`` names. The transaction fails if the cluster version was written
        meanwhile.
        """
        make_skeleton(self._session)
        return commit_afresh(self._session, lambda: self._stopping(host, stop), "stop the fleet")

    def complete_retry(self, identity: Identity, revision: Revision) -> None:
        """Record that this host's retry for ``revision`` succeeded, after which the host may start nothing more.

        Nothing is written if the retry has ended meanwhile.
        """

        def make() -> list[Operation] | None:
            hosts = self._session.get(paths.HOSTS)
            after = None if hosts is None else succeeding(cluster_of(hosts), identity.id, revision)
            return None if hosts is None or after is None else [setting_cluster(hosts, after)]

        commit_afresh(self._session, make, "record the success of the retry")

    def resumed_part(self, identity: Identity, failed: DeploymentFailure) -> RolloutPart | None:
        """Return the part of the present rollout that judges the failure of a host that was retried.

        ``None`` while the fleet is not resumed, if no rollout of the failed publication is under way, and if the
        strategy does not govern the cluster version.
        """
        hosts, targets = self._session.get_many([paths.HOSTS, paths.TARGETS])
        cluster = None if hosts is None else cluster_of(hosts)
        return read_judging_part(self._session, decode_published(targets), cluster, failed.sequence, identity.id)

    def stop_group(self, stop: GroupStop) -> bool:
        """Record a failure that stops one group, unless the group is stopped already.

        Returns ``False``, and writes nothing, if the fleet no longer has the failed publication.
        """
        return commit_afresh(
            self._session, lambda: stopping_group(self._session, stop), f"stop the group {stop.group}"
        )

    def stopped_groups(self) -> frozenset[str]:
        """Return the subjects of the stopped deployment intent groups, whose steps no host begins.

        The result includes all stops that were written before the cluster version was last read.
        """
        return stopped_groups(self._session)

    def permission(
        self,
        sequence: int,
        identity: Identity,
        changed: Callable[[], None] | None = None,
        *,
        follows: bool = False,
    ) -> Permission:
        """Read which phases the rollout of the publication with this sequence permits this host to run.

        ``changed`` (which must not block) is called once, when the permission may have changed. A host that only
        ``follows`` is in no group, and may run both phases when the rollout has ended without stopping the fleet.
        """
        session = self._session
        if changed is not None:
            session.exists(paths.ROLLOUTS, WatchHandler(changed))
        rollout_id = read_rollout_id(session, sequence)
        if rollout_id is None:
            return Permission()
        if changed is not None:
            session.exists(paths.grant_path(rollout_id, identity.id), WatchHandler(changed))
        permission = read_permission(session, rollout_id, identity.id)
        if not follows:
            return permission
        if changed is not None:
            session.exists(paths.rollout_path(rollout_id), WatchHandler(changed))
        outline = read_outline(session, sequence)
        is_over = outline is not None and outline.ended_well
        return replace(permission, grant=Grant("", Phase.DEPLOY) if is_over else None)

    def other_hosts(
        self, identity: Identity, own: Mapping[str, int], ids: Collection[str] | None = None
    ) -> tuple[OtherHost, ...]:
        """Read the registered hosts except this one, with those of the services in ``own`` that run there.

        ``own`` maps the paths of services to the number of instances of this host; ``ids`` limits the other hosts.
        The node of a host is read before its inventory: while the node is unchanged, so are its services.
        """
        session = self._session
        listed = (session.children(paths.HOSTS) or ()) if ids is None else ids
        names = sorted(name for name in listed if name != identity.id)
        found = session.get_many(f"{paths.HOSTS}/{name}" for name in names)
        nodes = {name: node for name, node in zip(names, found, strict=True) if node is not None}
        known = read_inventories(session, nodes)
        markers = {each.identity.id: each.inventory.markers for each in known if each.inventory is not None}
        maintenance = read_maintenance(session, time.time())
        is_running = _running(session, own)
        return tuple(
            OtherHost(
                Host.from_properties(name, node.properties),
                node.version,
                frozenset(
                    marker.deployment.path
                    for marker in markers.get(name, ())
                    if is_running(marker.deployment.path, name)
                ),
                in_maintenance=name in maintenance,
            )
            for name, node in nodes.items()
        )

    def record_drain(self, identity: Identity, kept: Mapping[str, str]) -> None:
        """Record that the drain of this host is complete, with the kept services and the reasons.

        Nothing is written if the maintenance has ended, has no drain any more, or is recorded so already.
        """
        path = paths.maintenance_path(identity.id)

        def make() -> list[Operation] | None:
            node = self._session.get(path)
            if node is None:
                return None
            record = maintenance_of(quote(identity.id, safe=""), node)
            if not record.drain or record.kept == kept:
                return None
            return [Set(path, encode(replace(record, kept=dict(kept)).to_json()), node.version)]

        commit_afresh(self._session, make, "record the drain")

    def report_phase(self, rollout: str, phase: Phase, host: Host, report: PhaseReport) -> None:
        """Record the outcome of a phase, and the host's node, in one transaction.

        An earlier report of the same phase is kept. If the rollout no longer exists, nothing is written. The
        transaction omits the host's node if the node is missing or belongs to another session.
        """
        path = paths.report_path(rollout, phase.value, host.identity.id)

        def make() -> list[Operation]:
            above, former, node = self._session.get_many([path.rpartition("/")[0], path, host_path(host)])
            is_new = above is not None and former is None
            reporting = [Create(path, encode_report(report))] if is_new else []
            return [*reporting, *self._update_operations(host, node)]

        commit_afresh(self._session, make, f"report phase {phase.value} to rollout {rollout}")

    def wanted(self, identity: Identity, revision: Revision) -> DesiredState:
        """Read the state that this host should have at ``revision``.

        If the targets compiled with the publication belong to ``revision``, they are used; otherwise the whole
        tree is read, with the same result. Raises ``ConflictError`` if the cluster version or the tree changed
        while they were read, ``TreeError`` if the tree contradicts itself for this host.
        """
        return read_wanted(self._session, identity, revision)

    def node_lock(self, deployment: Deployment, identity: Identity) -> ZooKeeperServiceLock:
        """Return a new lock object for one attempt at the lock of the deployment's service node."""
        return ZooKeeperServiceLock(self._session, deployment.lock_name, identity, self._delay, self._queues)

    def any_free(self, deployments: Collection[Deployment], identity: Identity) -> bool:
        """Whether the lock of any of these service nodes can be acquired now; reads all in one round."""
        names = {deployment.lock_name for deployment in deployments}
        return not names.isdisjoint(self._queues.kept) or any_free(self._session, names, identity, self._delay)

    def hand_on_work(self, identity: Identity, pending: Collection[Deployment] = ()) -> bool:
        """Remove the work records that are kept for this host, except those of the services of ``pending``.

        Other hosts then proceed. Return whether there were such records. Without a kept record, no request is
        sent.
        """
        names = self._queues.kept - {deployment.lock_name for deployment in pending}
        for name in sorted(names):
            remove_work(self._session, name, lambda work: work.host_id == identity.id)
            self._queues.kept.discard(name)
        return bool(names)

    def publish_output(self, output: FailureOutput) -> None:
        """Write the end of the output of this host's failed script, if not too many hosts have failed."""
        write_output(self._session, output)

    def publish_inventory(self, known: KnownHost) -> None:
        """Write this host's inventory unless it is unchanged; a too large inventory is written as unknown."""
        last, current = self._published_inventory, self._session.id
        if last is None or current != self._inventory_session:  # ZooKeeper may have lost its data
            write_inventory(self._session, known)
        elif replace(last, time=known.time) != known:
            replace_inventory(self._session, known)
        else:
            return
        self._published_inventory, self._inventory_session = known, current

    def record_result(self, revision: Revision, result: HostResult) -> None:
        """Record in the history the result of publication ``revision`` on this host.

        A version that was set by hand has no publication and is not recorded.
        """
        last = decode_published(self._session.get(paths.TARGETS))
        if last.revision != revision or not last.sequence:
            return
        mine = f"{paths.history_path(last.sequence)}/{result.host_id}"
        try:
            self._session.commit(Create(mine, encode(result.to_json())))
        except TransactionError:
            node = self._session.get(mine)  # ``None`` if the publication has no record
            if node is not None:
                retried = result.after(HostResult.from_json(node.properties))
                self._session.commit(Set(mine, encode(retried.to_json()), node.version))

    def _stopping(self, host: Host, stop: Stop) -> list[Operation] | None:
        """Return the operations that set the cluster version to null and record the stop and the host's error.

        Return ``None`` if the fleet has another publication by now. Each publication writes ``/hosts``, whose
        version the operations check, together with the node of the targets.
        """
        hosts, targets, node = self._session.get_many([paths.HOSTS, paths.TARGETS, host_path(host)])
        if hosts is None:
            stopping: Operation = Create(paths.HOSTS, encode(Cluster(None).properties({}, stamp=0)))
        else:
            cluster = cluster_of(hosts)
            sequence = 0 if host.failed is None else host.failed.sequence
            if not decode_published(targets).is_wanted(cluster, stop.revision, sequence):
                return None
            # A failure ends the retry of this host, which therefore fails once.
            is_stopped = cluster.version is None and cluster.mandate(host.identity.id) is None
            stopping = (
                Check(paths.HOSTS, hosts.version) if is_stopped else changing_cluster(hosts, ClusterEvent.STOP)
            )
        return [
            stopping,
            *self._update_operations(host, node),
            *recording_stop(self._session, stop),
        ]


def _running(session: Session, own: Mapping[str, int]) -> Callable[[str, str], bool]:
    """Return whether a service of ``own``, given by path, runs on a host with an id that has it."""
    asked = sorted(filter(is_path, own))
    providers = ZooKeeperLiveTree(session).providers(asked)
    nodes = dict(zip(asked, session.get_many(asked), strict=True))

    def is_running(path: str, host_id: str) -> bool:
        if path not in own or path not in providers:  # the instances of the service do not register
            return path in own
        node, registered = nodes[path], providers[path].values()
        is_one = node is not None and node.properties.get("registers") == ONE
        return has_running(host_id, own[path], registered, registers_one=is_one)

    return is_running
