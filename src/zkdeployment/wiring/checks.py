"""Builds the adapters with which operators see check instances and act on them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.checks.instances import ZooKeeperCheckInstances
from zkdeployment.adapters.zookeeper.checks.shared_sources import SharedCheckSources
from zkdeployment.adapters.zookeeper.checks.sources import ZooKeeperCheckSources
from zkdeployment.adapters.zookeeper.checks.systems import ZooKeeperMonitoringSystems
from zkdeployment.adapters.zookeeper.operator.audit import ZooKeeperActLog
from zkdeployment.adapters.zookeeper.operator.fleet_reader import ZooKeeperFleetReader
from zkdeployment.ports.checks import CheckAdapters
from zkdeployment.wiring.verb_session import verb_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.servers import Servers


@contextlib.contextmanager
def open_checks(servers: Servers) -> Iterator[CheckAdapters]:
    """Connect to ZooKeeper and return the adapters; raises ``UnreachableError``."""
    with verb_session(servers) as session:
        yield check_adapters(session)


def check_adapters(session: Session) -> CheckAdapters:
    """Return the adapters, which use ``session``."""
    return CheckAdapters(
        fleet=ZooKeeperFleetReader(session),
        instances=ZooKeeperCheckInstances(session),
        systems=ZooKeeperMonitoringSystems(session),
        sources=SharedCheckSources(ZooKeeperCheckSources(session)),
        acts=ZooKeeperActLog(session),
    )
