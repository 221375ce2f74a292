"""Builds the adapters with which verbs and the service see pools and act on them."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.fleet.store.audit import ZooKeeperActLog
from zkdeployment.pools.acts.sessions import retire_tenant
from zkdeployment.pools.ports import PoolAdapters
from zkdeployment.pools.store.playbook_log import ZooKeeperPlaybookLog
from zkdeployment.pools.store.store import ZooKeeperPools, ZooKeeperSessionUses, registered_hosts
from zkdeployment.service.users.user_store import ZooKeeperUserReader
from zkdeployment.zookeeper.session import verb_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.base.act import Act
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.users.user import User
    from zkdeployment.service.users.user_store import ZooKeeperUsers
    from zkdeployment.zookeeper.servers import Servers
    from zkdeployment.zookeeper.session import Session


@contextlib.contextmanager
def open_pools(servers: Servers) -> Iterator[PoolAdapters]:
    """Connect to ZooKeeper and return the adapters; raises ``UnreachableError``."""
    with verb_session(servers) as session:
        yield pool_adapters(session)


def pool_adapters(session: Session) -> PoolAdapters:
    """Return the adapters, which use ``session``."""
    store = ZooKeeperPools(session)
    return PoolAdapters(
        store=store,
        users=ZooKeeperUserReader(session),
        acts=ZooKeeperActLog(session),
        present_hosts=partial(registered_hosts, session),
        wait=store.wait_for_change,
        runs=ZooKeeperPlaybookLog(session).runs,
        uses=ZooKeeperSessionUses(session).read,
        clock=SystemClock(),
    )


def pool_adapters_of(adapters: ServerAdapters) -> PoolAdapters:
    """Return the adapters of pools among those of the service."""
    return replace(adapters.operator.of(pool_adapters), is_ending=adapters.is_ending)


def retire_pool_tenant(
    operator: OperatorAdapters, user: User, users: ZooKeeperUsers, act: Act
) -> tuple[str, ...] | None:
    """Retire a tenant and end its sessions; return no warnings, or ``None`` for another user."""
    if not user.is_tenant:
        return None
    retire_tenant(user, users, operator.of(pool_adapters), act)
    return ()
