"""Values of host pools, nodes that are ready, tenants, and a stand-in for the worker that prepares nodes."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.act import Act
from zkdeployment.base.errors import ConflictError
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism
from zkdeployment.pools.opening import pool_adapters
from zkdeployment.pools.rules.node import NodeEvent, NodeState, PoolNode, fail
from zkdeployment.pools.rules.queue import LendingFacts
from zkdeployment.pools.rules.snapshot import NodesSpec, PoolChange, PoolSnapshot, SessionRequest
from zkdeployment.service.users.user import NewUser, Role, TenantLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.pools.rules.snapshot import TenantSession
    from zkdeployment.pools.store.store import ZooKeeperPools
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.users.user import IssuedKey, User
    from zkdeployment.service.users.user_store import ZooKeeperUsers


def make_node(number: int = 1, state: NodeState = NodeState.READY, **fields: Any) -> PoolNode:
    """Return a node of a pool."""
    return PoolNode(**{"created_at": 1.0, "changed": 1.0, **fields}, id=number, state=state)


def make_request(number: int, tenant: User, *specs: NodesSpec, **fields: Any) -> SessionRequest:
    """Return a request of a tenant that does not wait."""
    return SessionRequest(
        **{"created_at": 1.0, "expires_at": 1.0, **fields}, id=number, tenant=tenant.id, specs=specs
    )


def lending_facts(
    pools: PoolConfiguration, tenant: User, nodes: Iterable[PoolNode], now: float = 10.0, **fields: Any
) -> LendingFacts:
    """Return the facts on which a request of a tenant is decided."""
    return LendingFacts(PoolSnapshot({node.id: node for node in nodes}), pools, {tenant.id: tenant}, now, **fields)


_HOUR = 3600.0

#: A public key as users have it.
SSH_KEY = f"ssh-ed25519 {'A' * 68} tenant"

_ROLES = RoleMechanism("spare", "ci-web")

#: Two pools with a level, and one without.
POOLS = PoolConfiguration(
    {
        "web": NodePool("web", _ROLES, fill_level=3),
        "db": NodePool("db", _ROLES, fill_level=1),
        "attic": NodePool("attic", _ROLES),
    },
    TenantLimits(node_quota=2, session_lifetime=6 * _HOUR, session_lifetime_max=12 * _HOUR),
)


#: A document with these pools.
POOLS_DOCUMENT = """\
schema: zkdeployment/Pools/v1
metadata: {name: pools}
data:
  defaults: {session-lifetime: 6h, session-lifetime-max: 12h, node-quota: 2}
  nodepools:
    abstract:
      fleet: {mechanism: {type: role, role: {idle: spare, leased: ci-web}}}
    concrete:
      web: {extends: fleet, fill-level: 3}
      db: {extends: fleet, fill-level: 1}
      attic: {extends: fleet}
"""


def add_ready_nodes(store: ZooKeeperPools, count: int, pool: str = "web", **provision: str | int) -> list[int]:
    """Write nodes that are ready, and return their ids; node 7 has the address 192.0.2.7.

    ``provision`` are the values that their provisioning returned.
    """
    numbers = [*store.take_ids(count)]
    nodes = tuple(
        PoolNode(
            id=number,
            state=NodeState.READY,
            created_at=1,
            changed=number,
            pool=pool,
            hostname=f"node{number}.example.com",
            ipaddr=f"192.0.2.{number}",
            reusable=True,
            data={"provision": provision} if provision else {},
        )
        for number in numbers
    )
    store.commit(PoolChange(nodes=nodes), store.read())
    return numbers


def add_tenant(users: ZooKeeperUsers, name: str, role: Role = Role.TENANT, quota: int | None = None) -> IssuedKey:
    """Add a user who may have sessions."""
    new = NewUser(name=name, role=role, ssh_key=SSH_KEY, node_quota=quota)
    return users.add(new, Act("tests", "user", "a test", 0.0))


@contextmanager
def contextualizing(
    store: ZooKeeperPools, failing: Collection[int] = (), may_begin: Callable[[], object] = lambda: True
) -> Iterator[None]:
    """Prepare reserved nodes as a worker does, in a thread of its own; the nodes ``failing`` fail."""
    ended = threading.Event()
    thread = threading.Thread(target=_work, args=(store, frozenset(failing), may_begin, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _work(
    store: ZooKeeperPools, failing: frozenset[int], may_begin: Callable[[], object], ended: threading.Event
) -> None:
    while not ended.wait(0.01):
        if not may_begin():
            continue
        read = store.read()
        for session in read.sessions.values():
            try:
                change = _prepared(session, read, failing)
                if change is not None:
                    store.commit(change, read)
            except ConflictError:
                continue


def _prepared(session: TenantSession, read: PoolSnapshot, failing: frozenset[int]) -> PoolChange | None:
    nodes = [read.nodes[number] for number in session.nodes if number in read.nodes]
    if not any(node.state is NodeState.CONTEXTUALIZING for node in nodes):
        return None
    if not failing.intersection(session.nodes):
        deployed = tuple(node.after(NodeEvent.CONTEXTUALIZED, 10) for node in nodes)
        return PoolChange(nodes=deployed, sessions=(replace(session, begun_at=session.created_at),))
    after = tuple(
        fail(node, "a test", 10) if node.id in failing else node.after(NodeEvent.CLEANED, 10) for node in nodes
    )
    return PoolChange(nodes=after, dropped=(session,))


def at_times_of(clock: Clock) -> Callable[[ServerAdapters], None]:
    """Return the preparation of a service whose pools use the clock of a test."""

    def prepare(adapters: ServerAdapters) -> None:
        adapters.operator.made[pool_adapters] = replace(pool_adapters(adapters.operator.session), clock=clock)

    return prepare
