"""Reads and writes in a ZooKeeper session; every call has a time limit and raises only our errors."""

from __future__ import annotations

import contextlib
import contextvars
import math
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kazoo import exceptions
from kazoo.exceptions import KazooException
from kazoo.protocol.states import Callback
from kazoo.retry import RetryFailedError
from kazoo.security import OPEN_ACL_UNSAFE

from zkdeployment.base.errors import (
    ConfigurationError,
    DeniedError,
    RestartError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.base.log import get_logger
from zkdeployment.zookeeper.access import acl_entries
from zkdeployment.zookeeper.connection import Connection
from zkdeployment.zookeeper.encoding import TransactionRequest, encode_acl, encode_transaction
from zkdeployment.zookeeper.nodes import Node, check_path
from zkdeployment.zookeeper.reads import Read, follow_each, read_together
from zkdeployment.zookeeper.servers import Servers
from zkdeployment.zookeeper.transactions import (
    Check,
    Create,
    Operation,
    TransactionError,
    check_data,
    check_failures,
    check_size,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.json_values import Lookup, Properties
    from zkdeployment.zookeeper.servers import AclEntry


def send(client: Any, operations: Sequence[Operation]) -> Any:
    """Send operations as one request and return kazoo's future: the list of failures, empty after success.

    Raises ``ConfigurationError`` for a path and ``TreeError`` for data that ZooKeeper does not accept.
    """
    check_data(operations)
    request = TransactionRequest(encode_transaction(client.chroot, operations, access_list(client)))
    check_size(operations, len(request.body))
    result = client.handler.async_result()
    client._call(request, result)  # noqa: SLF001  kazoo has no other way for requests that it does not know
    return result


def _send_queued(client: Any, above: Check, creation: Create) -> Any:
    """Send the creation of a sequential node, with a check, and return kazoo's future: the results or failures."""
    transaction = client.transaction()
    transaction.check(above.path, above.version)
    transaction.create(creation.path, creation.data, acl=client.default_acl, sequence=True)
    return transaction.commit_async()


def _created(path: str, wait: Callable[[], str]) -> str:
    """Wait for the creation of a sequential node, and return its path."""
    try:
        return wait()
    except exceptions.NoNodeError as error:
        reason = f"cannot create {path}: the node it is to be under does not exist"
        raise TransactionError(reason, path) from error


def access_list(client: Any) -> bytes:
    """Return the access list of a new node in the request's form; by default everyone may do everything."""
    return encode_acl(tuple(client.default_acl or OPEN_ACL_UNSAFE))


#: Single reads in flight during a pipelined read; more would not make it faster. kazoo writes a byte into a socket
#: pair for each request and blocks forever when a lost connection leaves some 270 of them unread.
WINDOW = 100

#: The number of reads that are sent as one request, and of such requests in flight. The server builds the answer
#: to each request in its memory.
TOGETHER = 50
_REQUESTS = 4

_AGAIN = 1.0  # seconds between two attempts at cleaning up

T = TypeVar("T")


class Session(Connection):
    """A connection with reads and writes.

    ``options`` are those of ``Connection``. With ``create_chroot`` a missing chroot is created; otherwise it is an
    error.
    """

    def __init__(self, servers: Servers | str, *, create_chroot: bool = False, **options: float) -> None:
        super().__init__(servers, **options)
        self._create_chroot = create_chroot

    def open(self) -> None:
        """Connect and check the chroot; raises ``UnreachableError``, with the address, if no server answers.

        After this error, ``open`` may be called again.
        """
        super().open()
        if self._chroot and self.get("/") is None:
            self._make_chroot()

    # Reading

    def get(self, path: str, watch: Callable[[object], None] | None = None) -> Node | None:
        """Return a node; ``None`` if it does not exist.

        ``watch`` (which must not block) is called once when the node that was read changes or is removed, or when
        the connection is lost.
        """
        check_path(path)
        answer = self._read(path, lambda: self._client.get_async(path, watch=watch))
        return None if answer is None else Node.read(answer)

    def children(self, path: str, watch: Callable[[object], None] | None = None) -> list[str] | None:
        """Return the sorted names of a node's children; ``None`` if the node does not exist.

        ``watch`` (which must not block) is called once when the children change.
        """
        check_path(path)
        names = self._read(path, lambda: self._client.get_children_async(path, watch=watch))
        return None if names is None else sorted(names)

    def exists(self, path: str, watch: Callable[[object], None]) -> bool:
        """Whether a node exists; ``watch`` (which must not block) is called once when that or its data changes."""
        check_path(path)
        return self._read(path, lambda: self._client.exists_async(path, watch=watch)) is not None

    def acl(self, path: str) -> tuple[tuple[AclEntry, ...], int] | None:
        """Return a node's access list, and the session that owns it (0: persistent); ``None`` without the node."""
        answer = self._read(path, lambda: self._client.get_acls_async(path))
        return None if answer is None else (acl_entries(answer[0]), int(answer[1].ephemeralOwner))

    def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        """Return nodes in the given order, read in one pipelined round."""
        return self.get_many_seen(paths)[1]

    def get_many_seen(self, paths: Iterable[str]) -> tuple[int, list[Node | None]]:
        """Return the nodes as ``get_many`` does, and the last transaction that every read has seen."""
        return self._read_many([Read(check_path(path)) for path in paths])

    def get_in(self, paths: Iterable[str], *, requests: int) -> list[Node | None]:
        """Return nodes in the given order, read with at most ``requests`` requests for any number of nodes.

        Only for small nodes, because the server builds the answer to each request in its memory.
        """
        wanted = [Read(check_path(path)) for path in paths]
        return self._read_many(wanted, together=max(1, math.ceil(len(wanted) / requests)))[1]

    def look(
        self, nodes: Sequence[str], children: Sequence[str]
    ) -> tuple[list[Node | None], list[list[str] | None]]:
        """Return nodes, and the sorted child names of other nodes, in order, read in one pipelined round."""
        _, answers = self._read_many(
            [Read(check_path(path)) for path in nodes]
            + [Read(check_path(path), children=True) for path in children]
        )
        return (
            answers[: len(nodes)],
            [None if names is None else sorted(names) for names in answers[len(nodes) :]],
        )

    def children_and_node(self, directory: str, path: str) -> tuple[list[str] | None, Node | None]:
        """Return the sorted names of a node's children, and another node, read in this order with one request."""
        _, (names, node) = self._read_many([Read(check_path(directory), children=True), Read(check_path(path))])
        return None if names is None else sorted(names), node

    def pipeline(self, waiting: deque[Read]) -> Iterator[tuple[Read, Any]]:
        """Send many reads, a limited number at a time, and yield each with its answer (``None``: no such node).

        ``waiting`` is consumed; the caller may append to it between answers.
        """
        try:
            yield from self._pipeline(waiting)
        except exceptions.ConnectionLoss as error:
            raise UnreachableError(f"ZooKeeper at {self.connection} went away while reading") from error

    def last_transaction(self) -> int:
        """Return a transaction that every later read sees, with one small request.

        When this method returns, the watches of all changes up to that transaction have been called.
        """
        self._read("/", lambda: self._client.exists_async("/"))
        seen = self.seen
        self.settle_watches()
        return seen

    def settle_watches(self) -> None:
        """Wait until all watches have been called for changes that any read has already seen.

        Raises ``UnreachableError`` if that takes too long. A watch must not call this method.
        """
        called = threading.Event()
        self._client.handler.dispatch_callback(Callback("watch", called.set, ()))  # after those of earlier events
        if not called.wait(self.call_timeout):
            raise UnreachableError(f"the events of ZooKeeper at {self.connection} were not processed in time")

    @property
    def seen(self) -> int:
        """The newest transaction in any answer to this client; 0 before the first answer."""
        return int(self._client.last_zxid or 0)

    def follow(self, reads: Sequence[Read], changed: Callable[[Any], None]) -> Iterator[tuple[Read, Any]]:
        """Read nodes or names of children in pipelined requests, and yield each with its answer.

        ``changed`` (which must not block) is called once with kazoo's event when an answer may be outdated, also
        after a lost connection. The answer is ``None`` for a missing node; its creation counts as a change.
        """
        for read in reads:
            check_path(read.path)
        try:
            self._get_ready(time.monotonic() + self.call_timeout)
            for read, answer in follow_each(self._client, reads, changed, WINDOW, self._await):
                yield read, Node.read(answer) if answer is not None and not read.children else answer
        except exceptions.ConnectionLoss as error:
            raise UnreachableError(f"ZooKeeper at {self.connection} went away while reading") from error

    def _await(self, result: Any, read: Read) -> Any:
        try:
            return self._answer(result, time.monotonic() + self.call_timeout, f"read {read.path}")
        except exceptions.NoNodeError:
            return None

    def _read_many(self, wanted: list[Read], *, together: int = TOGETHER) -> tuple[int, list[Any]]:
        """Return the last transaction that every read has seen, and the answers of one pipelined round."""

        def attempt() -> tuple[int, list[Any]]:
            self._get_ready(time.monotonic() + self.call_timeout)
            seen, session = self._client.last_zxid, self.id
            answers = [answer for _, answer in self._pipeline(deque(wanted), together)]
            if self.id != session:
                raise exceptions.ConnectionLoss  # the new session's server may lag behind ``seen``
            return seen, answers

        return self._again(f"read {len(wanted)} nodes", attempt)

    def _pipeline(self, waiting: deque[Read], together: int = TOGETHER) -> Iterator[tuple[Read, Any]]:
        flying: deque[tuple[list[Read], Any]] = deque()
        self._get_ready(time.monotonic() + self.call_timeout)
        while waiting or flying:
            while waiting and len(flying) < _REQUESTS:
                reads = [waiting.popleft() for _ in range(min(together, len(waiting)))]
                flying.append((reads, read_together(self._client, reads)))
            reads, sent = flying.popleft()
            answers = self._answer(sent, time.monotonic() + self.call_timeout)
            for read, answer in zip(reads, answers, strict=True):
                if isinstance(answer, KazooException):
                    self._require_missing(answer, read)
                    yield read, None
                else:
                    yield read, answer

    def _require_missing(self, error: KazooException, read: Read) -> None:
        """Raise our error for the failure of a read, unless its node is missing."""
        if not isinstance(error, exceptions.NoNodeError):
            raise self._failure(error, f"read {read.path}")

    def sync(self) -> None:
        """Wait until reads see everything that any client wrote before this call."""
        self._again("sync", self._sync)

    # Writing

    @property
    def acl_size(self) -> int:
        """The size in bytes of a new node's access list in a transaction."""
        return len(access_list(self._client))

    def commit(self, *operations: Operation) -> None:
        """Execute all operations or none.

        Raises ``TransactionError`` (a ``ConflictError``) if a node is not as expected. After ``UnreachableError``
        the outcome is unknown: read it.
        """
        self.begin(*operations)()

    def begin(self, *operations: Operation) -> Callable[[], None]:
        """Send a transaction and return a function that waits for its end and raises what ``commit`` raises.

        ZooKeeper executes later requests after this transaction, whether or not it succeeds.
        """
        wait = self._write(lambda: send(self._client, operations))
        return lambda: check_failures(operations, wait())

    def ensure(self, path: str, data: bytes = b"") -> None:
        """Create a node, and its missing parents without data, unless they exist."""
        if self.get(path) is not None:
            return
        parent = path.rpartition("/")[0]
        if parent:
            self.ensure(parent)
        with contextlib.suppress(TransactionError):
            self.commit(Create(path, data))

    def enqueue(self, path: str, data: bytes) -> str:
        """Create an ephemeral, sequential node: ``path`` with the next number appended; return its path.

        After ``UnreachableError`` the node may exist.
        """
        return self.begin_enqueue(path, data)()

    def begin_enqueue(self, path: str, data: bytes) -> Callable[[], str]:
        """Send what ``enqueue`` sends, and return a function that waits for its end and returns the node's path.

        ZooKeeper executes later requests after it.
        """
        check_path(path)
        send = partial(self._client.create_async, path, data, ephemeral=True, sequence=True)
        wait = self._write(send, f"create {path}")
        return lambda: _created(path, wait)

    def enqueue_lasting(self, path: str, data: bytes, version: int) -> str:
        """Create a persistent, sequential node below a node that is at ``version``; return its path.

        After ``UnreachableError`` the node may exist, or be created until the node above it is changed. Raises
        ``TransactionError`` if that node has another version.
        """
        above, creation = Check(check_path(path).rpartition("/")[0], version), Create(path, data)
        results = self._write(lambda: _send_queued(self._client, above, creation), f"create {path}")()
        check_failures([above, creation], [result for result in results if isinstance(result, KazooException)])
        return str(results[-1])

    # Cleaning up

    def later(self, work: Callable[[], None]) -> None:
        """Retry ``work`` in the background until it succeeds or this client is closed.

        If the server denies the removal of nodes of this session, the nodes end when a new session replaces it.
        """

        def persist() -> None:
            while not self._closed:
                try:
                    self._wait_connected(time.monotonic() + self.call_timeout)
                    work()
                except (UnreachableError, DeniedError):
                    time.sleep(_AGAIN)  # the request may have failed at once
                    continue
                except RestartError:
                    return
                except ZkdeploymentError as error:
                    get_logger().warning("zookeeper-clean-up-failed", error=str(error))
                return

        run = contextvars.copy_context().run  # its log lines carry the same context as ours
        threading.Thread(target=run, args=(persist,), name="zookeeper-clean-up", daemon=True).start()

    # Inside

    def _make_chroot(self) -> None:
        if not self._create_chroot:
            raise ConfigurationError(f"ZooKeeper at {self.connection} has no node {self._chroot}")
        servers = Servers(self.connection.partition("/")[0], self._access)
        with Session(servers, session_timeout=self.session_timeout, call_timeout=self.call_timeout) as whole:
            whole.ensure(self._chroot)

    def _sync(self) -> None:
        deadline = time.monotonic() + self.call_timeout
        self._get_ready(deadline)
        self._answer(self._client.sync_async("/"), deadline)

    def _read(self, path: str, send: Callable[[], Any]) -> Any:
        def attempt() -> Any:
            deadline = time.monotonic() + self.call_timeout
            self._get_ready(deadline)
            try:
                return self._answer(send(), deadline, f"read {path}")
            except exceptions.NoNodeError:
                return None

        return self._again(f"read {path}", attempt)

    def _again(self, action: str, attempt: Callable[[], T]) -> T:
        """Return the result of reads, repeated after dropped connections within the time limit."""
        try:
            answer: T = self._retry()(attempt)
        except (RetryFailedError, exceptions.ConnectionLoss) as error:
            raise UnreachableError(f"ZooKeeper at {self.connection} went away ({action})") from error
        return answer

    def _write(self, send: Callable[[], Any], doing: str = "write") -> Callable[[], Any]:
        """Send a write and return a function that waits for its answer; the time limit covers both.

        A write is not repeated: after a dropped connection its outcome is unknown.
        """
        deadline = time.monotonic() + self.call_timeout

        def wait() -> Any:
            with self._losing():
                return self._answer(sent, deadline, doing)

        with self._losing():
            self._get_ready(deadline)
            sent = send()
        return wait

    @contextlib.contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except exceptions.ConnectionLoss as error:
            raise UnreachableError(f"ZooKeeper at {self.connection} went away during a write") from error


def verb_session(servers: Servers) -> Session:
    """Return the session of a verb, which is opened as a context manager; that raises ``UnreachableError``."""
    return Session(servers, session_timeout=10.0)


def lookup(session: Session, known: Mapping[str, Properties | None] | None = None) -> Lookup:
    """Return the function with which ``tree.links`` reads nodes; each node is read at most once.

    ``known`` has nodes that were read before.
    """
    read: dict[str, Properties | None] = dict(known or {})

    def look(path: str) -> Properties | None:
        if path not in read:
            node = session.get(path)
            read[path] = None if node is None else node.properties
        return read[path]

    return look
