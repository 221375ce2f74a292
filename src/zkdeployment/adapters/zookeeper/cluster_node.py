"""Changes of ``/hosts``, the node of the cluster version, as operations of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Set
from zkdeployment.model.cluster import Cluster
from zkdeployment.model.cluster_machine import advance

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.transactions import Operation
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.cluster_machine import ClusterEvent


def changing_cluster(
    hosts: Node, event: ClusterEvent, revision: Revision | None = None, *, later: int = 0
) -> Operation:
    """Return the operation that changes ``/hosts`` for an event; raises ``RefusedError`` as ``advance`` does."""
    return setting_cluster(hosts, advance(Cluster.from_properties(hosts.properties), event, revision), later=later)


def setting_cluster(hosts: Node, cluster: Cluster, *, later: int = 0) -> Operation:
    """Return the operation that writes ``cluster`` to ``/hosts``.

    The operation fails unless ``/hosts`` was changed exactly ``later`` times since ``hosts`` was read.
    """
    return Set(paths.HOSTS, encode(cluster.properties(hosts.properties)), hosts.version + later)
