"""The mechanisms that make and lend nodes, and the adapters with which verbs and the service use pools."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from zkdeployment.base.errors import ConflictError
from zkdeployment.base.machine.clock import Clock, SystemClock
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.store.audit import ZooKeeperActLog
from zkdeployment.pools.settings import PoolsSettings
from zkdeployment.pools.store.store import (
    ZooKeeperPlaybookLog,
    ZooKeeperPools,
    ZooKeeperSessionUses,
    available_hosts,
)
from zkdeployment.publishing.keys import LEASES, PublishKey
from zkdeployment.service.users.user_store import ZooKeeperUserReader, ZooKeeperUsers
from zkdeployment.zookeeper.session import Session, verb_session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.config.settings import Settings
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.fleet.views.fleet_health import JudgeAlarms
    from zkdeployment.pools.documents import NodePool
    from zkdeployment.pools.rules.node import PoolNode
    from zkdeployment.pools.rules.results import MechanismOutcome, PlaybookRun
    from zkdeployment.pools.rules.snapshot import PoolChange, PoolSnapshot
    from zkdeployment.pools.rules.usage import SessionUse
    from zkdeployment.service.daemon import ServicePart
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.users.user import TenantLimits, User
    from zkdeployment.zookeeper.servers import Servers


def lease_signer(settings: Settings) -> PublishKey | None:
    """Return the key that signs leases, ``None`` without one.

    Raises ``ConfigurationError`` unless the file is an SSH private key that can be used.
    """
    key = settings.require(PoolsSettings).lease_key
    return None if key is None else PublishKey(key, LEASES, "lease-key")


class PoolMechanism(Protocol):
    """Makes and removes the nodes of a kind of pool, and writes the keys of tenants to them.

    Any thread may call the methods, each for other nodes that the worker has claimed; a method returns when its
    work is done. The methods raise ``ProgramError`` if all of the work failed, or if this process has to end.
    """

    def reuse_values(self, pool: NodePool) -> Mapping[str, int | str] | None:
        """Return the values that unused nodes must have for a pool; ``None`` if its nodes are made anew."""

    def provision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        """Make nodes; return them as ready, or in the state after a failure of the node.

        The method is called again for the same nodes if a worker dies during the call.
        """

    def deprovision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        """Remove nodes, or reset them for further use; return them as unused, done or failed."""

    def probe(self, node: PoolNode) -> None:
        """Raise ``ProgramError`` if a ready node could not be lent now; takes seconds at most."""

    def write_keys(self, node: PoolNode, keys: Sequence[str]) -> tuple[str, ...]:
        """Make a node admit a tenant's keys instead of any earlier ones; return the newly admitted keys.

        A node that does not confirm the keys in time must not admit them later.
        """

    def remove_keys(self, node: PoolNode) -> None:
        """Remove the tenant's keys from a node and end the tenant's connections; other keys stay."""


#: Attempts to change records that other processes change concurrently.
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAdapters:
    """The adapters with which verbs and the service see pools and act on them.

    ``available_hosts`` returns the ids of the registered hosts that are not in maintenance. ``wait`` returns after
    a number of seconds, or as soon as nodes or sessions have changed. ``runs`` returns the recorded runs of
    playbooks for a node, by its id. ``uses`` returns the use of pools by all active sessions, and by those that
    ended within a year. ``is_ending`` returns whether this process was asked to end, so that waiting acts give up.
    """

    store: ZooKeeperPools
    users: ZooKeeperUserReader
    acts: ZooKeeperActLog
    available_hosts: Callable[[], Collection[str]]
    wait: Callable[[float], object]
    clock: Clock
    runs: Callable[[int], Sequence[PlaybookRun]]
    uses: Callable[[], Sequence[SessionUse]]
    is_ending: Callable[[], bool] = lambda: False

    def commit(self, subject: str, decide: Callable[[PoolSnapshot], PoolChange | None]) -> bool:
        """Write the change that ``decide`` returns for the present records; return false if it returns ``None``.

        After a concurrent change, decide again; raises ``ConflictError`` if ``subject`` is changed all the time.
        """
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(ConflictError):
                read = self.store.read()
                change = decide(read)
                if change is not None:
                    self.store.commit(change, read)
                return change is not None
        raise ConflictError(f"{subject} is changed all the time; try again")


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
        available_hosts=partial(available_hosts, session),
        wait=store.wait_for_change,
        runs=ZooKeeperPlaybookLog(session).runs,
        uses=ZooKeeperSessionUses(session).read,
        clock=SystemClock(),
    )


def pool_adapters_of(adapters: ServerAdapters) -> PoolAdapters:
    """Return the adapters of pools among those of the service."""
    return replace(adapters.operator.of(pool_adapters), is_ending=adapters.is_ending)


def alarms(session: Session, _now: float) -> JudgeAlarms:
    """Read the pools, and return the function that judges them for the monitor of the fleet."""
    from zkdeployment.pools.rules.listing import pool_alarms, pools_status  # noqa: PLC0415  only monitors need it

    store = ZooKeeperPools(session)
    return partial(pool_alarms, pools_status(store.configuration(), store.read()))


def service_parts(adapters: ServerAdapters) -> tuple[ServicePart, ...]:
    """Return the thread of the service that warns tenants before their sessions end."""
    from zkdeployment.pools.feed import SessionWarnings  # noqa: PLC0415  only services need it

    pools = pool_adapters_of(adapters)
    return (SessionWarnings(adapters.feed, pools.store, pools.clock),)


def tenant_limits(session: Session) -> TenantLimits:
    """Return the published limits of tenants without limits of their own."""
    return ZooKeeperPools(session).configuration().defaults


def retire_user(operator: OperatorAdapters, user: User, users: ZooKeeperUsers, act: Act) -> tuple[str, ...] | None:
    """Retire a tenant together with its sessions; return ``None`` for another user."""
    from zkdeployment.pools.acts.sessions import retire_tenant  # noqa: PLC0415  other acts do not need it

    if not user.is_tenant:
        return None
    retire_tenant(user, users, operator.of(pool_adapters), act)
    return ()
