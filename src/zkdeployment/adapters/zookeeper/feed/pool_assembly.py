"""Assembles the reading of the pools from followed nodes; what has not changed is not decoded again.

Of the sessions, the active ones are followed, which the guards of tenants list. A session that ends is followed
for one more reading, which shows how it ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.packed import unpack
from zkdeployment.adapters.zookeeper.client.reads import Read
from zkdeployment.adapters.zookeeper.feed.decoded_nodes import DecodedNodes
from zkdeployment.adapters.zookeeper.pools.pool_records import decode_record, guarded_sessions
from zkdeployment.adapters.zookeeper.publication.documents import document_path
from zkdeployment.documents.pools.kinds import POOLS
from zkdeployment.documents.pools.published import pools_in_force
from zkdeployment.documents.pools.values import PoolConfiguration
from zkdeployment.documents.published import PublishedDocuments
from zkdeployment.log import get_logger
from zkdeployment.pools.pool_json import node_from_json, session_from_json
from zkdeployment.pools.reading import PoolReading
from zkdeployment.pools.snapshot import PoolSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.feed.followed_nodes import FollowedNodes
    from zkdeployment.model.publication import DocumentKey
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.tenant_session import TenantSession

T = TypeVar("T")

_DOCUMENT: DocumentKey = (POOLS.name, ())

_LISTS = (paths.POOL_NODES, paths.POOL_TENANTS, paths.POOL_CLAIMS, paths.USERS)


class PoolAssembly:
    """The pools that followed nodes describe; it has the values that ``PoolStore.read`` reads at once."""

    def __init__(self, nodes: FollowedNodes) -> None:
        self._nodes = nodes
        self._decoded = DecodedNodes(nodes)
        self._reading = PoolReading()
        self._parts: tuple[object, ...] = ()

    def wanted(self) -> Iterator[Read]:
        """Yield everything that has to be followed, as far as the nodes read so far show it."""
        yield Read(document_path(_DOCUMENT))
        yield from (Read(path, children=True) for path in _LISTS)
        for directory in (paths.POOL_NODES, paths.POOL_TENANTS, paths.USERS):
            yield from (Read(f"{directory}/{name}") for name in self._nodes.children(directory))
        for number in {*self._listed(), *self._reading.snapshot.sessions}:
            yield Read(f"{paths.POOL_SESSIONS}/{number}")

    def reading(self) -> PoolReading:
        """Return the reading: the same object if nothing of it has changed."""
        configuration = self._decoded.value(document_path(_DOCUMENT), "", _configuration)
        nodes = self._all(paths.POOL_NODES, _node)
        guards = self._all(paths.POOL_TENANTS, _guard)
        users = self._all(paths.USERS, _user)
        claims = self._nodes.children(paths.POOL_CLAIMS)
        active, former = self._sessions(self._listed()), self._reading.snapshot.sessions
        ended = {
            number: session
            for number, session in self._sessions(former.keys() - active.keys()).items()
            if not session.is_active
        }
        active = {number: session for number, session in active.items() if session.is_active}
        parts = (configuration, claims, *nodes, *guards, *users, *active.values(), *ended.values())
        if len(parts) != len(self._parts) or any(map(_differ, parts, self._parts)):
            self._parts = parts
            self._reading = PoolReading(
                PoolConfiguration() if configuration is None else configuration,
                PoolSnapshot(
                    {node.id: node for node in nodes},
                    active,
                    frozenset(int(name) for name in claims if name.isdecimal()),
                    dict(guards),
                ),
                ended,
                dict(users),
            )
        self._decoded.forget()
        return self._reading

    def _listed(self) -> set[int]:
        """Return the ids of the sessions that guards list."""
        names = self._nodes.children(paths.POOL_TENANTS)
        guards = (self._nodes.node(f"{paths.POOL_TENANTS}/{name}") for name in names)
        return {number for guard in guards if guard is not None for number in guarded_sessions(guard)}

    def _all(self, directory: str, decode: Callable[[str, Node], T | None]) -> list[T]:
        values = (
            self._decoded.value(f"{directory}/{name}", name, decode) for name in self._nodes.children(directory)
        )
        return [value for value in values if value is not None]

    def _sessions(self, numbers: Iterable[int]) -> dict[int, TenantSession]:
        """Return those of the sessions that are known, in the order of their ids."""
        sessions: dict[int, TenantSession] = {}
        for number in sorted(numbers):
            session = self._decoded.value(f"{paths.POOL_SESSIONS}/{number}", str(number), _session)
            if session is not None:
                sessions[number] = session
        return sessions


def _configuration(_name: str, node: Node) -> PoolConfiguration | None:
    try:
        content = unpack(node.data)
    except ValueError as error:
        get_logger().warning("document-damaged", path=document_path(_DOCUMENT), reason=str(error))
        return None
    return pools_in_force(PublishedDocuments({_DOCUMENT: content})) if isinstance(content, dict) else None


def _node(name: str, node: Node) -> PoolNode | None:
    return decode_record(f"{paths.POOL_NODES}/{name}", node, node_from_json)


def _session(name: str, node: Node) -> TenantSession | None:
    return decode_record(f"{paths.POOL_SESSIONS}/{name}", node, session_from_json)


def _guard(name: str, node: Node) -> tuple[int, int] | None:
    """Return the tenant of a guard, and the guard's version."""
    return (int(name), node.version) if name.isdecimal() else None


def _user(name: str, node: Node) -> tuple[int, str] | None:
    """Return the id and the name of a user; of the key, nothing is kept."""
    number = node.properties.get("id")
    return (number, name) if isinstance(number, int) else None


def _differ(one: object, other: object) -> bool:
    return one is not other
