"""Builds the adapters with which operators see check instances and act on them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.checks.ports import CheckAdapters
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.checks.store.sources import SharedCheckSources, ZooKeeperCheckSources
from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems
from zkdeployment.fleet.store.audit import ZooKeeperActLog
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.zookeeper.session import verb_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.zookeeper.servers import Servers
    from zkdeployment.zookeeper.session import Session


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
