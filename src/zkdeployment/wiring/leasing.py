"""Builds the adapters with which verbs and the service see pools and act on them."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.zookeeper.operator.audit import ZooKeeperActLog
from zkdeployment.adapters.zookeeper.pools.playbook_log import ZooKeeperPlaybookLog
from zkdeployment.adapters.zookeeper.pools.registered_hosts import registered_hosts
from zkdeployment.adapters.zookeeper.pools.session_uses import ZooKeeperSessionUses
from zkdeployment.adapters.zookeeper.pools.store import ZooKeeperPools
from zkdeployment.adapters.zookeeper.users.reader import ZooKeeperUserReader
from zkdeployment.ports.pools import PoolAdapters
from zkdeployment.wiring.verb_session import verb_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.servers import Servers


@contextlib.contextmanager
def open_pools(servers: Servers) -> Iterator[PoolAdapters]:
    """Connect to ZooKeeper and return the adapters; raises ``UnreachableError``."""
    with verb_session(servers) as session:
        yield pool_adapters(session, ZooKeeperUserReader(session))


def pool_adapters(session: Session, users: ZooKeeperUserReader) -> PoolAdapters:
    """Return the adapters, which use ``session``."""
    store = ZooKeeperPools(session)
    return PoolAdapters(
        store=store,
        users=users,
        acts=ZooKeeperActLog(session),
        present_hosts=partial(registered_hosts, session),
        wait=store.wait_for_change,
        runs=ZooKeeperPlaybookLog(session).runs,
        uses=ZooKeeperSessionUses(session).read,
        clock=SystemClock(),
    )
