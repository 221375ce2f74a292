"""Writes: each is a transaction of one or more operations, which ZooKeeper does all or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from kazoo import exceptions

from zkdeployment.errors import ConflictError, DeniedError, TreeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ANY_VERSION = -1

#: Limits well below ZooKeeper's own (1 MiB a request), which it enforces by dropping the connection.
NODE_LIMIT = 512 * 1024
TRANSACTION_LIMIT = 800_000

#: What an operation takes beside its path and data.
_OVERHEAD = 64


@dataclass(frozen=True, slots=True)
class Create:
    """Make a node that must not be there."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """Replace the data of a node that must be there, at ``version``."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a node that must be there, at ``version`` and without children."""

    path: str
    version: int = ANY_VERSION
    data: ClassVar[bytes] = b""


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but fail unless the node is at ``version``."""

    path: str
    version: int
    data: ClassVar[bytes] = b""


Operation: TypeAlias = Create | Set | Delete | Check


class TransactionError(ConflictError):
    """A transaction that ZooKeeper refused as a whole, because of the node at ``path``."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


def size(operation: Operation, acl: int = 0) -> int:
    """About how many bytes an operation takes in a transaction; ``acl``: those of a node's access list."""
    listed = acl if isinstance(operation, Create) else 0
    return len(operation.path.encode()) + len(operation.data) + listed + _OVERHEAD


def check_data(operations: Iterable[Operation]) -> None:
    """Raise ``TreeError`` for data that no node can hold."""
    for operation in operations:
        if len(operation.data) > NODE_LIMIT:
            raise TreeError(
                f"{operation.path}: its properties take {len(operation.data)} bytes,"
                f" but a node holds {NODE_LIMIT} at most"
            )


def check_sizes(operations: Sequence[Operation], acl: int = 0) -> None:
    """Raise ``TreeError`` for data that no node can hold, or more than fits into one transaction."""
    check_data(operations)
    total = sum(size(operation, acl) for operation in operations)
    if total > TRANSACTION_LIMIT:
        raise TreeError(f"{len(operations)} changes take {total} bytes; a transaction holds {TRANSACTION_LIMIT}")


_REASONS = {
    exceptions.NoNodeError: "it, or the node it is to be under, does not exist",
    exceptions.NodeExistsError: "it exists already",
    exceptions.BadVersionError: "somebody else changed it",
    exceptions.NotEmptyError: "it has children",
    exceptions.NoChildrenForEphemeralsError: "the node above it is ephemeral",
}


def denied(what: str) -> DeniedError:
    """Return the error for something that ZooKeeper does not allow."""
    return DeniedError(
        f"ZooKeeper does not allow to {what}: missing rights (who we are is said by zookeeper-credentials or"
        " zookeeper-certificate in the configuration, else we are world:anyone)"
    )


def check_failures(operations: Sequence[Operation], failures: Sequence[exceptions.KazooException]) -> None:
    """Raise ``TransactionError`` (or ``DeniedError``, for lack of rights) for the operation that failed.

    ``failures`` are empty if all was done, else they say of each operation what ZooKeeper made of it.
    """
    for operation, failure in zip(operations, failures, strict=bool(failures)):
        if isinstance(failure, exceptions.RolledBackError | exceptions.RuntimeInconsistency):
            continue
        verb = type(operation).__name__.lower()
        if isinstance(failure, exceptions.NoAuthError):
            raise denied(f"{verb} {operation.path}")
        reason = _REASONS.get(type(failure), type(failure).__name__)
        raise TransactionError(f"cannot {verb} {operation.path}: {reason}", operation.path)
