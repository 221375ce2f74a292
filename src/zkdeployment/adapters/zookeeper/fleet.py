"""What an agent sees of the fleet, and writes to it (a ``FleetStore``)."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.bootstrap import make_skeleton
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Check, Create, Delete, Operation, Set
from zkdeployment.adapters.zookeeper.inventories import write_inventory
from zkdeployment.adapters.zookeeper.locks.role_locks import RoleRequestLock, hand_on
from zkdeployment.adapters.zookeeper.locks.service_locks import (
    LOCK_DELAY,
    LockDelay,
    ZooKeeperServiceLock,
    any_free,
)
from zkdeployment.adapters.zookeeper.locks.stale_nodes import remove_remains
from zkdeployment.adapters.zookeeper.operator.stops import recording_stop
from zkdeployment.adapters.zookeeper.publication.assignments import read_services, read_wanted
from zkdeployment.adapters.zookeeper.publication.builder import published
from zkdeployment.adapters.zookeeper.publication.history import write_result
from zkdeployment.adapters.zookeeper.rollout.permissions import read_permission, reporting
from zkdeployment.errors import ConflictError, DuplicateError, HostFilesError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import Cluster
from zkdeployment.model.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.deployment import Deployment, DesiredState
    from zkdeployment.model.history import HostResult
    from zkdeployment.model.host import Identity
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import Published
    from zkdeployment.model.stop import Stop
    from zkdeployment.rollout.state import Permission, PhaseReport
    from zkdeployment.rollout.state_machine import Phase

#: How often a write is tried again when others write to the same nodes at the same time.
_ATTEMPTS = 20

#: What another session's node is given over the session timeout to go away.
_MARGIN = 1.0


class ZooKeeperFleet:
    """The fleet through one session.

    ``previous_session`` is the id of the session that this host's last agent had, and ``save_session`` keeps the
    id of this one for the next: so a node left by a crash is known as our own. Another session's node is
    waited out for ``patience`` seconds (default: a session timeout and a little). ``lock_delay`` is how many
    seconds a host whose session ended under a lock has for its script.
    """

    def __init__(
        self,
        session: Session,
        *,
        previous_session: int | None = None,
        save_session: Callable[[int], None] = lambda _: None,
        patience: float | None = None,
        lock_delay: float = LOCK_DELAY,
    ) -> None:
        self._session = session
        self._previous_session = previous_session
        self._own_sessions = {previous_session}
        self._was_alive = False
        self._save_session = save_session
        self._path: str | None = None
        self._told: KnownHost | None = None
        self._delay = LockDelay(lock_delay)
        self._patience = session.session_timeout + _MARGIN if patience is None else patience

    def cluster(self) -> Cluster | None:
        """Read the cluster version; ``None`` where ``/hosts`` does not exist."""
        node = self._session.get(paths.HOSTS)
        return None if node is None else Cluster.from_properties(node.properties, hosts=node.children)

    def published(self) -> Published:
        """Read the revision and the sequence of the last publication."""
        return published(self._session.get(paths.TARGETS), None, ())

    def watch_cluster(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) whenever the cluster version may have changed."""
        self._session.watch(paths.HOSTS, changed)

    def register(self, host: Host, *, adopt: bool = False) -> Revision | None:
        """Make this host's ephemeral node, or bring it up to date in a new session.

        With ``adopt`` the version of a persistent node that an old agent left replaces the host's own, and is
        returned. Raises ``DuplicateError`` if another live host has this id, or this name.
        """
        make_skeleton(self._session)
        path = _host_path(host)
        deadline = time.monotonic() + self._patience
        for _ in range(_ATTEMPTS):
            node = self._wait_for_place(path, host, deadline)
            adopted = _adopted_version(node) if adopt else None
            try:
                self._session.commit(*self._registration(path, node, host, adopted))
                self._remember_session()
                self._was_alive = node is not None and node.owner == self._previous_session
                if self._path is None:  # not again in each session: with thousands of hosts that would be a storm
                    self._give_way(path, host)
            except ConflictError:
                continue  # somebody, or the end of a session, was faster: look again
            self._path = path
            return adopted
        raise ConflictError(f"cannot register {host.identity}: {path} changes all the time")

    def clear_remains(self) -> None:
        """Remove what this host's killed agent left: records of work and, if its session lives, contenders."""
        if self._path is not None:
            previous = self._previous_session if self._was_alive else None
            remove_remains(self._session, self._path.rpartition("/")[2], previous)

    def is_registered(self) -> bool:
        """Whether the host's node is there, and this session's."""
        node = None if self._path is None else self._session.get(self._path)
        return node is not None and node.owner == self._session.id

    def update_host(self, host: Host) -> None:
        """Replace the properties of this host's node; make it again if the session that had it is over."""
        path = _host_path(host)
        node = self._session.get(path)
        if node is None or node.owner != self._session.id:
            self.register(host)
            return
        try:
            self._session.commit(Set(path, encode(host.properties()), node.version))
        except ConflictError:
            self.register(host)

    def unregister(self) -> None:
        """Remove this host's node."""
        if self._path is not None and self.is_registered():
            with contextlib.suppress(ConflictError):  # the end of the session was faster
                self._session.commit(Delete(self._path))

    def stop_fleet(self, host: Host, stop: Stop) -> None:
        """Record a failure in one transaction: cluster version null, ``host.error``, a stop.

        When the host's node is gone or somebody else's, the rest is recorded without it.
        """
        make_skeleton(self._session)
        for _ in range(_ATTEMPTS):
            try:
                self._session.commit(*self._stopping(host, stop))
            except ConflictError:
                continue
            return
        raise ConflictError("cannot stop the fleet: its nodes change all the time")

    def permission(
        self, sequence: int, identity: Identity, changed: Callable[[], None] | None = None
    ) -> Permission:
        """Read what the rollout of a publication lets this host do.

        ``changed`` (which must not block) is called once when that may have changed since.
        """
        return read_permission(self._session, sequence, identity.id, changed)

    def report_phase(self, rollout: str, phase: Phase, host: Host, report: PhaseReport) -> None:
        """Record how a phase went here and the host's node, in one transaction; what was reported before stays.

        A rollout that is gone gets no report; when the host's node is gone or somebody else's, it is left alone.
        """
        for _ in range(_ATTEMPTS):
            operations = list(reporting(self._session, rollout, phase, host.identity.id, report))
            try:
                self._session.commit(*operations, *self._own_node(host, self._session.get(_host_path(host))))
            except ConflictError:
                continue
            return
        raise ConflictError(f"cannot report {phase.value} to rollout {rollout}: its nodes change all the time")

    def wanted(self, identity: Identity, revision: Revision) -> DesiredState:
        """Read what this host is to run at ``revision``: from the compiled targets, else from the tree.

        Raises ``ConflictError`` when the cluster has moved on while reading, ``TreeError`` when the tree
        contradicts itself for this host.
        """
        return read_wanted(self._session, identity, revision)

    def services(self, paths: Collection[str]) -> frozenset[str]:
        """Return those of these paths that are service nodes of the tree, whatever hosts they are for."""
        return read_services(self._session, paths)

    def node_lock(self, deployment: Deployment, identity: Identity) -> ZooKeeperServiceLock:
        """Return a fresh lock of the deployment's service node."""
        return ZooKeeperServiceLock(self._session, deployment.lock_name, identity, self._delay)

    def any_free(self, deployments: Collection[Deployment], identity: Identity) -> bool:
        """Whether the lock of any of these service nodes may be taken now; all are looked at in one round."""
        names = {one.lock_name for one in deployments}
        return any_free(self._session, names, identity, self._delay)

    def role_lock(self, role: str, identity: Identity) -> RoleRequestLock:
        """Return the lock of a role that has a controller; ``TreeError`` if there is no place for it."""
        return RoleRequestLock(self._session, role, identity)

    def hand_on_role(self, identity: Identity) -> bool:
        """Give the lock of a host's role to others although the host is not through; return whether it held it."""
        return hand_on(self._session, identity)

    def publish_inventory(self, known: KnownHost) -> None:
        """Write what this host has, unless that is what it last wrote; what is too large is written as unknown."""
        if self._told is None or replace(self._told, time=known.time) != known:
            write_inventory(self._session, known)
            self._told = known

    def record_result(self, revision: Revision, result: HostResult) -> None:
        """Record in the history how the publication of a revision went here; not for a version set by hand."""
        write_result(self._session, revision, result)

    def _wait_for_place(self, path: str, host: Host, deadline: float) -> Node | None:
        """Return the node to be replaced, ``None`` if there is none.

        Raises ``DuplicateError`` if another session keeps it beyond the deadline.
        """
        gone = threading.Event()
        while True:
            gone.clear()
            self._session.exists(path, lambda _: gone.set())
            node = self._session.get(path)
            if node is None or not node.owner or node.owner in {self._session.id, *self._own_sessions}:
                return node
            if not gone.wait(max(0.0, deadline - time.monotonic())):
                other = Host.from_properties(host.identity.id, node.properties)
                raise DuplicateError(
                    f"another agent is running with host id {host.identity.id}: {other.identity}"
                    f"{'' if other.pid is None else f', process {other.pid}'}; host ids must be unique"
                )

    def _give_way(self, path: str, host: Host) -> None:
        """Raise ``DuplicateError``, without our node, if another live host has this id or name as its id or name.

        Only a look after the node was made sees a host that registers at the same time: the later one leaves.
        """
        ours = self._session.get(path)
        if ours is None or ours.owner != self._session.id:
            raise ConflictError(f"{path} is gone already")
        ids = [name for name in self._session.children(paths.HOSTS) or () if name != host.identity.id]
        nodes = self._session.get_many(f"{paths.HOSTS}/{name}" for name in ids)
        for other, node in zip(ids, nodes, strict=True):
            if node is None or not node.owner:
                continue
            shared = {other, node.properties.get("name")} & {host.identity.id, host.identity.name}
            if shared and node.born < ours.born:
                with contextlib.suppress(ConflictError):  # the end of the session was faster
                    self._session.commit(Delete(path))
                raise DuplicateError(
                    f"two hosts are called {shared.pop()}: {other}, which is registered, and"
                    f" {host.identity.id}, this one; an id or name must mean one host"
                )

    def _registration(self, path: str, node: Node | None, host: Host, adopted: Revision | None) -> list[Operation]:
        properties = host.properties() | ({} if adopted is None else {"version": adopted})
        data = encode(properties)
        if node is None:
            return [Create(path, data, ephemeral=True)]
        if node.owner == self._session.id:
            return [Set(path, data, node.version)]
        return [Delete(path, node.version), Create(path, data, ephemeral=True)]

    def _remember_session(self) -> None:
        """Note our session for the next agent, which without that waits for its end if we are killed."""
        session_id = self._session.id
        if session_id is not None and session_id not in self._own_sessions:
            self._own_sessions.add(session_id)
            try:
                self._save_session(session_id)
            except HostFilesError as error:
                get_logger().warning("session-not-remembered", reason=str(error))

    def _stopping(self, host: Host, stop: Stop) -> list[Operation]:
        cluster, ours = self._session.get_many([paths.HOSTS, _host_path(host)])
        operations: list[Operation] = []
        if cluster is None:
            operations.append(Create(paths.HOSTS, encode({"version": None})))
        elif Cluster.from_properties(cluster.properties).version is None:
            operations.append(Check(paths.HOSTS, cluster.version))
        else:
            stopped = encode(cluster.properties | {"version": None})
            operations.append(Set(paths.HOSTS, stopped, cluster.version))
        return [*operations, *self._own_node(host, ours), *recording_stop(self._session, stop)]

    def _own_node(self, host: Host, node: Node | None) -> list[Operation]:
        """Return what brings the host's node up to date, if that is this session's."""
        if node is None or node.owner != self._session.id:
            return []
        return [Set(_host_path(host), encode(host.properties()), node.version)]


def _host_path(host: Host) -> str:
    return f"{paths.HOSTS}/{host.identity.id}"


def _adopted_version(node: Node | None) -> Revision | None:
    """Return the version of a persistent node, which only old agents left."""
    if node is None or node.owner:
        return None
    return Host.from_properties("", node.properties).version
