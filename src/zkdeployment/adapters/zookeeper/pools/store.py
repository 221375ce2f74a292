"""Nodes and sessions of pools: one node in ZooKeeper for each, changed by compare-and-set (a ``PoolStore``).

The guard of a tenant lists the tenant's active sessions. It changes with each of them, so that two concurrent
requests cannot exceed the quota. A claim is an ephemeral node: it ends with the process that works on the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.packed import pack, unpack
from zkdeployment.adapters.zookeeper.client.transactions import Create, Delete, Operation, Set, TransactionError
from zkdeployment.adapters.zookeeper.publication.documents import read_published_documents
from zkdeployment.documents.pools.kinds import POOLS
from zkdeployment.documents.pools.published import pools_in_force
from zkdeployment.errors import ConflictError, TreeError
from zkdeployment.log import get_logger
from zkdeployment.pools.pool_json import node_from_json, node_to_json, session_from_json, session_to_json
from zkdeployment.pools.snapshot import PoolSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.documents.pools.values import PoolConfiguration
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.snapshot import PoolChange
    from zkdeployment.pools.tenant_session import TenantSession

T = TypeVar("T")

#: Attempts at the counter while others take ids.
_ATTEMPTS = 50

_DIRECTORIES = (
    paths.POOL_NODES,
    paths.POOL_NODES_DONE,
    paths.POOL_SESSIONS,
    paths.POOL_TENANTS,
    paths.POOL_CLAIMS,
)


class ZooKeeperPools:
    """The pools through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._has_directories = False

    def configuration(self) -> PoolConfiguration:
        return pools_in_force(read_published_documents(self._session, (POOLS.name,)))

    def read(self) -> PoolSnapshot:
        nodes = self._read_all(paths.POOL_NODES, node_from_json)
        claimed = frozenset(_numbers(self._session.children(paths.POOL_CLAIMS)))
        guards = self._guards(_numbers(self._session.children(paths.POOL_TENANTS)))
        listed = [number for _, numbers in guards.values() for number in numbers]
        sessions = self._read_some(paths.POOL_SESSIONS, listed, session_from_json)
        return PoolSnapshot(
            {node.id: node for node in nodes},
            {session.id: session for session in sessions if session.is_active},
            claimed,
            {tenant: version for tenant, (version, _) in guards.items()},
        )

    def node(self, number: int) -> PoolNode | None:
        for directory in (paths.POOL_NODES, paths.POOL_NODES_DONE):
            found = self._read_some(directory, [number], node_from_json)
            if found:
                return found[0]
        return None

    def session(self, number: int) -> TenantSession | None:
        return next(iter(self._read_some(paths.POOL_SESSIONS, [number], session_from_json)), None)

    def take_ids(self, count: int) -> Sequence[int]:
        self._ensure_directories()
        for _ in range(_ATTEMPTS):
            counter = self._session.get(paths.POOLS)
            last = counter.properties.get("last_id", 0) if counter is not None else 0
            if counter is None or not isinstance(last, int):
                raise TreeError(
                    f"{paths.POOLS} has no valid last_id; set it to the largest id of a node or a session"
                )
            try:
                self._session.commit(Set(paths.POOLS, encode({"last_id": last + count}), counter.version))
            except TransactionError:
                continue
            return range(last + 1, last + 1 + count)
        raise ConflictError(f"{paths.POOLS} is changed all the time; try again")

    def commit(self, change: PoolChange, read: PoolSnapshot) -> None:
        self._ensure_directories()
        self._session.commit(
            *self._guarding(change, read),
            *(operation for node in change.nodes for operation in _writing_node(node)),
            *(Delete(_path(paths.POOL_NODES, node.id), _version(node)) for node in change.deleted),
            *(_writing_session(session) for session in change.sessions),
            *(Delete(_path(paths.POOL_SESSIONS, session.id), _version(session)) for session in change.dropped),
            *(Create(_path(paths.POOL_CLAIMS, number), ephemeral=True) for number in sorted(change.claimed)),
            *(Delete(_path(paths.POOL_CLAIMS, number)) for number in sorted(change.released)),
        )

    def _guarding(self, change: PoolChange, read: PoolSnapshot) -> Iterator[Operation]:
        """Yield the operations on the guards of the tenants whose sessions begin or end."""
        active = {number: session.tenant for number, session in read.sessions.items()}
        after = dict(active)
        for session in change.sessions:
            if session.is_active:
                after[session.id] = session.tenant
            else:
                after.pop(session.id, None)
        for session in change.dropped:
            after.pop(session.id, None)
        tenants = {session.tenant for session in (*change.sessions, *change.dropped)}
        for tenant in sorted(tenants):
            numbers = sorted(number for number, owner in after.items() if owner == tenant)
            if numbers == sorted(number for number, owner in active.items() if owner == tenant):
                continue
            path, data = _path(paths.POOL_TENANTS, tenant), encode({"sessions": [*numbers]})
            version = read.tenants.get(tenant)
            yield Create(path, data) if version is None else Set(path, data, version)

    def _guards(self, tenants: Iterable[int]) -> dict[int, tuple[int, Sequence[int]]]:
        """Return the version and the sessions of each guard, by tenant."""
        tenants = list(tenants)
        nodes = self._session.get_many(_path(paths.POOL_TENANTS, tenant) for tenant in tenants)
        guards: dict[int, tuple[int, Sequence[int]]] = {}
        for tenant, node in zip(tenants, nodes, strict=True):
            if node is not None:
                sessions = node.properties.get("sessions", [])
                numbers = (
                    [number for number in sessions if isinstance(number, int)]
                    if isinstance(sessions, list)
                    else []
                )
                guards[tenant] = node.version, numbers
        return guards

    def _read_all(self, directory: str, decode: Callable[[Mapping[str, Any], int], T]) -> list[T]:
        return self._read_some(directory, _numbers(self._session.children(directory)), decode)

    def _read_some(
        self, directory: str, numbers: Iterable[int], decode: Callable[[Mapping[str, Any], int], T]
    ) -> list[T]:
        wanted = [_path(directory, number) for number in numbers]
        nodes = zip(wanted, self._session.get_many(wanted), strict=True)
        decoded = (_decoded(path, node, decode) for path, node in nodes if node is not None)
        return [found for found in decoded if found is not None]

    def _ensure_directories(self) -> None:
        if not self._has_directories:
            for directory in _DIRECTORIES:
                self._session.ensure(directory)
            self._has_directories = True


def _writing_node(node: PoolNode) -> Iterator[Operation]:
    """Yield the operations that write a node; a node that is done moves to where nobody looks for nodes."""
    data, path = pack(node_to_json(node)), _path(paths.POOL_NODES, node.id)
    if not node.is_active:
        yield Create(_path(paths.POOL_NODES_DONE, node.id), data)
        yield Delete(path, _version(node))
    elif node.stamp is None:
        yield Create(path, data)
    else:
        yield Set(path, data, node.stamp)


def _writing_session(session: TenantSession) -> Operation:
    data, path = pack(session_to_json(session)), _path(paths.POOL_SESSIONS, session.id)
    return Create(path, data) if session.stamp is None else Set(path, data, session.stamp)


def _version(written: PoolNode | TenantSession) -> int:
    """Return the version at which a node or a session was read; what was never read has none."""
    if written.stamp is None:
        raise ConflictError(f"{written.id} was never written; read again and retry")
    return written.stamp


def _decoded(path: str, node: Node, decode: Callable[[Mapping[str, Any], int], T]) -> T | None:
    """Return a decoded record; a damaged one is logged and does not exist, so that all others can be used."""
    try:
        value = unpack(node.data)
        return decode(value if isinstance(value, dict) else {}, node.version)
    except (KeyError, TypeError, ValueError) as error:
        get_logger().warning("pool-record-damaged", path=path, reason=repr(error))
        return None


def _numbers(names: Iterable[str] | None) -> list[int]:
    return sorted(int(name) for name in names or () if name.isdecimal())


def _path(directory: str, number: int) -> str:
    return f"{directory}/{number}"
