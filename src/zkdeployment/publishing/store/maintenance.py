"""Reads the maintenance of hosts from ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.base.act import Maintenance
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


def maintenance_of(name: str, node: Node) -> Maintenance:
    """Decode the record of the host whose node has this name."""
    return Maintenance.from_json(node.properties, host_id=unquote(name))


def in_force(records: Iterable[Maintenance], now: float) -> dict[str, Maintenance]:
    """Return the records that are in force at ``now``, in seconds since the epoch, by host id."""
    return {each.host_id: each for each in records if each.is_in_force(now)}


def read_maintenance(session: Session, now: float, names: Iterable[str] | None = None) -> dict[str, Maintenance]:
    """Return the maintenance in force at ``now``, by host id; ``names`` are the nodes to read, by default all."""
    listed = sorted((session.children(paths.MAINTENANCE) or ()) if names is None else names)
    nodes = session.get_many(f"{paths.MAINTENANCE}/{name}" for name in listed)
    found = (maintenance_of(name, node) for name, node in zip(listed, nodes, strict=True) if node is not None)
    return in_force(found, now)
