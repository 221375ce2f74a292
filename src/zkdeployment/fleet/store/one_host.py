"""One host, for the Nagios check that runs on it every two minutes: few reads, and few imports."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterState
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.publishing.store.cluster import cluster_of, in_force, maintenance_of, read_stops
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from zkdeployment.base.json_values import Properties
    from zkdeployment.zookeeper.session import Session


def read_host(session: Session, host_id: str) -> tuple[FleetSnapshot, Properties | None]:
    """Return the cluster with its stops and the host's maintenance, and the properties of the host's node.

    The properties are ``None`` if the node does not exist.
    """
    own = paths.maintenance_path(host_id)
    node, host, maintenance = session.get_many([paths.HOSTS, f"{paths.HOSTS}/{host_id}", own])
    cluster = None if node is None else cluster_of(node)
    halted = cluster is not None and cluster.state in (ClusterState.STOPPED, ClusterState.HELD)
    snapshot = FleetSnapshot(
        cluster=cluster,
        changed=None if node is None else node.modified,
        stops=read_stops(session) if halted else (),
        maintenance={}
        if maintenance is None
        else in_force([maintenance_of(own.rpartition("/")[2], maintenance)], time.time()),
    )
    return snapshot, None if host is None else host.properties
