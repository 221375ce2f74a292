"""Telling the fleet what this host has, for plans that are made elsewhere, and how its deployments went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import ZkdeploymentError
from zkdeployment.log import get_logger
from zkdeployment.model.history import HostResult
from zkdeployment.model.inventory import KnownHost

if TYPE_CHECKING:
    from zkdeployment.daemons.agent.agent_adapters import AgentAdapters
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.inventory import Inventory


class InventoryReporter:
    """Publishes a host's inventory and its results; what goes wrong is logged, and fails nothing else.

    The inventory is tried again then.
    """

    def __init__(self, adapters: AgentAdapters, host: Host) -> None:
        self._adapters = adapters
        self._host = host
        self._due = True

    def take(self) -> None:
        """Read what this host has and publish it if that changed."""
        self._due = True
        try:
            inventory = self._adapters.inventory()
            self._adapters.fleet.publish_inventory(self._known(inventory))
        except ZkdeploymentError as error:
            get_logger().warning("inventory-not-published", reason=str(error))
            return
        self._due = False

    def _known(self, inventory: Inventory) -> KnownHost:
        host = self._host
        return KnownHost(
            host.identity,
            inventory,
            self._adapters.clock.now(),
            tags=host.tags,
            labels=host.labels,
            rack=host.rack,
        )

    def record(self, revision: Revision, seconds: float, error: str | None = None) -> None:
        """Tell the history how a deployment went."""
        one = self._host.identity
        result = HostResult(one.id, one.name, self._adapters.clock.now(), seconds, error)
        try:
            self._adapters.fleet.record_result(revision, result)
        except ZkdeploymentError as trouble:
            get_logger().warning("history-not-written", reason=str(trouble))

    def catch_up(self) -> None:
        """Publish what could not be published before, if anything."""
        if self._due:
            self.take()
