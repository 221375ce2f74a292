"""What a coordinator reads from ZooKeeper and writes to it (a ``RolloutStore``).

Each write is a transaction that fails unless our place at the head of the queue is still there: a coordinator
whose session is over can write nothing.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import (
    Check,
    Create,
    Delete,
    Operation,
    Set,
    TransactionError,
)
from zkdeployment.adapters.zookeeper.locks.contender_lock import ContenderLock
from zkdeployment.adapters.zookeeper.operator.stops import recording_stop
from zkdeployment.adapters.zookeeper.publication.last_publication import decode_published
from zkdeployment.adapters.zookeeper.publication.strategies import read_strategy
from zkdeployment.adapters.zookeeper.rollout import records as rollouts
from zkdeployment.adapters.zookeeper.rollout.acts import read_rollout_acts
from zkdeployment.adapters.zookeeper.rollout.host_registry import HostRegistry
from zkdeployment.errors import LockLostError, ZkdeploymentError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import Cluster
from zkdeployment.rollout.phases import proving as proving_hosts
from zkdeployment.rollout.state import RolloutObservation, RolloutSnapshot
from zkdeployment.rollout.state_machine import HostProgress, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.stop import Stop
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.state import Grant, RolloutState

#: Operations of a transaction, beside the check; each of them stops the whole ensemble for its time.
_BATCH = 499


class ZooKeeperRollouts:
    """Rollouts through one session; ``changed`` (which must not block) is called when there may be work.

    ``identity`` is how others know this coordinator (default: host, process). ``reach`` is called before and
    after each write, with a name for that place.
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
        self._reach = reach
        self._identity = identity or f"{socket.gethostname()} (process {os.getpid()})"
        self._lock = ContenderLock(session, paths.COORDINATORS, self._identity)
        self._seat: str | None = None
        self._registry = HostRegistry(session, self._wake)
        self._known: tuple[bytes, RolloutState] | None = None
        self._unreadable: str | None = None
        self._granted: tuple[str, dict[str, Grant]] | None = None
        self._acts: Check | None = None
        self._watching = False

    def lead(self, timeout: float) -> bool:
        """Queue for the lead for ``timeout`` seconds, keeping the place over calls; say whether we have it."""
        before, self._seat = self._seat, None
        if self._lock.acquire(timeout):
            self._seat = self._lock.path
        if self._seat != before:
            self._granted = None  # others may have led meanwhile
            self._registry.expire()
        return self._seat is not None

    def resign(self) -> None:
        """Leave the lead, or the queue for it."""
        self._seat = None
        self._lock.release()

    def snapshot(self) -> RolloutSnapshot:
        """Read what is to be rolled out and the newest rollout; a change of either wakes from now on."""
        if not self._watching:
            self._session.watch(paths.HOSTS, self._changed)
            self._session.watch(paths.TARGETS, self._changed)
            self._watching = True
        self._acts = None
        hosts, targets, above = self._session.get_many([paths.HOSTS, paths.TARGETS, paths.ROLLOUTS])
        found = decode_published(targets)
        return RolloutSnapshot(
            cluster=None if hosts is None else Cluster.from_properties(hosts.properties),
            published=found,
            state=self._read_state(rollouts.current_id(above), found.sequence),
        )

    def strategy(self) -> Strategy | None:
        """Read the published strategy; raises ``TreeError`` for what makes no sense."""
        return read_strategy(self._session)

    def first_observation(self, revision: Revision, *, now: float) -> RolloutObservation:
        """Read all hosts anew, and those that are away, before a rollout of ``revision`` begins."""
        self._registry.expire()
        hosts = self._registry.registered(now)
        return RolloutObservation(
            now=now,
            active=True,
            present={name: host.facts for name, host in hosts.items()},
            absent=self._registry.absent(hosts.values()),
            left_at=self._registry.left_at,
            current=frozenset(name for name, host in hosts.items() if _has(revision, host)),
        )

    def observation(self, snapshot: RolloutSnapshot, state: RolloutState, *, now: float) -> RolloutObservation:
        """Read what concerns a rollout: hosts, reports that are awaited, acts; a change of those wakes once."""
        hosts = self._registry.registered(now)
        place = paths.acts_path(state.id)
        acts = self._session.get(place)  # before they are read: one that comes then is not lost
        self._acts = None if acts is None else Check(place, acts.version)
        proving = self._registry.read(proving_hosts(state))
        return RolloutObservation(
            now=now,
            active=snapshot.active,
            present={name: host.facts for name, host in hosts.items()},
            current=frozenset(
                name
                for name, host in hosts.items()
                if name not in state.rollout.hosts and _has(state.revision, host)
            ),
            outdated=self._outdated(state, hosts) if snapshot.active else frozenset(),
            failing=frozenset(name for name, host in proving.items() if not _has(state.revision, host)),
            reports=rollouts.read_reports(self._session, state, self._wake),
            acts=read_rollout_acts(self._session, state.id, state.last_act_number, self._wake),
        )

    def _outdated(self, state: RolloutState, hosts: Mapping[str, Host]) -> frozenset[str]:
        """Return the hosts that succeeded and do not have the revision any more.

        What is known of a host is from before its deployment, mostly: it is read again, once.
        """
        states = state.rollout.hosts
        doubtful = [
            name
            for name, host in hosts.items()
            if states.get(name) is HostProgress.SUCCESS and host.version != state.revision
        ]
        fresh = self._registry.refresh(doubtful)
        return frozenset(name for name, host in fresh.items() if host.version != state.revision)

    def clear_reports(self, state: RolloutState, hosts: Collection[str]) -> None:
        """Remove what hosts reported in a rollout: they begin again."""
        above = paths.reports_path(state.id)
        there = {*(self._session.children(above) or ())}
        reports = [paths.report_path(state.id, phase.value, host) for host in sorted(hosts) for phase in Phase]
        found = [path for path in reports if path.rpartition("/")[2] in there]
        for start in range(0, len(found), _BATCH):
            self._commit("clear", *map(Delete, found[start : start + _BATCH]))

    def begin(self, state: RolloutState, stamp: int) -> None:
        """Make the node of a rollout, with places for grants, reports and acts, and name it the newest.

        Raises ``ConflictError`` if anything was published after what has this ``stamp``.
        """
        self._session.ensure(paths.ROLLOUTS)
        self._commit(
            "begin",
            Check(paths.TARGETS, stamp),
            Create(paths.rollout_path(state.id), rollouts.encode_state(state)),
            Create(paths.grants_path(state.id)),
            Create(paths.reports_path(state.id)),
            Create(paths.acts_path(state.id)),
            Set(paths.ROLLOUTS, encode({"current": state.id})),
        )

    def record(self, state: RolloutState, stop: Stop | None = None) -> None:
        """Replace the rollout's state; with a ``stop`` the cluster version becomes null in the same moment.

        Not where it is another revision than the rollout's. Raises ``ConflictError`` if it changes just now, and
        if operators asked for something that ``world`` did not tell.
        """
        self._commit(
            "record",
            self._replacing(state),
            *(() if self._acts is None else (self._acts,)),
            *(() if stop is None else self._stopping(state, stop)),
        )

    def grant(self, state: RolloutState, wanted: Mapping[str, Grant]) -> None:
        """Make the grants what they should be, in batches."""
        published_state = self._standing_grants(state.id)
        changes = [host for host, grant in wanted.items() if published_state.get(host) != grant]
        gone = [host for host in published_state if host not in wanted]
        for start in range(0, len(changes) + len(gone), _BATCH):
            batch = (changes + gone)[start : start + _BATCH]
            self._commit("grant", *self._granting(state.id, batch, wanted, published_state))
            for host in batch:
                if host in wanted:
                    published_state[host] = wanted[host]
                else:
                    del published_state[host]

    def tidy(self, current: str) -> None:
        """Remove what is below the rollouts that are over, and those that the history does not know any more."""
        names = [name for name in self._session.children(paths.ROLLOUTS) or () if name != current]
        _, below = self._session.look([], [paths.rollout_path(name) for name in names])
        kept = paths.sequences(self._session.children(paths.HISTORY) or ())
        for name, places in zip(names, below, strict=True):
            path = paths.rollout_path(name)
            for place in places or ():
                self._clear(f"{path}/{place}")
            if name.partition("-")[0] not in map(str, kept):
                self._commit("tidy", Delete(path))

    # Reading

    def _read_state(self, rollout: str | None, sequence: int) -> RolloutState | None:
        """Read the newest rollout; one of an earlier publication that makes no sense is in nobody's way."""
        if rollout is None:
            return None
        node = self._session.get(paths.rollout_path(rollout))
        if node is None:
            return None
        if self._known is None or self._known[0] != node.data:  # else it is what we last read or wrote
            try:
                self._known = node.data, rollouts.decode_state(node.data)
            except ZkdeploymentError as error:
                if rollout.startswith(f"{sequence}-"):
                    raise
                if self._unreadable != rollout:
                    get_logger().warning("rollout-unreadable", rollout=rollout, reason=str(error))
                self._unreadable = rollout
                return None
        self._version = node.version
        return self._known[1]

    def _standing_grants(self, rollout: str) -> dict[str, Grant]:
        if self._granted is None or self._granted[0] != rollout:
            above = paths.grants_path(rollout)
            names = self._session.children(above) or ()
            nodes = self._session.get_many(f"{above}/{name}" for name in names)
            found = {
                unquote(name): rollouts.decode_grant(node)
                for name, node in zip(names, nodes, strict=True)
                if node is not None
            }
            self._granted = rollout, found
        return self._granted[1]

    # Writing

    def _commit(self, place: str, *operations: Operation) -> None:
        """Write as the leader, or raise ``LockLostError`` if that is somebody else."""
        if self._seat is None:
            raise LockLostError("this coordinator does not lead")
        self._reach(f"before:{place}")
        try:
            self._session.commit(Check(self._seat, 0), *operations)
        except ZkdeploymentError as error:
            self._granted = None  # what was written of it is not known
            if isinstance(error, TransactionError) and error.path == self._seat:
                raise LockLostError("this coordinator does not lead any more: its session was over") from error
            raise
        self._reach(f"after:{place}")

    def _replacing(self, state: RolloutState) -> Operation:
        self._known = rollouts.encode_state(state), state
        return Set(paths.rollout_path(state.id), self._known[0], self._version)

    def _stopping(self, state: RolloutState, stop: Stop) -> Iterator[Operation]:
        # Whoever resumes may be faster than we, or our successor, with taking the grants back.
        yield Set(paths.ROLLOUTS, encode({"current": state.id, "over": True}))
        node = self._session.get(paths.HOSTS)
        if node is None:
            return
        cluster = Cluster.from_properties(node.properties)
        if cluster.version in {state.revision, False, None}:
            yield Set(paths.HOSTS, encode(node.properties | {"version": None}), node.version)
            yield from recording_stop(self._session, stop)

    def _granting(
        self, rollout: str, hosts: Sequence[str], wanted: Mapping[str, Grant], published_state: Mapping[str, Grant]
    ) -> Iterator[Operation]:
        for host in hosts:
            path = paths.grant_path(rollout, host)
            if host not in wanted:
                yield Delete(path)
            elif host in published_state:
                yield Set(path, rollouts.encode_grant(wanted[host]))
            else:
                yield Create(path, rollouts.encode_grant(wanted[host]))

    def _clear(self, path: str) -> None:
        names = self._session.children(path) or ()
        for start in range(0, len(names), _BATCH):
            self._commit("tidy", *(Delete(f"{path}/{name}") for name in names[start : start + _BATCH]))
        self._commit("tidy", Delete(path))

    def _wake(self, _event: object) -> None:
        self._changed()


def _has(revision: Revision, host: Host) -> bool:
    return host.has(revision) and host.error is None
