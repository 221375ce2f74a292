"""The coordinator's side of the records of rollouts: the lead, observed hosts, and grants.

The state of the newest rollout and the grants are read and written here, and the facts for decisions
are read. The encoding of nodes belongs to ``strategies.store.records``. An agent reads the grant of its own host
with ``agent.reporting``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.base.cluster import ClusterEvent, Revision
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.host import RESTART, Facts, Host, is_host_name
from zkdeployment.base.log import get_logger
from zkdeployment.publishing.store.cluster import (
    changing_cluster,
    cluster_of,
    decode_published,
    read_maintenance,
    recording_stop,
)
from zkdeployment.publishing.store.documents import read_strategy
from zkdeployment.publishing.store.hosts import known_ids, read_inventories
from zkdeployment.publishing.store.reboots import expire_reboots, read_reboots
from zkdeployment.strategies.criteria import proving as proving_hosts
from zkdeployment.strategies.permission import Grant, Phase, without_hosts
from zkdeployment.strategies.state import RolloutFacts, RolloutSnapshot, RolloutState
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.store import records
from zkdeployment.strategies.store.agent_records import current_id, decode_grant, encode_grant
from zkdeployment.strategies.store.records import FencedLead, batches, read_new_acts
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.transactions import Check, Create, Delete, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from zkdeployment.base.stop import Stop
    from zkdeployment.strategies.strategy import Strategy
    from zkdeployment.zookeeper.session import Session


class PublishedGrants:
    """The grants of the newest rollout, with a copy of the nodes so that only differences are written."""

    def __init__(self, session: Session, lead: FencedLead) -> None:
        self._session = session
        self._lead = lead
        self._copy: tuple[str, dict[str, Grant]] | None = None

    def forget(self) -> None:
        """Read the nodes again before the next change: another coordinator may have written them."""
        self._copy = None

    def publish(self, rollout_id: str, wanted: Mapping[str, Grant]) -> None:
        """Create, replace and delete nodes until the grants of a rollout are the wanted ones."""
        published = self._read(rollout_id)
        changed = [host for host, grant in wanted.items() if published.get(host) != grant]
        withdrawn = [host for host in published if host not in wanted]
        for hosts in batches(changed + withdrawn):
            operations = [_operation(rollout_id, host, published, wanted) for host in hosts]
            try:
                self._lead.commit("grant", *operations)
            except ZkdeploymentError:
                self.forget()  # it is unknown whether the transaction was committed
                raise
            for host in hosts:
                if host in wanted:
                    published[host] = wanted[host]
                else:
                    del published[host]

    def _read(self, rollout_id: str) -> dict[str, Grant]:
        if self._copy is None or self._copy[0] != rollout_id:
            directory = paths.grants_path(rollout_id)
            names = self._session.children(directory) or ()
            nodes = self._session.get_many(f"{directory}/{name}" for name in names)
            grants = {
                unquote(name): decode_grant(node)
                for name, node in zip(names, nodes, strict=True)
                if node is not None
            }
            self._copy = rollout_id, grants
        return self._copy[1]


def _operation(
    rollout_id: str, host: str, published: Mapping[str, Grant], wanted: Mapping[str, Grant]
) -> Operation:
    path = paths.grant_path(rollout_id, host)
    if host not in wanted:
        return Delete(path)
    data = encode_grant(wanted[host])
    return Set(path, data) if host in published else Create(path, data)


#: Seconds after which the copies of all registered hosts are read again.
_KEPT = 60.0


class HostRegistry:
    """The registered hosts, read through one session; ``changed`` is called when hosts register or leave.

    A host's node is read when the host registers. Thousands of hosts write to their nodes all the time, so later
    changes are read only on request, and once a minute for hosts that need another grant. ``left_at`` maps the
    hosts that deregistered within the last ``RESTART`` seconds to the time of that, in seconds since the epoch.
    ``facts`` maps the registered hosts to their facts.
    """

    def __init__(self, session: Session, changed: Callable[[object], None]) -> None:
        self._session = session
        self._changed = changed
        self._hosts: dict[str, Host] = {}
        self._read_at = -math.inf
        self.left_at: Mapping[str, float] = {}
        self.facts: Mapping[str, Facts] = {}

    def expire(self) -> None:
        """Let the next call read all hosts again: the copies are from an earlier lead and may be outdated."""
        self._read_at = -math.inf

    def registered(self, now: float) -> Mapping[str, Host]:
        """Return the registered hosts by id, as of their registration, the last ``refresh`` or the last minute."""
        names = self._session.children(paths.HOSTS, self._changed) or ()
        is_due = not 0 <= now - self._read_at < _KEPT  # a clock that was set back renews the copies, too
        known = {} if is_due else self._hosts
        new = self.read(name for name in names if name not in known)
        if is_due:
            self._read_at = now
        gone = self.left_at.keys() | self._hosts.keys()
        self._hosts = {name: host for name in names if (host := known.get(name) or new.get(name)) is not None}
        gone -= self._hosts.keys()
        self.left_at = {name: since for name in gone if now - (since := self.left_at.get(name, now)) < RESTART}
        facts = {**self.facts, **{name: host.facts for name, host in new.items()}}
        self.facts = {name: facts[name] for name in self._hosts}
        return self._hosts

    def read(self, host_ids: Iterable[str]) -> dict[str, Host]:
        """Return the current content of hosts' nodes, without updating the registry."""
        names = list(host_ids)
        nodes = self._session.get_many(f"{paths.HOSTS}/{name}" for name in names)
        return {
            name: Host.from_properties(name, node.properties)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }

    def refresh(self, host_ids: Iterable[str]) -> dict[str, Host]:
        """Return the current content of hosts' nodes and keep it in the registry."""
        hosts = self.read(host_ids)
        self._hosts |= hosts
        self.facts = {**self.facts, **{name: host.facts for name, host in hosts.items()}}
        return hosts

    def absent(self, registered: Collection[Host]) -> dict[str, Facts]:
        """Return the facts of known hosts that are not registered, and of host names that are only targets."""
        ids = {host.identity.id for host in registered}
        away = read_inventories(self._session, known_ids(self._session) - ids)
        identities = [host.identity for host in registered] + [inventory.identity for inventory in away]
        known = {name for identity in identities for name in identity.target_names}
        targets = map(unquote, self._session.children(paths.TARGETS) or ())
        unknown = {name for name in targets if is_host_name(name) and name not in known}
        facts = {inventory.identity.id: inventory.facts for inventory in away}
        return facts | dict.fromkeys(sorted(unknown), Facts())


def remove_old_rollouts(session: Session, lead: FencedLead, current: str) -> None:
    """Remove grants, reports and acts of all rollouts but the current one, and states older than the history."""
    names = [name for name in session.children(paths.ROLLOUTS) or () if name != current]
    _, children = session.look([], [paths.rollout_path(name) for name in names])
    kept = {str(sequence) for sequence in paths.sequences(session.children(paths.HISTORY) or ())}
    for name, directories in zip(names, children, strict=True):
        path = paths.rollout_path(name)
        for directory in directories or ():
            _remove(session, lead, f"{path}/{directory}")
        if name.partition("-")[0] not in kept:
            lead.commit("tidy", Delete(path))


def _remove(session: Session, lead: FencedLead, directory: str) -> None:
    names = session.children(directory) or ()
    lead.commit_in_batches("tidy", (Delete(f"{directory}/{name}") for name in names))
    lead.commit("tidy", Delete(directory))


class ZooKeeperRollouts:
    """The records of rollouts through one session.

    Each method raises ``UnreachableError`` if ZooKeeper does not answer. Only the leading coordinator can write;
    writes of any other raise ``LockLostError``.

    ``changed`` (which must not block) is called when something changed that the coordinator read.
    """

    def __init__(self, session: Session, lead: FencedLead, changed: Callable[[], None]) -> None:
        self._session = session
        self._changed = changed
        self.lead = lead
        self._grants = PublishedGrants(session, lead)
        self._registry = HostRegistry(session, self._wake)
        self._cached: tuple[bytes, RolloutState] | None = None
        self._unreadable: str | None = None
        self._guard: tuple[Check, ...] = ()
        self._watching = False

    def forget(self) -> None:
        """Read grants and hosts again: another coordinator may have led in between."""
        self._grants.forget()
        self._registry.expire()

    # Reading

    def snapshot(self) -> RolloutSnapshot:
        """Return the published revision and the newest rollout; each later change of either wakes the caller."""
        if not self._watching:
            self._session.watch(paths.HOSTS, self._changed)
            self._session.watch(paths.TARGETS, self._changed)
            self._watching = True
        self._guard = ()
        hosts, targets, rollouts = self._session.get_many([paths.HOSTS, paths.TARGETS, paths.ROLLOUTS])
        publication = decode_published(targets)
        return RolloutSnapshot(
            cluster=None if hosts is None else cluster_of(hosts),
            published=publication,
            state=self._read_state(current_id(rollouts), publication.effective_since),
        )

    def strategy(self) -> Strategy | None:
        """Return the published strategy; raises ``TreeError`` if it cannot be read."""
        return read_strategy(self._session)

    def first_facts(self, revision: Revision, *, now: float) -> RolloutFacts:
        """Return all registered and absent hosts, freshly read, before a rollout of ``revision`` begins."""
        self._registry.expire()
        hosts = self._registry.registered(now)
        maintenance = self._maintenance(now)
        away = {name: facts for name, facts in self._registry.facts.items() if name in maintenance}
        return RolloutFacts(
            now=now,
            present=without_hosts(self._registry.facts, maintenance),
            absent={**self._registry.absent(hosts.values()), **away},
            left_at=without_hosts(self._registry.left_at, maintenance),
            maintenance=maintenance,
            rebooting=self._rebooting(),
            current=frozenset(name for name, host in hosts.items() if _is_current(host, revision)),
        )

    def facts(self, snapshot: RolloutSnapshot, state: RolloutState, *, now: float) -> RolloutFacts:
        """Return the hosts, the awaited reports and the new acts of a rollout; their next change wakes."""
        hosts = self._registry.registered(now)
        maintenance = self._maintenance(now)
        acts, self._guard = read_new_acts(self._session, state, self._wake)
        proving = self._registry.read(proving_hosts(state))
        return RolloutFacts(
            now=now,
            halt=""
            if snapshot.active
            else f"the fleet is stopped or held, or its version is not {state.revision}",
            present=without_hosts(self._registry.facts, maintenance),
            maintenance=maintenance,
            rebooting=self._rebooting(),
            current=frozenset(
                name
                for name, host in hosts.items()
                if name not in state.rollout.hosts and _has_published(host, state) and host.error is None
            ),
            outdated=self._outdated(state, hosts) if snapshot.active else frozenset(),
            failing=frozenset(name for name, host in proving.items() if _has_lost(host, state) or host.error),
            reports=records.read_reports(self._session, state, self._wake),
            acts=acts,
        )

    def expire_reboots(self, now: float) -> None:
        """Report the hosts that did not come back from their reboots in time."""
        expire_reboots(self._session, now)

    def _rebooting(self) -> frozenset[str]:
        """Return the ids of the hosts that are expected back from a reboot."""
        return frozenset(record.host_id for record in read_reboots(self._session) if not record.expired)

    def _maintenance(self, now: float) -> frozenset[str]:
        """Return the ids of the hosts in maintenance; another one, or the end of one, wakes the caller."""
        names = self._session.children(paths.MAINTENANCE, self._wake) or ()
        return frozenset(read_maintenance(self._session, now, names))

    def _outdated(self, state: RolloutState, hosts: Mapping[str, Host]) -> frozenset[str]:
        """Return the hosts that succeeded, no longer have the revision, and need a grant.

        The registry's copy of a host is usually older than its deployment; such hosts are read again once. A host
        that had the revision before this publication is read again until it has reached the publication: if that
        changes something for the host, the host gives the revision up and waits for a grant.
        """
        doubtful = [
            name
            for name, host in hosts.items()
            if state.rollout.hosts.get(name) is HostProgress.SUCCESS and not host.has_reached(state.sequence)
        ]
        fresh = self._registry.refresh(doubtful)
        return frozenset(name for name, host in fresh.items() if _has_lost(host, state))

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
        self.lead.commit(
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
        ``facts`` has not returned.
        """
        self.lead.commit(
            "record",
            self._replacing(state),
            *self._guard,
            *(() if stop is None else self._stopping(state, stop)),
        )

    def clear_reports(self, state: RolloutState, hosts: Collection[str]) -> None:
        """Remove the reports of hosts that start again in a rollout."""
        existing = {*(self._session.children(paths.reports_path(state.id)) or ())}
        reports = [paths.report_path(state.id, phase.value, host) for host in sorted(hosts) for phase in Phase]
        self.lead.commit_in_batches(
            "clear", (Delete(path) for path in reports if path.rpartition("/")[2] in existing)
        )

    def grant(self, state: RolloutState, wanted: Mapping[str, Grant]) -> None:
        """Make the published grants of a rollout equal to the wanted ones."""
        self._grants.publish(state.id, wanted)

    def tidy(self, current: str) -> None:
        """Remove the records of all rollouts but the current one, except for the final states in the history."""
        remove_old_rollouts(self._session, self.lead, current)

    def _replacing(self, state: RolloutState) -> Operation:
        self._cached = records.encode_state(state), state
        return Set(paths.rollout_path(state.id), self._cached[0], self._version)

    def _stopping(self, state: RolloutState, stop: Stop) -> Iterator[Operation]:
        """Return the operations that stop the fleet, unless hosts already deploy another publication."""
        # An operator may resume the fleet before the grants are withdrawn: "over" makes them void at once.
        yield Set(paths.ROLLOUTS, encode({"current": state.id, "over": True}))
        node, targets = self._session.get_many([paths.HOSTS, paths.TARGETS])
        if node is None:
            return
        cluster, published = cluster_of(node), decode_published(targets)
        if published.is_wanted(cluster, state.revision, state.sequence):
            yield changing_cluster(node, ClusterEvent.STOP)
            yield from recording_stop(self._session, stop)

    def _wake(self, _event: object) -> None:
        self._changed()


def _has_published(host: Host, state: RolloutState) -> bool:
    """Return whether a host completed the rollout's publication, or a later one that changed only documents."""
    return host.has(state.revision) or host.has_reached(state.sequence)


def _has_lost(host: Host, state: RolloutState) -> bool:
    """Return whether a host that succeeded no longer has the rollout's publication, and needs a grant.

    A host that runs the steps that it lacked gives the publication up, but needs no grant, and does not wait.
    """
    return not _has_published(host, state) and (host.is_waiting or not host.lacking)


def _is_current(host: Host, revision: Revision) -> bool:
    """Return whether a host has the revision and reports no error."""
    return host.has(revision) and host.error is None
