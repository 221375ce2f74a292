"""Assembles the snapshot of a fleet, and its services, from nodes: read once, or kept current by watches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.host import Host
from zkdeployment.base.log import get_logger
from zkdeployment.fleet.daemon_failures import failure_of
from zkdeployment.fleet.decisions import used_places
from zkdeployment.fleet.views.instances import NO_SERVICES, ServicesSnapshot, paths_of_services
from zkdeployment.fleet.views.snapshot import FleetSnapshot, completed_revisions
from zkdeployment.fleet.views.status import undecided_hosts
from zkdeployment.publishing.store.cluster import (
    cluster_of,
    decode_published,
    group_stop_of,
    in_force,
    maintenance_of,
    published_revision,
    stop_of,
)
from zkdeployment.publishing.store.history import publication_of
from zkdeployment.publishing.store.hosts import decode as decode_inventory
from zkdeployment.publishing.store.live_tree import providers_path, registered_instances
from zkdeployment.publishing.store.reboots import reboot_of
from zkdeployment.publishing.store.requests import current_refusal, disappeared_of, request_of
from zkdeployment.strategies.store.agent_records import current_id
from zkdeployment.strategies.store.records import decode_state
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import contender, queued
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import DecodedNodes, NodeCopies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.json_values import Properties
    from zkdeployment.base.publication import Published, Targets
    from zkdeployment.publishing.records import PublicationRecord
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.zookeeper.nodes import Node

T = TypeVar("T")

_NODES = (
    paths.HOSTS,
    paths.TARGETS,
    paths.REQUEST,
    paths.ROLLOUTS,
    paths.SYNCER,
    paths.REFUSALS,
)
_LISTS = (
    paths.HOSTS,
    paths.TARGETS,
    paths.STOPS,
    paths.INVENTORY,
    paths.OUT_OF_SERVICE,
    paths.COORDINATORS,
    paths.FAILURES,
    paths.GROUP_STOPS,
    paths.MAINTENANCE,
    paths.REBOOTS,
)

#: The nodes below these are read, too.
_DIRECTORIES = (
    paths.HOSTS,
    paths.STOPS,
    paths.OUT_OF_SERVICE,
    paths.FAILURES,
    paths.GROUP_STOPS,
    paths.MAINTENANCE,
    paths.REBOOTS,
)


class SnapshotAssembly:
    """The snapshot of the fleet in copies of nodes."""

    def __init__(self, nodes: NodeCopies) -> None:
        self._nodes = nodes
        self._decoded = DecodedNodes(nodes)
        self._names: tuple[object, frozenset[str]] = ((), frozenset())
        self._absent: tuple[KnownHost, ...] = ()

    def wanted(self) -> Iterator[Read]:
        """Yield everything that has to be read, as far as the nodes read so far show it."""
        yield from (Read(path) for path in _NODES)
        yield from (Read(path, children=True) for path in _LISTS)
        for directory in _DIRECTORIES:
            yield from (Read(f"{directory}/{name}") for name in self._nodes.children(directory))
        yield from (Read(f"{paths.INVENTORY}/{name}") for name in self._absent_ids())
        completed = {host.completed for host in self._absent_hosts() if host.completed is not None}
        last = decode_published(self._nodes.node(paths.TARGETS)).sequence
        yield from (Read(paths.history_path(sequence)) for sequence in sorted({last, *completed}))
        current = current_id(self._nodes.node(paths.ROLLOUTS))
        if current is not None and "/" not in current:
            yield Read(paths.rollout_path(current))
        yield from (Read(f"{paths.COORDINATORS}/{name}") for name in self._leaders())
        for places in used_places(decode_published(self._nodes.node(paths.TARGETS))):
            yield Read(places.directory(), children=True)
            yield from (Read(f"{places.directory()}/{name}") for name in self._nodes.children(places.directory()))

    def snapshot(self) -> FleetSnapshot:
        """Return the fleet at the moment of the copies; maintenance and reboots are judged at the present time."""
        now = time.time()
        hosts, targets = self._nodes.node(paths.HOSTS), self._nodes.node(paths.TARGETS)
        cluster = None if hosts is None else cluster_of(hosts)
        last = decode_published(targets)
        request = self._nodes.node(paths.REQUEST)
        governed = last.strategy is not None
        absent = self._absent_hosts()
        snapshot = FleetSnapshot(
            cluster=cluster,
            published=published_revision(targets),
            publication=self._publication(last.sequence),
            disappeared=disappeared_of(self._nodes.node(paths.SYNCER)),
            completed=completed_revisions(absent, self._publication),
            since=last.effective_since,
            refusal=current_refusal(self._nodes.node(paths.REFUSALS)),
            changed=None if hosts is None else hosts.modified,
            hosts=self._all(paths.HOSTS, _host),
            stops=self._all(paths.STOPS, stop_of),
            request=None if request is None else request_of(request),
            absent=absent,
            targets=self._target_names(),
            out_of_service=dict(self._all(paths.OUT_OF_SERVICE, _out_of_service)),
            strategy=last.strategy,
            governed=last.governs(cluster),
            rollout=self._rollout(last) if governed else None,
            coordinator=self._leader() if governed else None,
            failures=self._all(paths.FAILURES, failure_of),
            group_stops=self._all(paths.GROUP_STOPS, group_stop_of),
            maintenance=in_force(self._all(paths.MAINTENANCE, maintenance_of), now),
            decisions=tuple(
                decision
                for places in used_places(last)
                for decision in self._all(places.directory(), places.decide)
            ),
            reboots={each.host_id: each.seen_at(now) for each in self._all(paths.REBOOTS, reboot_of)},
        )
        self._decoded.forget()
        return snapshot

    def outline(self) -> FleetSnapshot:
        """Return the part of the snapshot that decides which inventories ``ServicesAssembly`` needs."""
        hosts, targets = self._nodes.node(paths.HOSTS), self._nodes.node(paths.TARGETS)
        return FleetSnapshot(
            cluster=None if hosts is None else cluster_of(hosts),
            published=published_revision(targets),
            hosts=self._all(paths.HOSTS, _host),
        )

    def _all(self, directory: str, decode: Callable[[str, Node], T | None]) -> tuple[T, ...]:
        """Return the values of all existing nodes in a directory, in the order of their names."""
        values = (
            self._decoded.value(f"{directory}/{name}", name, decode) for name in self._nodes.children(directory)
        )
        return tuple(value for value in values if value is not None)

    def _absent_ids(self) -> list[str]:
        registered = self._nodes.existing(paths.HOSTS)
        return [name for name in self._nodes.children(paths.INVENTORY) if name not in registered]

    def _absent_hosts(self) -> tuple[KnownHost, ...]:
        """Return the absent hosts: the same tuple as long as no absent host has changed."""
        found = (
            self._decoded.value(f"{paths.INVENTORY}/{name}", name, _known_host) for name in self._absent_ids()
        )
        absent = tuple(host for host in found if host is not None)
        if len(absent) != len(self._absent) or any(map(_differ, absent, self._absent)):
            self._absent = absent
        return self._absent

    def _publication(self, sequence: int) -> PublicationRecord | None:
        return self._decoded.value(paths.history_path(sequence), "", _publication)

    def _target_names(self) -> frozenset[str]:
        names = self._nodes.children(paths.TARGETS)
        if self._names[0] is not names:
            self._names = names, frozenset(map(unquote, names))
        return self._names[1]

    def _rollout(self, last: Published) -> RolloutState | None:
        current = current_id(self._nodes.node(paths.ROLLOUTS))
        state = (
            None if current is None else self._decoded.value(paths.rollout_path(current), current, _rollout_state)
        )
        return state if state is not None and state.sequence == last.effective_since else None

    def _leaders(self) -> list[str]:
        return queued(self._nodes.children(paths.COORDINATORS))[:1]

    def _leader(self) -> str | None:
        for name in self._leaders():
            path = f"{paths.COORDINATORS}/{name}"
            node = self._nodes.node(path)
            if node is not None:
                return contender(path, node).identity
        return None


class ServicesAssembly:
    """The services in copies of nodes; ``targets`` returns the published targets below their parent node."""

    def __init__(self, nodes: NodeCopies, targets: Callable[[Node], Targets]) -> None:
        self._nodes = nodes
        self._decoded = DecodedNodes(nodes)
        self._targets = targets
        self._services = NO_SERVICES
        self._judged: tuple[FleetSnapshot, ServicesSnapshot] | None = None
        self._undecided: list[str] = []

    def wanted(self, fleet: FleetSnapshot) -> Iterator[Read]:
        """Yield everything that has to be read for this fleet, as far as the nodes read so far show it.

        Nothing is known about services if another revision was published than this fleet shows: no host has begun
        it.
        """
        yield Read(paths.TARGETS)
        parent = self._nodes.node(paths.TARGETS)
        is_present = parent is not None and published_revision(parent) == fleet.published
        targets = self._targets(parent) if parent is not None and is_present else {}
        services = sorted(paths_of_services(targets, ""))
        listed = 0
        for directory in map(providers_path, services):
            names = self._nodes.children(directory)
            listed += len(names)
            yield Read(directory, children=True)
            # The node of an empty directory shows whether an instance ever registered.
            yield from (Read(f"{directory}/{name}") for name in names) if names else (Read(directory),)
        providers = registered_instances(services, self._nodes.children, self._nodes.node, self._properties)
        if (targets, providers) != (self._services.targets, self._services.providers):
            self._services = ServicesSnapshot(targets, providers)
        judged, is_read = (fleet, self._services), sum(map(len, providers.values())) == listed
        if is_read and judged != self._judged:  # instances that are not read yet follow in the next round
            self._judged, self._undecided = judged, undecided_hosts(fleet, self._services)
        yield from (Read(f"{paths.INVENTORY}/{host_id}") for host_id in self._undecided)

    def _properties(self, path: str) -> Properties | None:
        """Return the properties of a registered instance; ``None`` if its node was not read or is gone."""
        return self._decoded.value(path, path, lambda _name, node: node.properties)

    def reading(self) -> ServicesSnapshot:
        """Return the services: the same object if nothing of them has changed."""
        found = (
            self._decoded.value(f"{paths.INVENTORY}/{host_id}", host_id, _markers) for host_id in self._undecided
        )
        services = self._services.with_inventories(known for known in found if known is not None)
        self._decoded.forget()
        if services.deployed != self._services.deployed:
            self._services = services
        return self._services


def _markers(host_id: str, node: Node) -> KnownHost:
    return decode_inventory(host_id, node.data, software=False)


def _host(name: str, node: Node) -> Host:
    return Host.from_properties(name, node.properties, since=node.modified, registered=node.created)


def _out_of_service(name: str, node: Node) -> tuple[str, str]:
    return name, str(node.properties.get("role"))


def _known_host(name: str, node: Node) -> KnownHost:
    return decode_inventory(name, node.data)


def _publication(name: str, node: Node) -> PublicationRecord:
    del name
    return publication_of(node)


def _rollout_state(name: str, node: Node) -> RolloutState | None:
    try:
        return decode_state(node.data)
    except ZkdeploymentError as error:
        get_logger().warning("rollout-unreadable", rollout=name, reason=str(error))
        return None


def _differ(one: object, other: object) -> bool:
    return one is not other
