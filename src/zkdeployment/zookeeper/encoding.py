"""Transactions in the form in which they are sent, encoded here instead of in kazoo, and their answers.

kazoo builds an object for each operation and copies its bytes three times, which takes longer than anything else
in a large publication.
"""

from __future__ import annotations

import functools
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Delete,
    SetData,
    Transaction,
    int_struct,
    multiheader_struct,
    write_string,
)

from zkdeployment.base.values import dataclass
from zkdeployment.zookeeper import transactions
from zkdeployment.zookeeper.access import kazoo_acl
from zkdeployment.zookeeper.nodes import check_path, under
from zkdeployment.zookeeper.reads import END, FAILED, HEAD, failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kazoo.exceptions import KazooException
    from kazoo.security import ACL

    from zkdeployment.zookeeper.transactions import Operation

_LASTING, _EPHEMERAL = int_struct.pack(0), int_struct.pack(1)


@functools.cache
def encode_acl(acl: tuple[ACL, ...]) -> bytes:
    """Return an access list in the form of requests."""
    return bytes(int_struct.pack(len(acl))) + b"".join(
        int_struct.pack(entry.perms) + write_string(entry.id.scheme) + write_string(entry.id.id) for entry in acl
    )


def encode_transaction(chroot: str, operations: Sequence[Operation], acl: bytes) -> bytes:
    """Return the body of a transaction; ``acl`` is the access list of nodes without their own.

    Raises ``ConfigurationError`` for a path that ZooKeeper does not accept.
    """
    parts: list[bytes] = []
    add, head, number = parts.extend, HEAD.pack, int_struct.pack
    lasting = acl + _LASTING
    for operation in operations:
        path = under(chroot, check_path(operation.path)).encode()
        length = len(path)
        if isinstance(operation, transactions.Create):
            last = _last(operation, acl) if operation.ephemeral or operation.acl else lasting
            data = operation.data
            add((head(Create.type, 0, FAILED, length), path, number(len(data)), data, last))
        elif isinstance(operation, transactions.Set):
            data = operation.data
            add((head(SetData.type, 0, FAILED, length), path, number(len(data)), data, number(operation.version)))
        else:
            kind = (Delete if isinstance(operation, transactions.Delete) else CheckVersion).type
            add((head(kind, 0, FAILED, length), path, number(operation.version)))
    parts.append(END)
    return b"".join(parts)


def _last(operation: transactions.Create, acl: bytes) -> bytes:
    """Return the end of a creation: the access list and the flags."""
    listed = encode_acl((*kazoo_acl(operation.acl),)) if operation.acl else acl
    return b"".join((listed, _EPHEMERAL if operation.ephemeral else _LASTING))


def decode_failures(body: bytes, offset: int) -> list[KazooException]:
    """Return the failures in the answer to a transaction: empty after success, else one for each operation."""
    failures = []
    kind, done, _ = multiheader_struct.unpack_from(body, offset)
    while kind == FAILED and not done:
        (number,) = int_struct.unpack_from(body, offset + multiheader_struct.size)
        failures.append(failure(number))
        offset += multiheader_struct.size + int_struct.size
        kind, done, _ = multiheader_struct.unpack_from(body, offset)
    return failures


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """A transaction, with the methods that kazoo's connection calls."""

    body: bytes = field(repr=False)

    type: ClassVar[int] = Transaction.type

    def serialize(self) -> bytes:
        """Return the body of the request."""
        return self.body

    def deserialize(self, body: bytes, offset: int) -> list[KazooException]:
        """Return the failures."""
        return decode_failures(body, offset)
