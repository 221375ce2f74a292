"""The coordinator's side of the records of rollouts.

The state of the newest rollout is read and written here, and the observations are read. Its parts are
``leadership`` (the right to write), ``grants``, ``host_registry``, ``old_rollouts`` (removal) and ``records`` (the
encoding of nodes).
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Check, Create, Delete, Set
from zkdeployment.adapters.zookeeper.cluster_node import changing_cluster
from zkdeployment.adapters.zookeeper.operator.stops import recording_stop
from zkdeployment.adapters.zookeeper.publication.last_publication import decode_published
from zkdeployment.adapters.zookeeper.publication.strategies import read_strategy
from zkdeployment.adapters.zookeeper.rollout import records
from zkdeployment.adapters.zookeeper.rollout.acts import read_rollout_acts
from zkdeployment.adapters.zookeeper.rollout.agent_records import current_id
from zkdeployment.adapters.zookeeper.rollout.grants import PublishedGrants
from zkdeployment.adapters.zookeeper.rollout.host_registry import HostRegistry
from zkdeployment.adapters.zookeeper.rollout.leadership import RolloutLeadership
from zkdeployment.adapters.zookeeper.rollout.old_rollouts import remove_old_rollouts
from zkdeployment.errors import ZkdeploymentError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import Cluster
from zkdeployment.model.cluster_machine import ClusterEvent
from zkdeployment.rollout.permission import Phase
from zkdeployment.rollout.phases import proving as proving_hosts
from zkdeployment.rollout.state import RolloutObservation, RolloutSnapshot
from zkdeployment.rollout.state_machine import HostProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.adapters.zookeeper.client.transactions import Operation
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.stop import Stop
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.permission import Grant
    from zkdeployment.rollout.state import RolloutState


class ZooKeeperRollouts:
    """The records of rollouts through one session.

    Each method raises ``UnreachableError`` if ZooKeeper does not answer. Only the leading coordinator can write;
    writes of any other raise ``LockLostError``.

    ``changed`` (which must not block) is called when something changed that the coordinator read. ``identity`` is
    the coordinator's name for others (default: its host and process). ``reach`` is called before and after each
    write with the name of the place.
    """

    def __init__(
        self,
        session: Session,
        changed: Callable[[], None],
        *,
        identity: str | None = None,
        reach: Callable[[str], None] = lambda _place: None,
    ) -> None:
        self._session = session
        self._changed = changed
        identity = identity or f"{socket.gethostname()} (process {os.getpid()})"
        self._leadership = RolloutLeadership(session, identity, reach)
        self._grants = PublishedGrants(session, self._leadership)
        self._registry = HostRegistry(session, self._wake)
        self._cached: tuple[bytes, RolloutState] | None = None
        self._unreadable: str | None = None
        self._acts: Check | None = None
        self._watching = False

    # The lead

    def lead(self, timeout: float) -> bool:
        """Queue for the lead for ``timeout`` seconds and return whether this coordinator leads.

        The place in the queue is kept from call to call.
        """
        before = self._leadership.node
        leads = self._leadership.acquire(timeout)
        if self._leadership.node != before:
            self._grants.forget()  # another coordinator may have led in between
            self._registry.expire()
        return leads

    def resign(self) -> None:
        """Leave the lead, or the queue for it; never raises."""
        self._leadership.release()

    @property
    def lead_node(self) -> str | None:
        """The lock node of this coordinator while it leads; other threads may ask for it."""
        return self._leadership.node

    # Reading

    def snapshot(self) -> RolloutSnapshot:
        """Return the published revision and the newest rollout; a change of either wakes from now on."""
        if not self._watching:
            self._session.watch(paths.HOSTS, self._changed)
            self._session.watch(paths.TARGETS, self._changed)
            self._watching = True
        self._acts = None
        hosts, targets, rollouts = self._session.get_many([paths.HOSTS, paths.TARGETS, paths.ROLLOUTS])
        publication = decode_published(targets)
        return RolloutSnapshot(
            cluster=None if hosts is None else Cluster.from_properties(hosts.properties),
            published=publication,
            state=self._read_state(current_id(rollouts), publication.effective_since),
        )

    def strategy(self) -> Strategy | None:
        """Return the published strategy; raises ``TreeError`` if it cannot be read."""
        return read_strategy(self._session)

    def first_observation(self, revision: Revision, *, now: float) -> RolloutObservation:
        """Return all registered and absent hosts, freshly read, before a rollout of ``revision`` begins."""
        self._registry.expire()
        hosts = self._registry.registered(now)
        return RolloutObservation(
            now=now,
            active=True,
            present=self._registry.facts,
            absent=self._registry.absent(hosts.values()),
            left_at=self._registry.left_at,
            current=frozenset(name for name, host in hosts.items() if _is_current(host, revision)),
        )

    def observation(self, snapshot: RolloutSnapshot, state: RolloutState, *, now: float) -> RolloutObservation:
        """Return the hosts, the awaited reports and the new acts of a rollout; a change of these wakes once."""
        hosts = self._registry.registered(now)
        directory = paths.acts_path(state.id)
        # The version is read before the acts: an act that arrives in between makes the next record fail.
        acts = self._session.get(directory)
        self._acts = None if acts is None else Check(directory, acts.version)
        proving = self._registry.read(proving_hosts(state))
        return RolloutObservation(
            now=now,
            active=snapshot.active,
            present=self._registry.facts,
            current=frozenset(
                name
                for name, host in hosts.items()
                if name not in state.rollout.hosts and _has_published(host, state) and host.error is None
            ),
            outdated=self._outdated(state, hosts) if snapshot.active else frozenset(),
            failing=frozenset(
                name for name, host in proving.items() if not _has_published(host, state) or host.error
            ),
            reports=records.read_reports(self._session, state, self._wake),
            acts=read_rollout_acts(self._session, state.id, state.last_act_number, self._wake),
        )

    def _outdated(self, state: RolloutState, hosts: Mapping[str, Host]) -> frozenset[str]:
        """Return the hosts that succeeded and no longer have the revision.

        The registry's copy of a host is usually older than its deployment; such hosts are read again once.
        """
        doubtful = [
            name
            for name, host in hosts.items()
            if state.rollout.hosts.get(name) is HostProgress.SUCCESS and not _has_published(host, state)
        ]
        fresh = self._registry.refresh(doubtful)
        return frozenset(name for name, host in fresh.items() if not _has_published(host, state))

    def _read_state(self, rollout_id: str | None, sequence: int) -> RolloutState | None:
        """Read a rollout's state; an unreadable state of an earlier publication is ignored."""
        if rollout_id is None:
            return None
        node = self._session.get(paths.rollout_path(rollout_id))
        if node is None:
            return None
        if self._cached is None or self._cached[0] != node.data:
            try:
                self._cached = node.data, records.decode_state(node.data)
            except ZkdeploymentError as error:
                if rollout_id.startswith(f"{sequence}-"):
                    raise
                if self._unreadable != rollout_id:
                    get_logger().warning("rollout-unreadable", rollout=rollout_id, reason=str(error))
                self._unreadable = rollout_id
                return None
        self._version = node.version
        return self._cached[1]

    # Writing

    def begin(self, state: RolloutState, stamp: int) -> None:
        """Make a rollout the newest one; raises ``ConflictError`` unless ``Published.stamp`` is ``stamp``."""
        self._session.ensure(paths.ROLLOUTS)
        self._leadership.commit(
            "begin",
            Check(paths.TARGETS, stamp),
            Create(paths.rollout_path(state.id), records.encode_state(state)),
            Create(paths.grants_path(state.id)),
            Create(paths.reports_path(state.id)),
            Create(paths.acts_path(state.id)),
            Set(paths.ROLLOUTS, encode({"current": state.id})),
        )

    def record(self, state: RolloutState, stop: Stop | None = None) -> None:
        """Replace the state of the newest rollout; with a ``stop`` the fleet stops and all grants become void.

        The fleet is not stopped if its cluster version is another revision than the rollout's. Raises
        ``ConflictError`` if the state changed since ``snapshot`` read it, or if there are acts that
        ``observation`` has not returned.
        """
        self._leadership.commit(
            "record",
            self._replacing(state),
            *(() if self._acts is None else (self._acts,)),
            *(() if stop is None else self._stopping(state, stop)),
        )

    def clear_reports(self, state: RolloutState, hosts: Collection[str]) -> None:
        """Remove the reports of hosts that start again in a rollout."""
        existing = {*(self._session.children(paths.reports_path(state.id)) or ())}
        reports = [paths.report_path(state.id, phase.value, host) for host in sorted(hosts) for phase in Phase]
        self._leadership.commit_in_batches(
            "clear", (Delete(path) for path in reports if path.rpartition("/")[2] in existing)
        )

    def grant(self, state: RolloutState, wanted: Mapping[str, Grant]) -> None:
        """Make the published grants of a rollout equal to the wanted ones."""
        self._grants.publish(state.id, wanted)

    def tidy(self, current: str) -> None:
        """Remove the records of all rollouts but the current one, except for the final states in the history."""
        remove_old_rollouts(self._session, self._leadership, current)

    def _replacing(self, state: RolloutState) -> Operation:
        self._cached = records.encode_state(state), state
        return Set(paths.rollout_path(state.id), self._cached[0], self._version)

    def _stopping(self, state: RolloutState, stop: Stop) -> Iterator[Operation]:
        """Return the operations that stop the fleet, unless hosts deploy another publication by now."""
        # An operator may resume the fleet before the grants are withdrawn: "over" makes them void at once.
        yield Set(paths.ROLLOUTS, encode({"current": state.id, "over": True}))
        node, targets = self._session.get_many([paths.HOSTS, paths.TARGETS])
        if node is None:
            return
        cluster, published = Cluster.from_properties(node.properties), decode_published(targets)
        if published.is_wanted(cluster, state.revision, state.sequence):
            yield changing_cluster(node, ClusterEvent.STOP)
            yield from recording_stop(self._session, stop)

    def _wake(self, _event: object) -> None:
        self._changed()


def _has_published(host: Host, state: RolloutState) -> bool:
    """Return whether a host completed the rollout's publication, or a later one that changed only documents."""
    return host.has(state.revision) or host.has_reached(state.sequence)


def _is_current(host: Host, revision: Revision) -> bool:
    """Return whether a host has the revision and reports no error."""
    return host.has(revision) and host.error is None
