"""Executes the requests of kazoo, and those that zkdeployment builds itself, on a simulated server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kazoo import exceptions
from kazoo.protocol import serialization
from kazoo.protocol.serialization import MultiHeader, int_struct, read_acl, read_buffer, read_string

from simulation.server_tree import Write
from zkdeployment.zookeeper.nodes import Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulation.ensemble import Server

_WRITES = frozenset(
    {
        serialization.Create.type,
        serialization.SetData.type,
        serialization.Delete.type,
        serialization.Transaction.type,
        serialization.Sync.type,
    }
)
_MULTI_READ = 22


def is_write(request: Any) -> bool:
    """Return whether a request goes through the leader."""
    return request.type in _WRITES


def writes_of(request: Any) -> list[Write]:
    """Return the writes of a request; none for ``sync``."""
    if request.type == serialization.Sync.type:
        return []
    if request.type == serialization.Transaction.type:
        return _decode(bytes(request.serialize()))
    return [_write(request)]


def _write(request: Any) -> Write:
    match request:
        case serialization.Create(path, data, _, flags):
            return Write("create", path, data, ephemeral=bool(flags & 1), sequential=bool(flags & 2))
        case serialization.SetData(path, data, version):
            return Write("set", path, data, version)
        case serialization.Delete(path, version):
            return Write("delete", path, b"", version)
    raise NotImplementedError(f"the simulated ZooKeeper does not know {request}")


def read_paths(request: Any) -> list[tuple[str, bool]]:
    """Return the paths that a request reads, and whether it reads their children."""
    reads = _decode_reads(bytes(request.serialize())) if request.type == _MULTI_READ else [request]
    return [(read.path, read.type == serialization.GetChildren.type) for read in reads]


def answer_write(request: Any, paths: Sequence[str], failures: list[Any] | None, server: Server) -> Any:
    """Return the answer to a write, which may be an exception."""
    if request.type == serialization.Sync.type:
        return request.path
    if isinstance(request, serialization.Transaction):
        return failures or [*paths]
    if request.type == serialization.Transaction.type:
        return failures or []
    if failures is not None:
        return failures[0]
    if isinstance(request, serialization.Create):
        return paths[0]
    return True if isinstance(request, serialization.Delete) else server.tree.nodes[request.path].stat


def answer_read(request: Any, server: Server, watcher: Any) -> Any:
    """Return the answer to a read, which may be an exception, and set its watch."""
    if request.type == _MULTI_READ:
        return [
            answer
            if read.type == serialization.GetChildren.type or isinstance(answer, Exception)
            else Node.read(answer)
            for read in _decode_reads(bytes(request.serialize()))
            for answer in [_read(read, server)]
        ]
    answer = _read(request, server)
    if getattr(request, "watcher", None):
        _watch(request, server, watcher, missing=isinstance(answer, Exception))
    if isinstance(request, serialization.Exists) and isinstance(answer, exceptions.NoNodeError):
        return None
    return answer


def _read(request: Any, server: Server) -> Any:
    node = server.tree.nodes.get(request.path)
    if node is None:
        return exceptions.NoNodeError()
    match request:
        case serialization.GetData():
            return node.data, node.stat
        case serialization.GetChildren():
            return list(node.children)
        case serialization.Exists():
            return node.stat
    raise NotImplementedError(f"the simulated ZooKeeper does not know {request}")


def _watch(request: Any, server: Server, watcher: Any, *, missing: bool) -> None:
    if missing and not isinstance(request, serialization.Exists):
        return
    server.watch(watcher, request.path, children=isinstance(request, serialization.GetChildren))


def _decode(body: bytes) -> list[Write]:
    """Decode a transaction."""
    writes = []
    header, offset = MultiHeader.deserialize(body, 0)
    while not header.done:
        path, offset = read_string(body, offset)
        if header.type == serialization.Create.type:
            data, offset = read_buffer(body, offset)
            (entries,) = int_struct.unpack_from(body, offset)
            offset += int_struct.size
            for _ in range(entries):
                _, offset = read_acl(body, offset)
            (flags,) = int_struct.unpack_from(body, offset)
            offset += int_struct.size
            writes.append(Write("create", path, data, ephemeral=bool(flags & 1), sequential=bool(flags & 2)))
        else:
            data = b""
            if header.type == serialization.SetData.type:
                data, offset = read_buffer(body, offset)
            (version,) = int_struct.unpack_from(body, offset)
            offset += int_struct.size
            writes.append(Write(_KINDS[header.type], path, data or b"", version))
        header, offset = MultiHeader.deserialize(body, offset)
    return writes


def _decode_reads(body: bytes) -> Iterator[Any]:
    """Yield the reads of one request."""
    header, offset = MultiHeader.deserialize(body, 0)
    while not header.done:
        path, offset = read_string(body, offset)
        yield _READS[header.type](path, None)
        header, offset = MultiHeader.deserialize(body, offset + 1)


_READS = {read.type: read for read in (serialization.GetData, serialization.GetChildren)}

_KINDS = {
    serialization.SetData.type: "set",
    serialization.Delete.type: "delete",
    serialization.CheckVersion.type: "check",
}
