"""Reads the state of the fleet and its past, for operators' commands and the monitor."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.agent.store.role_locks import read_out_of_service
from zkdeployment.base.host import Host
from zkdeployment.fleet.daemon_failures import read_failures
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.fleet.views.instances import NO_SERVICES, ServicesSnapshot, paths_of_services
from zkdeployment.fleet.views.snapshot import FleetSnapshot, completed_revisions
from zkdeployment.fleet.views.status import undecided_hosts
from zkdeployment.publishing.store.assignments import KeptTargets, read_left, read_targets, read_withheld
from zkdeployment.publishing.store.cluster import (
    cluster_of,
    decode_published,
    published_revision,
    read_group_stops,
    read_output,
    read_outputs,
    read_stops,
)
from zkdeployment.publishing.store.documents import read_published_documents, read_strategy
from zkdeployment.publishing.store.history import publication_of, read_history
from zkdeployment.publishing.store.hosts import known_ids, read_inventories
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.publishing.store.maintenance import read_maintenance
from zkdeployment.publishing.store.requests import (
    current_refusal,
    disappeared_of,
    read_refusals,
    read_report,
    request_of,
)
from zkdeployment.publishing.store.service_order import read_unfinished
from zkdeployment.strategies.store.records import read_leader, read_rollout
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zkdeployment.base.act import Act, Maintenance
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.publication import LeftService, Published, Targets
    from zkdeployment.base.stop import FailureOutput
    from zkdeployment.documents.collection import PublishedDocuments
    from zkdeployment.publishing.records import PublicationRecord, Refusal, SyncerReport
    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.strategies.strategy import Strategy
    from zkdeployment.zookeeper.session import Session


class ZooKeeperFleetReader:
    """The state of the fleet and its past, through one session.

    Inventories of absent hosts are read once and kept: they do not change while their hosts are absent.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._absent_hosts: dict[str, KnownHost] = {}
        self._targets = KeptTargets()
        self._completed: dict[int, PublicationRecord | None] = {}

    def snapshot(self) -> FleetSnapshot:
        """Read the state of the fleet: registered and absent hosts, stops, requests, and the rollout."""
        host_paths = [f"{paths.HOSTS}/{name}" for name in self._session.children(paths.HOSTS) or ()]
        registered = {path.rpartition("/")[2] for path in host_paths}
        cluster_node, targets, request, refusals, syncer, *host_nodes = self._session.get_many(
            [paths.HOSTS, paths.TARGETS, paths.REQUEST, paths.REFUSALS, paths.SYNCER, *host_paths]
        )
        cluster = None if cluster_node is None else cluster_of(cluster_node)
        last = decode_published(targets)
        absent = self._absent(known_ids(self._session) - registered)
        publication = self._read_completed(last.sequence, absent)
        return FleetSnapshot(
            cluster=cluster,
            published=published_revision(targets),
            publication=publication,
            disappeared=disappeared_of(syncer),
            completed=completed_revisions(absent, self._completed.get),
            since=last.effective_since,
            refusal=current_refusal(refusals),
            changed=None if cluster_node is None else cluster_node.modified,
            hosts=tuple(
                Host.from_properties(
                    path.rpartition("/")[2], node.properties, since=node.modified, registered=node.created
                )
                for path, node in zip(host_paths, host_nodes, strict=True)
                if node is not None
            ),
            stops=read_stops(self._session),
            request=None if request is None else request_of(request),
            absent=absent,
            out_of_service=read_out_of_service(self._session),
            targets=frozenset(map(unquote, self._session.children(paths.TARGETS) or ())),
            strategy=last.strategy,
            governed=last.governs(cluster),
            rollout=None if last.strategy is None else read_rollout(self._session, last.effective_since),
            coordinator=None if last.strategy is None else read_leader(self._session),
            failures=read_failures(self._session),
            group_stops=read_group_stops(self._session),
            maintenance=read_maintenance(self._session, time.time()),
        )

    def _absent(self, host_ids: frozenset[str]) -> tuple[KnownHost, ...]:
        """Return the inventories of these absent hosts; inventories that were read before are not read again."""
        new = read_inventories(self._session, host_ids - self._absent_hosts.keys())
        known = {**self._absent_hosts, **{host.identity.id: host for host in new}}
        self._absent_hosts = {host_id: known[host_id] for host_id in sorted(host_ids) if host_id in known}
        return tuple(self._absent_hosts.values())

    def _read_completed(self, last: int, absent: Iterable[KnownHost]) -> PublicationRecord | None:
        """Return the record of the ``last`` publication; read those that absent hosts completed once."""
        missing = sorted(
            {host.completed for host in absent if host.completed is not None} - self._completed.keys()
        )
        nodes = self._session.get_many(map(paths.history_path, [last, *missing]))
        publication, *completed = (None if node is None else publication_of(node) for node in nodes)
        self._completed.update(zip(missing, completed, strict=True))
        return publication

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) whenever the cluster version may have changed."""
        self._session.watch(paths.HOSTS, changed)

    def maintenance(self, now: float) -> Mapping[str, Maintenance]:
        """Return the maintenance of hosts in force at ``now``, in seconds since the epoch, by host id."""
        return read_maintenance(self._session, now)

    def history(self, last: int | None = None) -> tuple[PublicationRecord, ...]:
        """Return the records of the ``last`` publications (``None``: all that are kept), newest first."""
        return read_history(self._session, last)

    def published(self) -> Published:
        """Return the record of the last publication."""
        (targets, managed), (tops,) = self._session.look([paths.TARGETS, paths.MANAGED], ["/"])
        return decode_published(targets, managed, tops or ())

    def known_hosts(self) -> tuple[KnownHost, ...]:
        """Return the inventories of all known hosts, absent ones included."""
        return read_inventories(self._session)

    def known_host(self, host_id: str) -> KnownHost | None:
        """Return the inventory of a host; ``None`` if the host never published one."""
        return next(iter(read_inventories(self._session, [host_id])), None)

    def acts(self) -> tuple[Act, ...]:
        """Return the recorded acts of operators, oldest first."""
        return read_acts(self._session)

    def targets(self) -> Targets:
        """Return the targets of the last publication, by name."""
        return read_targets(self._session, self._session.children(paths.TARGETS) or ())

    def services(self, snapshot: FleetSnapshot) -> ServicesSnapshot:
        """Read the services of a snapshot with their registered instances, and the inventories that this needs.

        Nothing is known about services if another revision was published after the snapshot: no host has begun it.
        """
        parent = self._session.get(paths.TARGETS)
        if published_revision(parent) != snapshot.published:
            return NO_SERVICES
        targets = self._targets.read_valid(self._session, parent)
        providers = ZooKeeperLiveTree(self._session).providers(paths_of_services(targets, ""))
        services = ServicesSnapshot(targets, providers)
        return services.with_inventories(read_inventories(self._session, undecided_hosts(snapshot, services)))

    def syncer_report(self) -> SyncerReport | None:
        """Return the last report of a syncer that follows the branch; ``None`` if no syncer ever reported."""
        return read_report(self._session)

    def unfinished_gains(self, sequence: int) -> Mapping[str, frozenset[str]]:
        """Read the hosts that gain a service in a publication and still lack it, by the service's path."""
        names = self._session.children(paths.order_path(sequence)) or ()
        return read_unfinished(self._session, sequence, names)

    def failure_output(self, host_id: str) -> FailureOutput | None:
        """Return the end of the output of the script with which a host failed last, if it is kept."""
        return read_output(self._session, host_id)

    def failure_outputs(self) -> tuple[FailureOutput, ...]:
        """Return the kept outputs of all failed hosts, oldest first."""
        return read_outputs(self._session)

    def refusals(self) -> tuple[Refusal, ...]:
        """Return the recorded refusals of tips, oldest first: at most one for each revision."""
        return read_refusals(self._session)

    def strategy(self) -> Strategy | None:
        """Return the published strategy, if there is one; raises ``TreeError`` if it cannot be read."""
        return read_strategy(self._session)

    def withheld(self) -> frozenset[ServiceTarget]:
        """Return the services and targets that are not deployed because of the state of their intents."""
        return read_withheld(self._session)

    def left(self) -> tuple[LeftService, ...]:
        """Return the services that left the governance of their intents, and stay as published."""
        return read_left(self._session)

    def documents(self) -> PublishedDocuments:
        """Return the published documents."""
        return read_published_documents(self._session)
