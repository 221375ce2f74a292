"""Transactions of operations on nodes, and the nodes on which every client relies."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from kazoo import exceptions

from zkdeployment.base.cluster import INITIAL
from zkdeployment.base.errors import ConflictError, DeniedError, TreeError, ZkdeploymentError
from zkdeployment.base.values import dataclass
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zkdeployment.zookeeper.servers import AclEntry
    from zkdeployment.zookeeper.session import Session


ANY_VERSION = -1

#: Bytes, well below ZooKeeper's own limit (1 MiB a request), which it enforces by dropping the connection.
NODE_LIMIT = 512 * 1024
TRANSACTION_LIMIT = 800_000

#: Bytes of an operation beside its path and data.
_OVERHEAD = 64


class Create(NamedTuple):
    """Create a node, which must not exist; ``acl`` is its access list, by default that of the session."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    acl: tuple[AclEntry, ...] = ()


class Set(NamedTuple):
    """Replace the data of a node, which must exist at ``version``."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a node, which must exist at ``version`` and have no children."""

    path: str
    version: int = ANY_VERSION
    data: ClassVar[bytes] = b""


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but fail the transaction unless the node is at ``version``."""

    path: str
    version: int
    data: ClassVar[bytes] = b""


#: Creations and sets are tuples, because a publication of a large tree makes tens of thousands of them. The others
#: are not, because tuples with equal fields are equal.
Operation: TypeAlias = Create | Set | Delete | Check


class TransactionError(ConflictError):
    """ZooKeeper refused the whole transaction because of the node at ``path``."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


def size(operation: Operation, acl: int = 0) -> int:
    """Return the approximate bytes of an operation in a transaction; ``acl`` are those of the session's list."""
    listed = 0
    if isinstance(operation, Create):
        own = operation.acl
        listed = sum(len(entry.scheme) + len(entry.identity) + 12 for entry in own) if own else acl
    path = operation.path
    return (len(path) if path.isascii() else len(path.encode())) + len(operation.data) + listed + _OVERHEAD


def check_data(operations: Iterable[Operation]) -> None:
    """Raise ``TreeError`` for data that is too large for a node."""
    for operation in operations:
        if len(operation.data) > NODE_LIMIT:
            raise TreeError(
                f"{operation.path}: its properties take {len(operation.data)} bytes,"
                f" but a node holds {NODE_LIMIT} at most"
            )


def check_sizes(operations: Sequence[Operation], acl: int = 0) -> None:
    """Raise ``TreeError`` for data that is too large for a node, or operations too large for a transaction."""
    check_data(operations)
    check_size(operations, sum(size(operation, acl) for operation in operations))


def check_size(operations: Sequence[Operation], total: int) -> None:
    """Raise ``TreeError`` for operations whose ``total`` bytes are too many for a transaction."""
    if total > TRANSACTION_LIMIT:
        raise TreeError(f"{len(operations)} changes take {total} bytes; a transaction holds {TRANSACTION_LIMIT}")


_REASONS = {
    exceptions.NoNodeError: "it, or the node it is to be under, does not exist",
    exceptions.NodeExistsError: "it exists already",
    exceptions.BadVersionError: "another client changed it",
    exceptions.NotEmptyError: "it has children",
    exceptions.NoChildrenForEphemeralsError: "the node above it is ephemeral",
}


def denied(action: str) -> DeniedError:
    """Return the error for an action that ZooKeeper denies."""
    return DeniedError(
        f"ZooKeeper does not allow to {action}: missing rights; set zookeeper-credentials or zookeeper-certificate"
        " in the configuration to an identity with these rights (without either, the identity is world:anyone)"
    )


def check_failures(operations: Sequence[Operation], failures: Sequence[exceptions.KazooException]) -> None:
    """Raise ``TransactionError`` for the operation that failed, or ``DeniedError`` if rights were missing.

    ``failures`` is empty after success, else it holds an exception for each operation.
    """
    for operation, failure in zip(operations, failures, strict=bool(failures)):
        if isinstance(failure, exceptions.RolledBackError | exceptions.RuntimeInconsistency):
            continue
        verb = type(operation).__name__.lower()
        if isinstance(failure, exceptions.NoAuthError):
            raise denied(f"{verb} {operation.path}")
        reason = _REASONS.get(type(failure), type(failure).__name__)
        raise TransactionError(f"cannot {verb} {operation.path}: {reason}", operation.path)


#: The transactions that are sent before the first answer; more of them would take no less time.
_UNDER_WAY = 4

#: Sends a transaction, and returns the function that waits for its end and raises its error.
Begin: TypeAlias = "Callable[[Sequence[Operation]], Callable[[], None]]"


def commit_each(begin: Begin, transactions: Iterable[Sequence[Operation]]) -> None:
    """Commit transactions that do not depend on each other; send the next ones while earlier ones are executed.

    ZooKeeper executes them in order. After an error, no more are sent, and the error is raised when all those that
    were sent have ended: some of them may have been executed although an earlier one failed.
    """
    under_way: deque[Callable[[], None]] = deque()
    try:
        for operations in transactions:
            if len(under_way) == _UNDER_WAY:
                under_way.popleft()()
            under_way.append(begin(operations))
        while under_way:
            under_way.popleft()()
    except ZkdeploymentError:
        for wait in under_way:
            with contextlib.suppress(ZkdeploymentError):  # the first error is the cause
                wait()
        raise


def commit_all_but_last(begin: Begin, transactions: Iterator[Sequence[Operation]]) -> Sequence[Operation]:
    """Commit all transactions but the last one, and return the last one.

    The first one has ended before the second is sent, and all of them have ended when this function returns: the
    first one sets the mark that the others check, and the last one must not be executed unless all others were.
    """
    first, second = next(transactions), next(transactions, None)
    if second is None:
        return first
    commit_each(begin, [first])
    last = second

    def others() -> Iterator[Sequence[Operation]]:
        nonlocal last
        for following in transactions:
            yield last
            last = following

    commit_each(begin, others())
    return last


def make_skeleton(session: Session) -> None:
    """Create the missing nodes; ``/hosts`` starts at version ``initial``."""
    nodes = session.get_many(paths.SKELETON)
    missing = [Create(path, _data(path)) for path, node in zip(paths.SKELETON, nodes, strict=True) if node is None]
    if not missing:
        return
    try:
        session.commit(*missing)
    except TransactionError:  # another client creates them at the same time
        for creation in missing:
            session.ensure(creation.path, creation.data)


def _data(path: str) -> bytes:
    return encode({"version": INITIAL}) if path == paths.HOSTS else b""


#: The number of attempts at a transaction while other processes write to the same nodes.
_ATTEMPTS = 50


def commit_afresh(session: Session, make: Callable[[], Iterable[Operation] | None], aim: str) -> bool:
    """Commit the operations that ``make`` returns after it has read the nodes; read again after each conflict.

    Returns ``False`` when ``make`` returns ``None``: the nodes no longer need the change. Without operations, the
    nodes are already as wanted and nothing is sent. ``aim`` completes the ``ConflictError`` "cannot …", which is
    raised after many attempts.
    """
    reason: ConflictError | None = None
    for _ in range(_ATTEMPTS):
        try:
            made = make()
            if operations := tuple(made or ()):
                session.commit(*operations)
        except ConflictError as error:
            reason = error
        else:
            return made is not None
    raise ConflictError(
        f"cannot {aim}: other writers changed its nodes during each of {_ATTEMPTS} attempts ({reason}); try again"
    )
