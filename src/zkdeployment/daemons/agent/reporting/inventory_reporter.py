"""Publishes a host's inventory, for plans made elsewhere, and the results of its deployments, for the history."""

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
    """Publishes the inventory and the results of one host.

    Errors are logged and never raised; ``catch_up`` publishes an inventory that could not be published before.
    """

    def __init__(self, adapters: AgentAdapters, host: Host) -> None:
        self._adapters = adapters
        self._host = host
        self._due = True

    def publish(self) -> None:
        """Read the host's inventory and publish it if it changed."""
        self._due = True
        try:
            inventory = self._adapters.inventory()
            self._adapters.fleet.publish_inventory(self._known(inventory))
        except ZkdeploymentError as error:
            get_logger().warning("inventory-not-published", reason=str(error))
            return
        self._due = False

    def catch_up(self) -> None:
        """Publish the inventory if the last attempt failed or there was none yet."""
        if self._due:
            self.publish()

    def record_result(self, revision: Revision, seconds: float, error: str | None = None) -> None:
        """Record the outcome of a deployment in the history: its duration, and its error if it failed."""
        identity = self._host.identity
        result = HostResult(identity.id, identity.name, self._adapters.clock.now(), seconds, error)
        try:
            self._adapters.fleet.record_result(revision, result)
        except ZkdeploymentError as unrecorded:
            get_logger().warning("history-not-written", reason=str(unrecorded))

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
