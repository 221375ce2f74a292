"""Sends a transaction as one request. The request is built here: kazoo takes ten times as long to build it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import EXCEPTIONS, KazooException
from kazoo.protocol.serialization import (
    CheckVersion,
    Delete,
    MultiHeader,
    SetData,
    Transaction,
    int_struct,
    write_buffer,
    write_string,
)
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.security import ACL, OPEN_ACL_UNSAFE

from zkdeployment.adapters.zookeeper.client import transactions
from zkdeployment.adapters.zookeeper.client.access import kazoo_acl
from zkdeployment.adapters.zookeeper.client.nodes import check_path, under
from zkdeployment.adapters.zookeeper.client.transactions import check_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.adapters.zookeeper.client.transactions import Operation


def _header(kind: int) -> bytes:
    return bytes(MultiHeader(kind, False, -1).serialize())


_CREATE, _SET, _DELETE, _CHECK = (
    _header(request.type) for request in (CreateRequest, SetData, Delete, CheckVersion)
)
_END = bytes(MultiHeader(-1, True, -1).serialize())
_FAILED = -1

_LASTING, _EPHEMERAL = int_struct.pack(0), int_struct.pack(1)


def send(client: Any, operations: Sequence[Operation]) -> Any:
    """Send operations as one request and return kazoo's future: the list of failures, empty after success.

    Raises ``ConfigurationError`` for a path and ``TreeError`` for data that ZooKeeper does not accept.
    """
    acl = access_list(client)
    request = _Request(_body(client.chroot, operations, acl))
    check_sizes(operations, len(acl))
    result = client.handler.async_result()
    client._call(request, result)  # noqa: SLF001  kazoo has no other way for requests that it does not know
    return result


def access_list(client: Any) -> bytes:
    """Return the access list of a new node in the request's form; by default everyone may do everything."""
    return _access_list(tuple(client.default_acl or OPEN_ACL_UNSAFE))


@functools.cache
def _access_list(acl: tuple[ACL, ...]) -> bytes:
    return bytes(int_struct.pack(len(acl))) + b"".join(
        int_struct.pack(entry.perms) + write_string(entry.id.scheme) + write_string(entry.id.id) for entry in acl
    )


def _body(chroot: str, operations: Sequence[Operation], acl: bytes) -> bytearray:
    body = bytearray()
    for operation in operations:
        path = write_string(under(chroot, check_path(operation.path)))
        match operation:
            case transactions.Create(_, data, ephemeral, own):
                listed = _access_list(tuple(kazoo_acl(own))) if own else acl
                body += _CREATE + path + write_buffer(data) + listed + (_EPHEMERAL if ephemeral else _LASTING)
            case transactions.Set(_, data, version):
                body += _SET + path + write_buffer(data) + int_struct.pack(version)
            case transactions.Delete(_, version):
                body += _DELETE + path + int_struct.pack(version)
            case transactions.Check(_, version):
                body += _CHECK + path + int_struct.pack(version)
    return body + _END


@dataclass(frozen=True, slots=True)
class _Request:
    """The request, with the methods that kazoo's connection calls."""

    body: bytearray = field(repr=False)

    type = Transaction.type

    def serialize(self) -> bytearray:
        """Return the body of the request."""
        return self.body

    def deserialize(self, body: bytes, offset: int) -> list[KazooException]:
        """Return the failures: empty after success, else an exception for each operation."""
        failures = []
        header, offset = MultiHeader.deserialize(body, offset)
        while header.type == _FAILED and not header.done:
            (number,) = int_struct.unpack_from(body, offset)
            failures.append(EXCEPTIONS.get(number, KazooException)())
            header, offset = MultiHeader.deserialize(body, offset + int_struct.size)
        return failures
