"""Builds the adapters with which the commands of operators read the fleet and act on it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.base.features import installed
from zkdeployment.fleet.ports import OperatorAdapters
from zkdeployment.fleet.store.audit import ZooKeeperActLog
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.fleet.store.contention import ZooKeeperLocks
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.store.rollout_control import ZooKeeperRolloutControl
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.zookeeper.session import verb_session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zkdeployment.fleet.explanations.explanation import HostFinding
    from zkdeployment.zookeeper.servers import Servers
    from zkdeployment.zookeeper.session import Session


@contextlib.contextmanager
def open_operator(servers: Servers) -> Iterator[OperatorAdapters]:
    """Connect to ZooKeeper and return the adapters of an operator; raises ``UnreachableError``."""
    with verb_session(servers) as session:
        yield operator_adapters(session)


def operator_adapters(session: Session) -> OperatorAdapters:
    """Return the adapters of an operator, which use ``session``."""
    return OperatorAdapters(
        fleet=ZooKeeperFleetReader(session),
        tree=ZooKeeperLiveTree(session),
        locks=ZooKeeperLocks(session),
        rollouts=ZooKeeperRolloutControl(session),
        cluster=ZooKeeperClusterControl(session),
        acts=ZooKeeperActLog(session),
        session=session,
    )


def find_on_hosts(
    operator: OperatorAdapters, hosts: Collection[str], now: float, path: str | None = None
) -> tuple[HostFinding, ...]:
    """Return the findings of all features on hosts (by id), or only those about the service at a path."""
    places = (feature.host_findings for feature in installed())
    return tuple(found for place in places if place is not None for found in place(operator, hosts, now, path))
