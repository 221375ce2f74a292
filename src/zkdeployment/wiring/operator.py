"""Builds the adapters with which the commands of operators read the fleet and act on it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.locks.contention import ZooKeeperLocks
from zkdeployment.adapters.zookeeper.operator.audit import ZooKeeperActLog
from zkdeployment.adapters.zookeeper.operator.cluster_control import ZooKeeperClusterControl
from zkdeployment.adapters.zookeeper.operator.fleet_reader import ZooKeeperFleetReader
from zkdeployment.adapters.zookeeper.operator.intent_reader import ZooKeeperIntents
from zkdeployment.adapters.zookeeper.operator.live_tree_store import ZooKeeperLiveTree
from zkdeployment.adapters.zookeeper.rollout.control import ZooKeeperRolloutControl
from zkdeployment.ports.operator import OperatorAdapters
from zkdeployment.wiring.verb_session import verb_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.servers import Servers


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
        intents=ZooKeeperIntents(session),
        acts=ZooKeeperActLog(session),
    )
