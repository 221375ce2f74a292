"""Assembles the services of a fleet and their registered instances from followed nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.views.instances import NO_SERVICES, ServicesSnapshot, paths_of_services
from zkdeployment.fleet.views.status import undecided_hosts
from zkdeployment.publishing.store.hosts import decode
from zkdeployment.publishing.store.live_tree import providers_path, registered_instances
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import DecodedNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.json_values import Properties
    from zkdeployment.base.publication import Targets
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.shared_nodes import FollowedNodes


class ServicesAssembly:
    """The services in followed nodes: the same value as ``ZooKeeperFleetReader`` reads at one moment.

    ``targets`` returns the published targets below their parent node.
    """

    def __init__(self, nodes: FollowedNodes, targets: Callable[[Node | None], Targets]) -> None:
        self._nodes = nodes
        self._decoded = DecodedNodes(nodes)
        self._targets = targets
        self._services = NO_SERVICES
        self._judged: tuple[FleetSnapshot, ServicesSnapshot] | None = None
        self._undecided: list[str] = []

    def wanted(self, fleet: FleetSnapshot) -> Iterator[Read]:
        """Yield everything that has to be followed for this fleet, as far as the nodes read so far show it."""
        targets = self._targets(self._nodes.node(paths.TARGETS))
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
    return decode(host_id, node.data, software=False)
