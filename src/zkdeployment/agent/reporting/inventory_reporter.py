"""Publishes a host's inventory, for plans made elsewhere, and the results of its deployments, for the history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import HostFilesError, ZkdeploymentError
from zkdeployment.base.host_result import HostResult
from zkdeployment.base.inventory import KnownHost
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.agent.reporting.registration import LocalHost
    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.deployment import DeploymentFailure
    from zkdeployment.base.inventory import Inventory


class InventoryReporter:
    """Publishes the inventory and the results of one host.

    Errors are logged and never raised; ``catch_up`` publishes an inventory that could not be published before.
    """

    def __init__(self, adapters: AgentAdapters, local: LocalHost) -> None:
        self._adapters = adapters
        self._local = local
        self._published: KnownHost | None = None
        self._session: int | None = None

    def publish(self) -> None:
        """Read the host's inventory and publish it if it changed."""
        self._write(lambda: self._known(self._adapters.inventory()))

    def catch_up(self) -> None:
        """Publish the inventory if the last attempt failed or none was made yet, and again in a new session.

        ZooKeeper may have lost the node together with the session, for example because it was wiped.
        """
        published = self._published
        if published is None:
            self.publish()
        elif self._session != self._adapters.session():
            self._write(lambda: published)

    def refresh(self) -> None:
        """Publish the inventory if markers or other files of this agent changed; reads no packages otherwise.

        Without a change there is no request to ZooKeeper.
        """
        published = self._published
        if published is None or published.inventory is None or self._differs(published, published.inventory):
            self.publish()

    def _write(self, read: Callable[[], KnownHost]) -> None:
        self._published, self._session = None, self._adapters.session()
        try:
            known = read()
            self._adapters.fleet.publish_inventory(known)
        except ZkdeploymentError as error:
            get_logger().warning("inventory-not-published", reason=str(error))
            return
        self._published = known

    def _differs(self, published: KnownHost, inventory: Inventory) -> bool:
        try:
            found = self._adapters.files.inventory(inventory.packages)
        except HostFilesError as error:
            get_logger().warning("markers-unreadable", reason=str(error))
            return False
        known = self._known(replace(found, lost_scripts=inventory.lost_scripts))
        return replace(known, time=published.time) != published

    def record_result(
        self,
        revision: Revision,
        seconds: float,
        error: str | None = None,
        failed: DeploymentFailure | None = None,
    ) -> None:
        """Record the outcome of a deployment in the history: its duration, and its failure if it failed."""
        identity = self._local.host.identity
        result = HostResult(identity.id, identity.name, self._adapters.clock.now(), seconds, error, failed)
        try:
            self._adapters.fleet.record_result(revision, result)
        except ZkdeploymentError as unrecorded:
            get_logger().warning("history-not-written", reason=str(unrecorded))

    def _known(self, inventory: Inventory) -> KnownHost:
        host = self._local.host
        return KnownHost(
            host.identity,
            inventory,
            self._adapters.clock.now(),
            tags=host.tags,
            labels=host.labels,
            rack=host.rack,
            address=host.address,
            completed=host.completed,
            idle_role=host.idle_role,
        )
