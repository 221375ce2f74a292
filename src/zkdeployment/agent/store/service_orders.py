"""The order between services in ZooKeeper: agents join it, record their deployments, and wait for others."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from zkdeployment.agent.rules.waiting import OrderProgress, is_finished, undeployable_hosts
from zkdeployment.base.errors import ConflictError
from zkdeployment.base.host import Host
from zkdeployment.base.publication import OrderEntry
from zkdeployment.publishing.store.cluster import decode_published, read_maintenance
from zkdeployment.publishing.store.reboots import read_reboots
from zkdeployment.publishing.store.service_order import decode_entry, encode_entry
from zkdeployment.strategies.store.agent_records import read_outline
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import QueueWatch
from zkdeployment.zookeeper.transactions import Create, Operation, Set, commit_afresh

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


class PublicationOrder:
    """The order between the services of the publication ``sequence``, as one host takes part in it."""

    def __init__(self, session: Session, sequence: int) -> None:
        self.session = session
        self.sequence = sequence

    def entries(self, services: Collection[str]) -> dict[str, OrderEntry]:
        """Read the entries of these services, by path; only services for which a deployment waits have entries.

        Raises ``ConflictError`` if a later publication changed something for hosts: entries may be missing.
        """
        names = sorted(services)
        *nodes, targets = self.session.get_many([*map(self.path, names), paths.TARGETS])
        self.check_current(targets)  # read last, because it changes before entries are removed
        return {name: decode_entry(node)[0] for name, node in zip(names, nodes, strict=True) if node is not None}

    def check_current(self, targets: Node | None) -> None:
        """Raise ``ConflictError`` if the order is no longer that of the last publication."""
        published = decode_published(targets)
        if published.effective_since > self.sequence:
            raise ConflictError(
                f"publication {self.sequence} is superseded by {published.effective_since}: the host plans again"
            )

    def join(self, service: str, host_id: str) -> None:
        """Add a host to those that are expected to deploy a service, if a host still waits for the service."""
        path = self.path(service)

        def make() -> list[Operation] | None:
            node = self.session.get(path)
            entry, is_complete = (OrderEntry(), True) if node is None else decode_entry(node)
            if node is None or is_complete or host_id in entry.hosts:
                return None
            return [Set(path, encode_entry(entry.with_host(host_id)), node.version)]

        commit_afresh(self.session, make, f"add this host to {path}")

    def finish(self, service: str, host_id: str) -> None:
        """Record once that a host has deployed a service, if a deployment waits for the service.

        The last expected host wakes the hosts that wait for it.
        """
        path = self.path(service)
        mine = f"{path}/{quote(host_id, safe='')}"

        def record() -> list[Operation] | None:
            node, recorded = self.session.get_many([path, mine])
            return None if node is None or recorded is not None else [Create(mine)]

        def complete() -> list[Operation] | None:
            node = self.session.get(path)
            entry, is_complete = (OrderEntry(), True) if node is None else decode_entry(node)
            if node is None or is_complete or node.children < len(entry.hosts):
                return None
            return [Set(path, encode_entry(entry, is_complete=True), node.version)]

        for make in (record, complete):
            commit_afresh(self.session, make, f"write {mine}")

    def path(self, service: str) -> str:
        """Return the path of the entry of a service."""
        return paths.awaited_path(self.sequence, service)


#: The most unfinished hosts whose failures and publications are examined for one snapshot of the progress.
_EXAMINED = 20

#: Reading the node of one host costs about as much as reading the names of this many registered hosts.
_NAMES_OF_A_NODE = 20


#: The reason why a host that has the publication will not deploy one of its services.
_LACKING = "the deployment intent group of the service is stopped"


class ZooKeeperAwaitedService:
    """The progress of one service in the order of one publication."""

    def __init__(self, order: PublicationOrder, service: str) -> None:
        self._order = order
        self._session = order.session
        self._service = service
        self._path = order.path(service)
        self._watch = QueueWatch(order.session)

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
            self._order.check_current(self._session.get(paths.TARGETS))
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

        No host waits for a host in maintenance, which counts as not registered. A host that is expected back from
        a reboot counts as registered. A host that has the publication has deployed the service, even if its agent
        did not record that. ``fleet`` is the number of registered hosts.
        """
        registered, hosts = self._registered(missing, fleet)
        maintenance = read_maintenance(self._session, time.time())
        away = set(missing) - set(registered)
        rebooting = (
            {record.host_id for record in read_reboots(self._session) if not record.expired} if away else ()
        )
        registered = [
            name for name in (*registered, *sorted(away.intersection(rebooting))) if name not in maintenance
        ]
        reached = [host for host in hosts if host.has_reached(self._order.sequence)]
        lacking = {host.identity.id: _LACKING for host in reached if host.lacks(self._service)}
        have = {host.identity.id for host in reached} - lacking.keys()
        for name in sorted(have):
            self._order.finish(self._service, name)
        rollout = read_outline(self._session, self._order.sequence)
        not_judged = have.union(registered[_EXAMINED:])
        judged = [name for name in missing if name not in not_judged]
        failed = {} if rollout is None else undeployable_hosts(rollout, judged)
        # Hosts that failed after the finished hosts had been read may have finished this service before.
        finished = self._session.children(self._path) if failed else ()
        have.update(map(unquote, finished or ()))
        return replace(
            progress,
            finished=progress.finished | have,
            registered=frozenset(registered),
            names={host.identity.id: host.identity.name for host in hosts},
            failed={name: why for name, why in {**lacking, **failed}.items() if name not in have},
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
