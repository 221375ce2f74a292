"""The tenants of host pools, who request and end sessions while workers and hosts have faults.

The requests of tenants, the workers and the part of the agent that follows leases are those of the program. Only
``authorized_keys`` and the traces of tenants on machines are simulated.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from simulation.daemon_processes import SERVERS
from simulation.leased_machines import IDLE, LENT
from zkdeployment.base.act import Act
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.source_files import SourceFile
from zkdeployment.pools.acts.nodes import change_node
from zkdeployment.pools.acts.sessions import SessionActor, request_session, retire_session
from zkdeployment.pools.opening import pool_adapters
from zkdeployment.pools.rules.node import NodeState, PoolNode, forgiven
from zkdeployment.pools.rules.snapshot import NodesSpec
from zkdeployment.service.users.user import Role, User
from zkdeployment.service.users.user_store import USERS, UserRecord, encode_user, user_path
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.world import World
    from zkdeployment.pools.opening import PoolAdapters

#: The document of the only pool.
DOCUMENT = SourceFile(
    "pools.yaml",
    f"""\
schema: zkdeployment/Pools/v1
metadata: {{name: pools}}
data:
  defaults: {{session-lifetime: 1m, session-lifetime-max: 1h, node-quota: 10}}
  nodepools:
    concrete:
      hosts:
        fill-level: 3
        mechanism: {{type: role, role: {{idle: {IDLE}, leased: {LENT}}}}}
""".encode(),
)


class Tenants:
    """The tenants of a fleet, who request and end sessions, each with a key of its own.

    ``obstacle`` is why pools are not yet as they were before the first session, once all faults have ended.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._keys = 0
        self.obstacle: str | None = "the tenants have not finished" if world.theme.leases else None

    def work(self) -> None:
        """Request and end sessions while there are faults; then end all, and let failed nodes be cleaned."""
        world = self._world
        with Session(SERVERS, session_timeout=10.0, create_chroot=True) as session:
            adapters = pool_adapters(session)
            tenant = User(id=1, name="ci", role=Role.TENANT, created_at=0.0, node_quota=10)
            while self.obstacle is not None and not self._attempt(lambda: _add(tenant, session)):
                world.take_time(1.0, 5.0)
            while world.faults.are_active:
                world.take_time(0.0, 10.0)
                act = world.chance.choice([self._request, self._request, self._retire])
                self._attempt(lambda act=act: act(tenant, adapters))  # type: ignore[misc]
            while self.obstacle is not None:
                world.take_time(20.0, 40.0)
                self._attempt(lambda: self._clean(adapters))

    def _attempt(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except ZkdeploymentError as error:
            self._world.trace(f"a tenant fails: {error}")
            return False
        return True

    def _request(self, tenant: User, _adapters: PoolAdapters) -> None:
        """Request nodes, in a process of its own, which may wait for long or die meanwhile."""
        world = self._world
        self._keys += 1
        key, specs = _key(self._keys), (NodesSpec("hosts", world.chance.choice([1, 1, 1, 2])),)
        process = world.new_process(f"tenant{self._keys}")

        def request() -> None:
            with Session(SERVERS, session_timeout=10.0) as session:
                found = request_session(tenant, specs, pool_adapters(session), by=tenant.name, ssh_key=key)
                world.trace(f"a request ends: {found}")

        def attempt() -> None:
            self._attempt(request)
            world.network.scheduler.kill(process)

        world.network.scheduler.spawn(process, attempt)
        if world.chance.random() < 0.1:
            world.network.scheduler.after(
                world.chance.uniform(0.0, 20.0), lambda: world.network.scheduler.kill(process)
            )

    def _retire(self, _tenant: User, adapters: PoolAdapters) -> None:
        """End one of the sessions."""
        numbers = [*adapters.store.read().sessions]
        if numbers:
            retire_session(self._world.chance.choice(numbers), adapters, SessionActor("ann@ops"))

    def _clean(self, adapters: PoolAdapters) -> None:
        """End all sessions, and forgive the nodes that failed."""
        read = adapters.store.read()
        for number in read.sessions:
            retire_session(number, adapters, SessionActor("ann@ops"))
        for node in read.nodes.values():
            if node.state is NodeState.FAILED:
                act = Act("ann@ops", "node forgive", "because", adapters.clock.now())
                change_node(node.id, adapters, act, forgiven)
        left = [f"node {node.id} is {node.state.value}" for node in read.nodes.values() if not _is_idle(node)]
        keys = [machine.name for machine in self._world.present_machines() if machine.tenant_keys]
        self.obstacle = "; ".join([*left, *(f"{name} admits a tenant" for name in keys)]) or None


def _add(tenant: User, session: Session) -> None:
    session.ensure(USERS)
    if session.get(user_path(tenant.name)) is None:
        session.commit(Create(user_path(tenant.name), encode_user(UserRecord(tenant))))


def _is_idle(node: PoolNode) -> bool:
    return node.state in {NodeState.UNUSED, NodeState.READY}


def _key(number: int) -> str:
    """Return a public key of its own for each number."""
    kind = b"ssh-ed25519"
    body = len(kind).to_bytes(4, "big") + kind + (32).to_bytes(4, "big") + number.to_bytes(32, "big")
    return f"ssh-ed25519 {base64.b64encode(body).decode()} session{number}"
