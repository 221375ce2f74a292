"""The session with ZooKeeper: every call has a time limit and raises only our errors.

kazoo's listeners and watches run on its own threads: here they set events and call wake-up callbacks, which
must not block. All else happens in the caller's thread.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kazoo import exceptions
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry, RetryFailedError

from zkdeployment.adapters.zookeeper import transactions
from zkdeployment.adapters.zookeeper.addresses import parse, probe
from zkdeployment.adapters.zookeeper.clients import CLOSE_LIMIT, call_safely, discard, watch_data
from zkdeployment.adapters.zookeeper.nodes import Node, check_path
from zkdeployment.adapters.zookeeper.transactions import Create, Operation, TransactionError
from zkdeployment.errors import (
    ConfigurationError,
    RestartError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: Requests in flight during a pipelined read: more do not make it faster, only larger. kazoo writes a byte into a
#: socket pair for each, and blocks for good when some 270 are in it that a lost connection leaves unread.
WINDOW = 100

_DEAD = frozenset({"CLOSED", "AUTH_FAILED"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Read:
    """A node to be read in a pipeline: its data, or the names of its children."""

    path: str
    children: bool = False


class Session:
    """A connection that survives what it can; a context manager.

    ``connection`` is ``HOST:PORT[,HOST:PORT…][/CHROOT]``. ``session_timeout`` (seconds, the server may give less)
    is how long ephemeral nodes survive a silent client; ``call_timeout`` limits each call, ``close_timeout`` the
    end. With ``create_chroot`` a missing chroot is made, otherwise it is an error.

    A client that died is replaced once; after that calls raise ``RestartError``.
    """

    def __init__(
        self,
        connection: str,
        *,
        session_timeout: float = 30.0,
        call_timeout: float = 10.0,
        close_timeout: float = CLOSE_LIMIT,
        create_chroot: bool = False,
    ) -> None:
        self.connection = connection
        self.session_timeout = session_timeout
        self.call_timeout, self.close_timeout = call_timeout, close_timeout
        self._create_chroot = create_chroot
        self._hosts, self._chroot = parse(connection)
        self._client = self._make_client()
        self._replacing = threading.Lock()
        self._replaced = False
        self._connected = threading.Event()
        self._wakers: list[Callable[[], None]] = []
        self._watches: list[tuple[str, Callable[[], None]]] = []
        self._started = self._opened = False
        self._behind = True
        self._closed = False

    def _make_client(self) -> Any:
        client = KazooClient(
            hosts=self.connection,
            timeout=self.session_timeout,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=2, ignore_expire=False),
            command_retry=self._retry(),
        )
        client.add_listener(lambda state: self._listen(client, state))
        return client

    def _retry(self) -> KazooRetry:
        return KazooRetry(max_tries=-1, delay=0.05, max_delay=1, deadline=self.call_timeout, ignore_expire=False)

    # The life of the session

    def open(self) -> None:
        """Connect; raises ``UnreachableError`` that names the address if that does not work in time.

        May be called again then.
        """
        if not self._started:
            probe(self._hosts)
            self._client.start_async()
            self._started = True
        self._wait_connected(time.monotonic() + self.call_timeout)
        if self._chroot and self.get("/") is None:
            self._make_chroot()

    def close(self) -> None:
        """End the session and with it its ephemeral nodes; never hangs, may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._connected.clear()
        worker = discard(self._client)
        worker.join(self.close_timeout)
        if worker.is_alive():
            get_logger().warning("zookeeper-close-timeout", connection=self.connection, seconds=self.close_timeout)

    def __enter__(self) -> Self:
        try:
            self.open()
        except ZkdeploymentError:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether the client can still come back by itself; if not, it has to be replaced."""
        return not self._closed and (not self._opened or self._client.client_state not in _DEAD)

    @property
    def connected(self) -> bool:
        """Whether a server answers at the moment, as far as is known."""
        return self._connected.is_set()

    @property
    def id(self) -> int | None:
        """The session id that owns our ephemeral nodes, while connected."""
        found = self._client.client_id
        return None if found is None else found[0]

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) when the connection or the session is lost or comes back."""
        self._wakers.append(changed)

    # Reading

    def get(self, path: str) -> Node | None:
        """Read a node; ``None`` if there is none."""
        check_path(path)
        answer = self._read(path, lambda: self._client.get_async(path))
        return None if answer is None else Node.read(answer)

    def children(self, path: str) -> list[str] | None:
        """Read the names of a node's children, sorted; ``None`` if there is no such node."""
        check_path(path)
        names = self._read(path, lambda: self._client.get_children_async(path))
        return None if names is None else sorted(names)

    def exists(self, path: str, watch: Callable[[object], None]) -> bool:
        """Whether a node exists; calls ``watch`` (which must not block) once when that or its data changes."""
        check_path(path)
        return self._read(path, lambda: self._client.exists_async(path, watch=watch)) is not None

    def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        """Read nodes in one pipelined round, in this order."""
        waiting = [Read(check_path(path)) for path in paths]
        found = self._again(f"read {len(waiting)} nodes", lambda: list(self._pipeline(deque(waiting))))
        return [None if answer is None else Node.read(answer) for _, answer in found]

    def get_many_seen(self, paths: Iterable[str]) -> tuple[int, list[Node | None]]:
        """Like ``get_many``; return also the last transaction that was seen before: all reads saw its effects."""
        wanted = [Read(check_path(path)) for path in paths]

        def attempt() -> tuple[int, list[tuple[Read, Any]]]:
            self._get_ready(time.monotonic() + self.call_timeout)
            seen, session = self._client.last_zxid, self.id
            found = list(self._pipeline(deque(wanted)))
            if self.id != session:
                raise exceptions.ConnectionLoss  # the new one may be with a server that lags behind ``seen``
            return seen, found

        seen, found = self._again(f"read {len(wanted)} nodes", attempt)
        return seen, [None if answer is None else Node.read(answer) for _, answer in found]

    def pipeline(self, waiting: deque[Read]) -> Iterator[tuple[Read, Any]]:
        """Send many reads, ``WINDOW`` at a time, and give each with kazoo's answer (``None``: no such node).

        ``waiting`` is emptied on the way; the caller may append to it between answers.
        """
        try:
            yield from self._pipeline(waiting)
        except exceptions.ConnectionLoss as error:
            raise UnreachableError(f"ZooKeeper at {self.connection} went away while reading") from error

    def _pipeline(self, waiting: deque[Read]) -> Iterator[tuple[Read, Any]]:
        flying: deque[tuple[Read, Any]] = deque()
        self._get_ready(time.monotonic() + self.call_timeout)
        while waiting or flying:
            while waiting and len(flying) < WINDOW:
                read = waiting.popleft()
                send = self._client.get_children_async if read.children else self._client.get_async
                flying.append((read, send(read.path)))
            read, result = flying.popleft()
            try:
                yield read, self._answer(result, time.monotonic() + self.call_timeout, f"read {read.path}")
            except exceptions.NoNodeError:
                yield read, None

    # Writing

    def commit(self, *operations: Operation) -> None:
        """Do all operations or none.

        Raises ``TransactionError`` (a ``ConflictError``) if a node is not as expected. After ``UnreachableError``
        they may have been done: read again.
        """
        results = self._once(lambda: transactions.request(self._client, operations).commit_async())
        transactions.check_results(operations, results)

    def ensure(self, path: str, data: bytes = b"") -> None:
        """Make a node, and bare ones above it, unless they are there."""
        if self.get(path) is not None:
            return
        parent = path.rpartition("/")[0]
        if parent:
            self.ensure(parent)
        with contextlib.suppress(TransactionError):
            self.commit(Create(path, data))

    def enqueue(self, path: str, data: bytes, *, ephemeral: bool = True) -> str:
        """Make a node whose name is ``path`` and the next number; return its path.

        After ``UnreachableError`` it may have been made.
        """
        check_path(path)
        try:
            made: str = self._once(
                lambda: self._client.create_async(path, data, ephemeral=ephemeral, sequence=True),
                f"create {path}",
            )
        except exceptions.NoNodeError as error:
            raise TransactionError(
                f"cannot create {path}: the node it is to be under does not exist", path
            ) from error
        return made

    # Watching

    def watch(self, path: str, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) now and whenever the node at ``path`` may have changed.

        Also after the connection was lost: read again then. Several changes may come as one call.
        """
        check_path(path)
        self.on_change(changed)
        self._watches.append((path, changed))
        watch_data(self._client, path, changed)

    def later(self, work: Callable[[], None]) -> None:
        """Do ``work`` in the background again and again until it succeeds or this client is closed.

        For cleaning up what the session owns when the server does not answer just now.
        """

        def persist() -> None:
            while not self._closed:
                try:
                    self._wait_connected(time.monotonic() + self.call_timeout)
                    work()
                except UnreachableError:
                    continue
                except RestartError:
                    return
                except ZkdeploymentError as error:
                    get_logger().warning("zookeeper-clean-up-failed", error=str(error))
                return

        run = contextvars.copy_context().run  # its lines in the log say what ours do
        threading.Thread(target=run, args=(persist,), name="zookeeper-clean-up", daemon=True).start()

    # Inside

    def _listen(self, client: Any, state: str) -> None:
        """Note the connection's state; kazoo calls this on the thread that all else waits for."""
        if client is not self._client:
            return  # it was replaced
        if state == KazooState.LOST:
            self._behind = True
        if state == KazooState.CONNECTED and not self._closed:
            self._opened = True
            self._connected.set()
        else:
            self._connected.clear()
        for changed in self._wakers:
            call_safely(changed)

    def _make_chroot(self) -> None:
        if not self._create_chroot:
            raise ConfigurationError(f"ZooKeeper at {self.connection} has no node {self._chroot}")
        addresses = self.connection.partition("/")[0]
        with Session(addresses, session_timeout=self.session_timeout, call_timeout=self.call_timeout) as whole:
            whole.ensure(self._chroot)

    def _replace(self) -> None:
        """Put a new client in the place of one that died; raises ``RestartError`` the second time."""
        with self._replacing:
            if self.alive:
                return  # another thread was faster
            if self._closed or self._replaced:
                raise RestartError(f"the client of ZooKeeper at {self.connection} is dead; start again")
            get_logger().error("zookeeper-client-replaced", connection=self.connection)
            self._replaced = self._behind = True
            self._opened = False  # as kazoo has it, a client is closed until it is connected
            self._connected.clear()
            discard(self._client)
            self._client = self._make_client()
            self._client.start_async()
            for path, changed in self._watches:
                watch_data(self._client, path, changed)

    def _wait_connected(self, deadline: float) -> None:
        if not self.alive:
            self._replace()
        if not self._connected.wait(max(0.0, deadline - time.monotonic())):
            raise UnreachableError(f"ZooKeeper at {self.connection} does not answer")

    def _get_ready(self, deadline: float) -> None:
        self._wait_connected(deadline)
        if self._behind:
            # A new session may be with a server that lags behind what the last one showed.
            self._answer(self._client.sync_async("/"), deadline)
            self._behind = False

    def _read(self, path: str, send: Callable[[], Any]) -> Any:
        def attempt() -> Any:
            deadline = time.monotonic() + self.call_timeout
            self._get_ready(deadline)
            try:
                return self._answer(send(), deadline, f"read {path}")
            except exceptions.NoNodeError:
                return None

        return self._again(f"read {path}", attempt)

    def _again(self, what: str, attempt: Callable[[], T]) -> T:
        """Repeat reads over dropped connections, within the time limit."""
        try:
            found: T = self._retry()(attempt)
        except (RetryFailedError, exceptions.ConnectionLoss) as error:
            raise UnreachableError(f"ZooKeeper at {self.connection} went away ({what})") from error
        return found

    def _once(self, send: Callable[[], Any], doing: str = "write") -> Any:
        """Write: if the connection drops meanwhile nobody knows whether it was done, so it is not repeated."""
        deadline = time.monotonic() + self.call_timeout
        try:
            self._get_ready(deadline)
            return self._answer(send(), deadline, doing)
        except exceptions.ConnectionLoss as error:
            raise UnreachableError(f"ZooKeeper at {self.connection} went away during a write") from error

    def _answer(self, result: Any, deadline: float, doing: str = "use it") -> Any:
        """Wait for an answer; only a missing node and a dropped connection are left to the caller."""
        try:
            return result.get(timeout=max(0.0, deadline - time.monotonic()))
        except (exceptions.NoNodeError, exceptions.ConnectionLoss):
            raise
        except KazooTimeoutError as error:
            raise UnreachableError(f"ZooKeeper at {self.connection} did not answer in time") from error
        except exceptions.SessionExpiredError as error:
            raise UnreachableError(f"the session with ZooKeeper at {self.connection} was lost") from error
        except (exceptions.NoAuthError, exceptions.AuthFailedError) as error:
            raise transactions.denied(doing) from error
        except exceptions.KazooException as error:
            raise UnreachableError(f"ZooKeeper at {self.connection} failed: {type(error).__name__}") from error
