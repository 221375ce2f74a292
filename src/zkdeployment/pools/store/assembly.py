"""Assembles the snapshot of the pools from their nodes, for reads at one moment and for followed nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from zkdeployment.base.json_values import readable
from zkdeployment.base.log import get_logger
from zkdeployment.base.records import Record
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.rules.node import PoolNode
from zkdeployment.pools.rules.snapshot import FillingRecord, PoolSnapshot, SessionRequest, TenantSession
from zkdeployment.zookeeper.nodes import Node, unpack
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import DecodedNodes, NodeCopies

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.zookeeper.session import Session


T = TypeVar("T")
R = TypeVar("R", bound=Record)


def decode_record(path: str, node: Node, kind: type[R], **apart: Any) -> R | None:
    """Return the record in a node; ``None`` for a damaged one, which is logged, so that all others can be used."""
    try:
        value = readable(unpack(node.data))
        return kind.from_json(value, **apart)
    except ValueError as error:
        get_logger().warning("pool-record-damaged", path=path, reason=str(error))
        return None


#: The directories of pools in the order in which they are read, with the nodes of a line before the next line.
#: Guards of a change come before the records on which it is decided, so no guard is newer than these. Requests
#: come before nodes: a request that gets nodes in between is read as waiting, and a process that takes its nodes
#: finds them changed. Sessions come last, so the state of a node is never newer than that of its session.
_ROUNDS = (
    (pool_paths.FILLING, pool_paths.TENANTS),
    (pool_paths.CLAIMS, pool_paths.HOSTS, pool_paths.WORKERS, pool_paths.WAITING, pool_paths.NODES),
    (pool_paths.SESSIONS,),
)


def read_snapshot(session: Session) -> PoolSnapshot:
    """Return the present snapshot; raises ``UnreachableError``."""
    read: dict[Read, Any] = {}
    for directories in _ROUNDS:
        listed = dict(zip(directories, session.look((), directories)[1], strict=True))
        read |= {Read(above, children=True): names for above, names in listed.items()}
        wanted = [f"{above}/{name}" for above, names in listed.items() for name in names or ()]
        read |= dict(zip(map(Read, wanted), session.get_many(wanted), strict=True))
    return pool_snapshot(DecodedNodes(NodeCopies(read)), session.id)


def pool_snapshot(nodes: DecodedNodes, session: int | None = None) -> PoolSnapshot:
    """Return the snapshot in the nodes that were read; a directory that was not read counts as empty.

    The claims of the session with the id ``session`` are the own claims. A damaged record of filling counts as an
    empty one, which is written anew.
    """

    def records(above: str, decode: Callable[[str, Node], T | None]) -> dict[str, T]:
        paths = {name: f"{above}/{name}" for name in nodes.children(above)}
        found = ((name, nodes.value(path, path, decode)) for name, path in paths.items())
        return {name: record for name, record in found if record is not None}

    def numbered(above: str, decode: Callable[[str, Node], T | None]) -> dict[int, T]:
        found = records(above, decode)
        return {int(name): found[name] for name in sorted(filter(str.isdecimal, found), key=int)}

    sessions = numbered(pool_paths.SESSIONS, stamped(TenantSession))
    owners = numbered(pool_paths.CLAIMS, lambda _path, node: node.owner)
    return PoolSnapshot(
        nodes=numbered(pool_paths.NODES, stamped(PoolNode)),
        sessions={number: found for number, found in sessions.items() if found.is_active},
        claimed=frozenset(map(int, filter(str.isdecimal, nodes.children(pool_paths.CLAIMS)))),
        tenants=numbered(pool_paths.TENANTS, lambda _path, node: node.version),
        own_claims=frozenset(number for number, owner in owners.items() if owner == session),
        filling=records(pool_paths.FILLING, _filling),
        hosts={unquote(name): number for name, number in records(pool_paths.HOSTS, named_node).items()},
        workers=tuple(map(unquote, nodes.children(pool_paths.WORKERS))),
        waiting=numbered(pool_paths.WAITING, stamped(SessionRequest)),
    )


def stamped(kind: type[R]) -> Callable[[str, Node], R | None]:
    """Return the function that decodes a record of this kind with the version of its node as stamp."""
    return lambda path, node: decode_record(path, node, kind, stamp=node.version)


def _filling(path: str, node: Node) -> FillingRecord:
    return decode_record(path, node, FillingRecord, stamp=node.version) or FillingRecord(stamp=node.version)


def named_node(_path: str, record: Node) -> int | None:
    """Return the id of the node in the record of a host; ``None`` if the record is damaged."""
    number = record.properties.get("node")
    return number if isinstance(number, int) else None
