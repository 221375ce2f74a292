"""Workers of host pools on a real ZooKeeper, with simulated or real machines."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Self

from support.pools.builders import make_request
from support.waiting import wait_until
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.documents.yaml_values import parse_yaml, typed_values
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.daemon import NodeTasks, PoolWorker, TaskRuns
from zkdeployment.pools.documents import FORM, AnsibleMechanism, RoleMechanism
from zkdeployment.pools.mechanisms.ansible import AnsiblePlaybooks
from zkdeployment.pools.mechanisms.role_nodes import RoleNodes
from zkdeployment.pools.rules.node import NodeState, PoolNode
from zkdeployment.pools.rules.queue import LendingFacts, Reservation, reserve
from zkdeployment.pools.rules.snapshot import NodesSpec, PoolChange, PoolSnapshot, SessionRequest, TenantSession
from zkdeployment.pools.store.leases import ZooKeeperLeases
from zkdeployment.pools.store.sources import ZooKeeperPoolSources
from zkdeployment.pools.store.store import ZooKeeperPools
from zkdeployment.publishing.store.documents import document_path
from zkdeployment.service.users.user import Role, User
from zkdeployment.service.users.user_store import UserRecord, encode_user, user_path
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.pools.opening import PoolMechanism
    from zkdeployment.zookeeper.servers import Servers

KEY = f"ssh-ed25519 {'A' * 68} tenant"


class PoolFleet:
    """The document, tenants, nodes and sessions of pools, written by a test."""

    def __init__(self, zookeeper: Servers | str, clock: Clock) -> None:
        self.connection = zookeeper
        self.clock = clock
        self._session = Session(zookeeper, session_timeout=6, create_chroot=True)
        self.store: ZooKeeperPools = ZooKeeperPools(self._session)

    def __enter__(self) -> Self:
        self._session.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def publish(self, data: str) -> None:
        """Publish the document of pools with this ``data``, in YAML."""
        document = next(parse_yaml(f"schema: zkdeployment/Pools/v1\nmetadata: {{name: pools}}\ndata: {data}"))
        self._put(document_path(("pools", ())), json.dumps(typed_values(document.value, FORM)).encode())

    def add_tenant(self, number: int, key: str | None = KEY, **values: Any) -> User:
        """Add or replace a tenant."""
        user = User(id=number, name=f"tenant{number}", role=Role.TENANT, created_at=0.0, ssh_key=key, **values)
        self._put(user_path(user.name), encode_user(UserRecord(user, "")))
        return user

    def add_nodes(self, count: int, **data: Any) -> None:
        """Add unused nodes that can be used again, with these data."""
        nodes = tuple(
            PoolNode(id=number, state=NodeState.UNUSED, created_at=0.0, changed=0.0, reusable=True, data=data)
            for number in self.store.take_ids(count)
        )
        self.store.commit(PoolChange(nodes=nodes), self.store.read())

    def request(self, tenant: User, **quantities: int) -> TenantSession | None:
        """Reserve nodes for a session, as a request does that dies right after that; ``None``: too few nodes."""
        read = self.store.read()
        specs = tuple(NodesSpec(pool, quantity) for pool, quantity in quantities.items())
        now = self.clock.now()
        wanted = make_request(
            self.store.take_ids(1)[0], tenant, *specs, created_at=now, expires_at=now, requested_by=tenant.name
        )
        given = reserve(wanted, LendingFacts(read, self.store.configuration(), {tenant.id: tenant}, now))
        if not isinstance(given, Reservation):
            return None
        self.store.commit(PoolChange(nodes=given.nodes, sessions=(given.session,)), read)
        return given.session

    def queue(self, tenant: User, wait: float, **quantities: int) -> SessionRequest:
        """Put a request into the queue, as a client does that dies right after that."""
        now, specs = self.clock.now(), tuple(NodesSpec(pool, quantity) for pool, quantity in quantities.items())
        request = SessionRequest(
            id=self.store.take_ids(1)[0], tenant=tenant.id, specs=specs, created_at=now, expires_at=now + wait
        )
        self.store.commit(PoolChange(waiting=(request,)), PoolSnapshot())
        return request

    def states(self, pool: str | None = None) -> list[str]:
        """Return the states of the nodes (of a pool), by id."""
        nodes = sorted(self.store.read().nodes.values(), key=lambda node: node.id)
        return [node.state.value for node in nodes if pool is None or node.pool == pool]

    def _put(self, path: str, data: bytes) -> None:
        node = self._session.get(path)
        if node is None:
            self._session.ensure(path.rpartition("/")[0])
        self._session.commit(Create(path, data) if node is None else Set(path, data))


class TestWorker:
    """A worker with a session of its own; a test runs its cycles, or a thread does (``begin``)."""

    __test__ = False

    def __init__(
        self,
        zookeeper: str,
        mechanism: PoolMechanism,
        clock: Clock,
        *,
        name: str = "w1",
        interval: float = 300.0,
        make_store: Callable[[Session], ZooKeeperPools] = ZooKeeperPools,
        make_leases: Callable[[Session], ZooKeeperLeases] = ZooKeeperLeases,
        session_timeout: float = 6.0,
    ) -> None:
        self.session = Session(zookeeper, session_timeout=session_timeout)
        self.store = make_store(self.session)
        self.control = Control(clock, grace=10)
        self.session.on_change(self.control.wake)
        mechanisms: Mapping[Any, PoolMechanism] = {
            AnsibleMechanism: mechanism,
            RoleMechanism: RoleNodes(
                make_leases(self.session), clock, lambda: self.tasks.must_end, AnsiblePlaybooks()
            ),
        }
        runs = TaskRuns(mechanisms, clock, lambda: self.tasks.must_end)
        self.tasks = NodeTasks(self.store, runs, wake=self.control.wake, is_stopped=lambda: self.control.stopping)
        self.worker = PoolWorker(
            self.store,
            ZooKeeperPoolSources(self.session, self.control.wake),
            runs,
            self.tasks,
            self.control,
            name=name,
            connect=self.session.open,
            connection=lambda: self.session.link,
            pulse=lambda: self.session.get(pool_paths.POOLS),
            session_timeout=session_timeout,
            interval=interval,
            clock=clock,
            notifier=SystemdNotifier(),
            record_failure=FailureRecord(self.session, "worker of the pools", identity=name).write,
        )
        self._thread = threading.Thread(target=self.worker.run, daemon=True)

    def __enter__(self) -> Self:
        self.session.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> Self:
        """Run cycles in a thread."""
        self._thread.start()
        return self

    def end(self) -> None:
        """End as a worker does that was asked to."""
        self.control.stop()
        if self._thread.is_alive():
            self._thread.join()
        self.session.close()

    def settle(self) -> None:
        """Run cycles until there is nothing left to do at present."""
        read = self.store.read()
        for _ in range(60):
            before = read
            self.worker.run_cycle()
            wait_until(lambda: not self.tasks.busy, "the end of all tasks")
            read = self.store.read()
            if before == read and not read.claimed:
                return
        raise AssertionError(f"not settled: {read}")
