"""The inventories that clients asked for, without packages that were never deployed.

Inventories are read at the first use and again only after they changed.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.adapters.shared_calls import turn
from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.reads import Read
from zkdeployment.adapters.zookeeper.feed.shared_read import late_read
from zkdeployment.adapters.zookeeper.inventories import decode

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.inventory import KnownHost

#: How many inventories are kept.
_KEPT = 20_000

#: Seconds that a client waits for the read of another client.
_PATIENCE = 5.0


class DeployedInventories:
    """The inventories through one session; each kept one has a watch that drops it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._kept: dict[str, KnownHost | None] = {}
        self._changed: set[str] = set()
        self._connection: int | None = None

    def get(self, host_ids: Collection[str]) -> tuple[KnownHost, ...]:
        """Return the inventories of these hosts, by id; hosts without one are left out."""
        with turn(self._lock, _PATIENCE, late_read):
            self._drop_outdated()
            missing = sorted(set(host_ids) - self._kept.keys())
            reads = [Read(f"{paths.INVENTORY}/{host_id}") for host_id in missing]
            for read, node in self._session.follow(reads, self._note):
                host_id = read.path.rpartition("/")[2]
                self._kept[host_id] = _deployed_part(host_id, node)
            found = tuple(known for host_id in sorted(host_ids) if (known := self._kept[host_id]) is not None)
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        return found

    def _drop_outdated(self) -> None:
        connection = self._session.link.connections
        if self._connection != connection:  # the watches ended with the connection
            self._kept.clear()
            self._connection = connection
        for host_id in tuple(self._changed):
            self._changed.discard(host_id)
            self._kept.pop(host_id, None)

    def _note(self, event: Any) -> None:
        """Note a change; kazoo calls this on its thread."""
        if event.path is not None:
            self._changed.add(event.path.rpartition("/")[2])


def _deployed_part(host_id: str, node: Node | None) -> KnownHost | None:
    """Return the inventory in a node without the packages that were never deployed."""
    if node is None:
        return None
    known = decode(host_id, node.data)
    inventory = known.inventory
    if inventory is None:
        return known
    return replace(known, inventory=replace(inventory, packages=inventory.deployed_packages))
