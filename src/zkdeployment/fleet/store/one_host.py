"""One host, for the Nagios check that runs on it every two minutes: few reads, and few imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterState
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.publishing.store.cluster import cluster_of, read_stops
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from zkdeployment.base.json_values import Properties
    from zkdeployment.zookeeper.session import Session


def read_host(session: Session, host_id: str) -> tuple[FleetSnapshot, Properties | None]:
    """Return the cluster with its stops, and the properties of one host's node; ``None`` if it does not exist."""
    node, host = session.get_many([paths.HOSTS, f"{paths.HOSTS}/{host_id}"])
    cluster = None if node is None else cluster_of(node)
    halted = cluster is not None and cluster.state in (ClusterState.STOPPED, ClusterState.HELD)
    snapshot = FleetSnapshot(
        cluster=cluster,
        changed=None if node is None else node.modified,
        stops=read_stops(session) if halted else (),
    )
    return snapshot, None if host is None else host.properties
