"""The order between services in ZooKeeper: agents join it, record their deployments, and wait for others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from zkdeployment.agent.rules.waiting import OrderProgress, is_finished, undeployable_hosts
from zkdeployment.base.errors import ConflictError
from zkdeployment.base.host import Host
from zkdeployment.base.publication import OrderEntry
from zkdeployment.publishing.store.cluster import decode_published
from zkdeployment.publishing.store.service_order import decode_entry, encode_entry
from zkdeployment.strategies.store.agent_records import read_outline
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import QueueWatch
from zkdeployment.zookeeper.transactions import Create, Set

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.base.publication import Published
    from zkdeployment.zookeeper.session import Session


#: The number of attempts to write while other processes write to the same node.
_ATTEMPTS = 50


def read_entries(session: Session, sequence: int, services: Collection[str]) -> dict[str, OrderEntry]:
    """Return the entries of these services in a publication, by path; only awaited services have entries.

    Raises ``ConflictError`` if a later publication changed something for hosts, so that entries may be missing.
    """
    names = sorted(services)
    *nodes, targets = session.get_many([*(paths.awaited_path(sequence, name) for name in names), paths.TARGETS])
    check_current(decode_published(targets), sequence)  # read last, because it changes before entries are removed
    return {name: decode_entry(node)[0] for name, node in zip(names, nodes, strict=True) if node is not None}


def check_current(published: Published, sequence: int) -> None:
    """Raise ``ConflictError`` if the order of a publication is no longer that of the last publication."""
    if published.effective_since > sequence:
        raise ConflictError(
            f"publication {sequence} is superseded by {published.effective_since}: the host plans again"
        )


def join(session: Session, sequence: int, service: str, host_id: str) -> None:
    """Add a host to those that are expected to deploy a service, if a host still waits for the service."""
    path = paths.awaited_path(sequence, service)
    for _ in range(_ATTEMPTS):
        node = session.get(path)
        entry, is_complete = (OrderEntry(), True) if node is None else decode_entry(node)
        if node is None or is_complete or host_id in entry.hosts:
            return
        try:
            session.commit(Set(path, encode_entry(entry.with_host(host_id)), node.version))
        except ConflictError:
            continue
        return
    raise ConflictError(
        f"cannot add this host to {path}: other hosts changed it during each of {_ATTEMPTS} attempts"
    )


def finish(session: Session, sequence: int, service: str, host_id: str) -> None:
    """Record that a host has deployed a service; the last expected host wakes the hosts that wait for it."""
    path = paths.awaited_path(sequence, service)
    mine = f"{path}/{quote(host_id, safe='')}"
    for _ in range(_ATTEMPTS):
        node, recorded = session.get_many([path, mine])
        if node is None:
            return
        try:
            if recorded is None:
                session.commit(Create(mine))
            else:
                entry, is_complete = decode_entry(node)
                if not is_complete and node.children >= len(entry.hosts):
                    session.commit(Set(path, encode_entry(entry, is_complete=True), node.version))
                return
        except ConflictError:
            continue
    raise ConflictError(f"cannot write {mine}: other hosts changed {path} during each of {_ATTEMPTS} attempts")


#: The most unfinished hosts whose failures and publications are examined for one snapshot of the progress.
_EXAMINED = 20

#: Reading the node of one host costs about as much as reading the names of this many registered hosts.
_NAMES_OF_A_NODE = 20


#: The reason why a host that has the publication will not deploy one of its services.
_LACKING = "the deployment intent group of the service is stopped"


class ZooKeeperAwaitedService:
    """The progress of one service in one publication, read through one session."""

    def __init__(self, session: Session, sequence: int, service: str) -> None:
        self._session = session
        self._sequence = sequence
        self._service = service
        self._path = paths.awaited_path(sequence, service)
        self._watch = QueueWatch(session)

    @property
    def is_unchanged(self) -> bool:
        """Whether no host has completed or joined the service since the last snapshot; sends no request."""
        return self._watch.is_active

    def progress(self) -> OrderProgress:
        """Read a snapshot.

        Raises ``ConflictError`` if the entry is missing because a later publication changed something for hosts.
        The number of reads grows with the number of unfinished hosts, not with the fleet. Waiting hosts are woken
        if the snapshot shows that they no longer need to wait.
        """
        if not self._watch.is_active:
            self._watch.set(self._path, self._session.id)
        (node, fleet), (finished,) = self._session.look([self._path, paths.HOSTS], [self._path])
        if node is None:
            check_current(decode_published(self._session.get(paths.TARGETS)), self._sequence)
            return OrderProgress(OrderEntry(), is_lost=True)
        entry, is_complete = decode_entry(node)
        if is_complete:
            return OrderProgress(entry, frozenset(entry.hosts))
        progress = OrderProgress(entry, frozenset(map(unquote, finished or ())))
        missing = [name for name in entry.hosts if name not in progress.finished]
        if missing:
            progress = self._examined(progress, missing, 0 if fleet is None else fleet.children)
        if is_finished(progress):
            self._complete(entry, node.version)
        return progress

    def wait(self, seconds: float) -> None:
        """Wait until the service changes, at most ``seconds``."""
        self._watch.wait(seconds)

    def _examined(self, progress: OrderProgress, missing: Sequence[str], fleet: int) -> OrderProgress:
        """Return the progress with the registered ones among the ``missing`` hosts, and their known results.

        A host that has the publication has deployed the service, even if its agent did not record that. ``fleet``
        is the number of registered hosts.
        """
        registered, hosts = self._registered(missing, fleet)
        reached = [host for host in hosts if host.has_reached(self._sequence)]
        lacking = {host.identity.id: _LACKING for host in reached if host.lacks(self._service)}
        have = {host.identity.id for host in reached} - lacking.keys()
        for name in sorted(have):
            finish(self._session, self._sequence, self._service, name)
        rollout = read_outline(self._session, self._sequence)
        not_judged = have.union(registered[_EXAMINED:])
        judged = [name for name in missing if name not in not_judged]
        return replace(
            progress,
            finished=progress.finished | have,
            registered=frozenset(registered),
            names={host.identity.id: host.identity.name for host in hosts},
            failed=lacking | ({} if rollout is None else undeployable_hosts(rollout, judged)),
        )

    def _registered(self, missing: Sequence[str], fleet: int) -> tuple[list[str], list[Host]]:
        """Return the ids of those of the ``missing`` hosts that are registered, and the first of these hosts.

        The nodes of a few hosts are read. For many hosts, the names of all registered hosts are read first.
        """
        if len(missing) > _EXAMINED + fleet // _NAMES_OF_A_NODE:
            names = {*(self._session.children(paths.HOSTS) or ())}
            registered = [name for name in missing if name in names]
            return registered, self._read(registered[:_EXAMINED])
        hosts = self._read(missing)
        return [host.identity.id for host in hosts], hosts[:_EXAMINED]

    def _read(self, names: Sequence[str]) -> list[Host]:
        nodes = self._session.get_many(f"{paths.HOSTS}/{name}" for name in names)
        return [
            Host.from_properties(name, node.properties)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        ]

    def _complete(self, entry: OrderEntry, version: int) -> None:
        """Wake all waiting hosts, after a deployment that its agent could not record."""
        try:
            self._session.commit(Set(self._path, encode_entry(entry, is_complete=True), version))
        except ConflictError:
            return  # another host completed the entry, or joined it: the next snapshot shows which
