"""The connection to ZooKeeper: its client, the client's health, and the replacement of a dead client.

kazoo runs listeners and watches on its own threads. Listeners and watches only set events and call wake-up
callbacks, which must not block. Everything else happens in the caller's thread.
"""

from __future__ import annotations

import contextlib
import math
import select
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from kazoo import exceptions
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.recipe.watchers import DataWatch
from kazoo.retry import ForceRetryError, KazooRetry

from zkdeployment.base.daemon.connection_status import ConnectionStatus
from zkdeployment.base.errors import ConfigurationError, RestartError, UnreachableError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass
from zkdeployment.zookeeper.access import client_options, connect, encryption, newest_transaction, parse, probe
from zkdeployment.zookeeper.nodes import check_path
from zkdeployment.zookeeper.servers import Access, Servers
from zkdeployment.zookeeper.transactions import denied

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Iterator, Sequence


#: Seconds until a client that does not end is abandoned.
CLOSE_LIMIT = 5.0


def discard(client: Any) -> threading.Thread:
    """Stop an unused client in the background, as stopping may hang; return the thread."""

    def close() -> None:
        try:
            client.close()
        except Exception as error:  # kazoo does not close a client that is already ending
            raise ForceRetryError from error

    def stop() -> None:
        with contextlib.suppress(Exception):  # errors of an unused client have no effect
            client.stop()
            KazooRetry(max_tries=-1, delay=0.05, max_delay=0.05, max_jitter=0, deadline=CLOSE_LIMIT)(close)

    worker = threading.Thread(target=stop, name="close-zookeeper", daemon=True)
    worker.start()
    return worker


def watch_data(client: Any, path: str, changed: Callable[[], None]) -> None:
    """Call ``changed`` now and whenever the node at ``path`` may have changed, for as long as the client lives."""

    def wake(_data: object, _stat: object, _event: object) -> None:
        call_safely(changed)

    # The registration waits for the server without a limit, so it must not run in the caller's thread.
    client.handler.spawn(DataWatch, client, path, wake)


@dataclass(frozen=True)
class WatchHandler:
    """A watch that calls ``changed``; kazoo keeps only one of equal handlers on a node."""

    changed: Callable[[], None]

    def __call__(self, _event: object) -> None:
        """Call the function at every event."""
        call_safely(self.changed)


def call_safely(changed: Callable[[], None]) -> None:
    """Call a wake-up function on kazoo's thread; its exceptions are logged, as they would end that thread."""
    try:
        changed()
    except Exception:  # noqa: BLE001  kazoo would call it again, or end its connection
        get_logger().exception("zookeeper-callback-failed")


class Silence:
    """The time without answers, counted only while calls wait; it is too long after ``patience`` seconds.

    After ``doubtful`` seconds, it is doubtful that the servers are only away.
    """

    def __init__(self, patience: float, doubtful: float) -> None:
        self.patience = patience
        self.doubtful = doubtful
        self.renewals = 0  # new clients since the last answer
        self._since: float | None = None
        self._lock = threading.Lock()
        self._waiting: dict[object, float] = {}  # the start of each call that waits for its answer
        self._answered = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time in which a call waits for its answer."""
        call = object()
        with self._lock:
            self._waiting[call] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[call]

    @property
    def seconds(self) -> float:
        """The seconds since the last answer while calls wait; 0 if no call waits."""
        with self._lock:
            if not self._waiting:
                return 0.0
            return time.monotonic() - max(self._answered, min(self._waiting.values()))

    def begin(self) -> None:
        """Record a call without an answer."""
        if self._since is None:
            self._since = time.monotonic()

    def end(self) -> None:
        """Record an answer, which ends the silence."""
        self._since, self.renewals = None, 0
        self._answered = time.monotonic()

    def renew(self) -> None:
        """Reset the time for a new client."""
        self._since, self.renewals = time.monotonic(), self.renewals + 1

    @property
    def too_long(self) -> bool:
        """Whether the silence has lasted longer than ``patience``."""
        return self._lasts(self.patience)

    @property
    def is_doubtful(self) -> bool:
        """Whether the silence has lasted longer than ``doubtful``."""
        return self._lasts(self.doubtful)

    def _lasts(self, seconds: float) -> bool:
        return self._since is not None and time.monotonic() - self._since >= seconds


#: Events after which reading, or writing, does not block; a read or write also reports hang-ups and errors.
_READABLE = ~select.POLLOUT
_WRITABLE = ~select.POLLIN


class ThreadHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's thread handler for a client with this access to its servers."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access

    def select(
        self, reading: Sequence[Any], writing: Sequence[Any], _other: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the sockets that can be read, and those that can be written, after at most ``timeout`` seconds.

        kazoo waits four times for each request, each time with a new epoll of five system calls. One system call
        is enough here. Raises ``ValueError`` for a closed socket.
        """
        readers = {readable.fileno(): readable for readable in reading}
        writers = {writable.fileno(): writable for writable in writing}
        poll = select.poll()
        for number in readers.keys() | writers.keys():
            events = select.POLLIN if number in readers else 0
            poll.register(number, events | (select.POLLOUT if number in writers else 0))
        found = poll.poll(None if timeout is None else math.ceil(timeout * 1000))
        if any(events & select.POLLNVAL for _, events in found):
            raise ValueError("a socket was closed just before it was waited for")
        return (
            [readers[number] for number, events in found if events & _READABLE and number in readers],
            [writers[number] for number, events in found if events & _WRITABLE and number in writers],
            [],
        )

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_options: object
    ) -> socket.socket:
        """Return a connection to an address of ``hostname``; raises ``OSError``."""
        try:
            context = encryption(self._access)
        except ConfigurationError as error:  # the certificate is being renewed: kazoo retries
            raise OSError(str(error)) from error
        return connect(address, hostname, timeout, context)


#: Seconds without an answer until a client is replaced. As all servers may be away for longer, only one
#: replacement is tried; after it the process restarts and waits until a server can be reached.
PATIENCE = 300.0

#: Seconds without an answer until the servers are asked whether they refuse the client because of older data.
_DOUBTFUL = 60.0

_DEAD = frozenset({"CLOSED", "AUTH_FAILED"})


class Connection:
    """A connection that reconnects by itself; a context manager.

    ``servers`` holds the addresses and credentials; a connection string is enough where there are no credentials.
    Times are in seconds: ``session_timeout`` is how long ephemeral nodes survive a silent client (the server may
    grant less), ``call_timeout`` limits each call, ``close_timeout`` limits closing. A client that died is
    replaced. A client without an answer for ``patience`` seconds is replaced, too; after ``doubtful`` seconds, it
    is replaced if the servers have older data than it has seen: they never accept it. Calls raise ``RestartError``
    instead of replacing more than ``replacements`` clients that died, or as many since a server answered last.
    Set ``replacements`` (1) to ``math.inf`` in a process that must not end.
    """

    def __init__(
        self,
        servers: Servers | str,
        *,
        session_timeout: float = 30.0,
        call_timeout: float = 10.0,
        close_timeout: float = CLOSE_LIMIT,
        patience: float = PATIENCE,
        doubtful: float = _DOUBTFUL,
    ) -> None:
        servers = Servers(servers) if isinstance(servers, str) else servers
        self.connection = servers.connection
        self._access = servers.access
        self.session_timeout = session_timeout
        self.call_timeout, self.close_timeout = call_timeout, close_timeout
        self._hosts, self._chroot = parse(self.connection)
        self._granted: float | None = None
        encryption(self._access)  # reports unusable files at once
        self._client = self._make_client()
        self._replacing = threading.Lock()
        self.replacements, self._replaced = 1.0, 0
        self._silence = Silence(patience, doubtful)
        self._connected = threading.Event()
        self._wakers: list[Callable[[], None]] = []
        self._watches: list[tuple[str, Callable[[], None]]] = []
        self._link = ConnectionStatus()
        self._last_id: int | None = None
        self._started = self._opened = False
        self._sessions_lost, self._synced_after = 1, 0  # sessions that were lost before the last sync
        self._closed = False

    def _make_client(self) -> Any:
        client = KazooClient(
            hosts=self.connection,
            timeout=self.session_timeout,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=2, ignore_expire=False),
            command_retry=self._retry(),
            handler=ThreadHandler(self._access),
            **client_options(self._access),
        )
        client.add_listener(lambda state: self._listen(client, state))
        self._note_granted_time(client)
        return client

    def _note_granted_time(self, client: Any) -> None:
        """Note the session timeout that the server grants, because kazoo keeps only two thirds of it."""
        connection = client._connection  # noqa: SLF001  kazoo has no other way to it
        connect = connection._connect  # noqa: SLF001

        def connect_and_note(*arguments: Any) -> Any:
            read_timeout, connect_timeout = connect(*arguments)
            self._granted = read_timeout * 1.5 / 1000
            return read_timeout, connect_timeout

        connection._connect = connect_and_note  # noqa: SLF001

    def _retry(self) -> KazooRetry:
        return KazooRetry(max_tries=-1, delay=0.05, max_delay=1, deadline=self.call_timeout, ignore_expire=False)

    # The life of the session

    def open(self) -> None:
        """Connect; raises ``UnreachableError``, which names the address, if no server answers in time.

        After this error, ``open`` may be called again.
        """
        if not self._started:
            probe(self._hosts, self._encryption(), timeout=self.call_timeout)
            self._client.start_async()
            self._started = True
        self._wait_connected(time.monotonic() + self.call_timeout)

    def close(self) -> None:
        """End the session and remove its ephemeral nodes; never hangs, and may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._connected.clear()
        worker = discard(self._client)
        worker.join(self.close_timeout)
        if worker.is_alive():
            get_logger().warning("zookeeper-close-timeout", connection=self.connection, seconds=self.close_timeout)

    @property
    def local_address(self) -> str | None:
        """The address of this machine in the connection to the server; ``None`` without a connection."""
        open_socket = self._client._connection._socket  # noqa: SLF001  kazoo has no other way to its socket
        try:
            return None if open_socket is None else str(open_socket.getsockname()[0])
        except OSError:
            return None

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
        """Whether the client can still reconnect by itself; otherwise it has to be replaced."""
        return not self._closed and (not self._opened or self._client.client_state not in _DEAD)

    @property
    def connected(self) -> bool:
        """Whether the client is connected, as far as it knows."""
        return self._connected.is_set()

    @property
    def id(self) -> int | None:
        """The session id that owns our ephemeral nodes, while connected."""
        client_id = self._client.client_id
        return None if client_id is None else client_id[0]

    @property
    def link(self) -> ConnectionStatus:
        """The state of the connection, and how often the connection and the session were replaced."""
        return replace(self._link, connected=self.connected, silent=self._silence.seconds, granted=self._granted)

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) when the connection or the session is lost or restored."""
        self._wakers.append(changed)

    def watch(self, path: str, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) now and whenever the node at ``path`` may have changed.

        A lost connection causes a call, too. Several changes may cause a single call.
        """
        check_path(path)
        self.on_change(changed)
        self._watches.append((path, changed))
        watch_data(self._client, path, changed)

    # Inside

    def _encryption(self) -> ssl.SSLContext | None:
        """Return the TLS context; raises ``UnreachableError`` for unusable files: they are being renewed."""
        try:
            return encryption(self._access)
        except ConfigurationError as error:
            raise UnreachableError(str(error)) from error

    def _listen(self, client: Any, state: str) -> None:
        """Record the connection's state; kazoo calls this on the thread that delivers all its events."""
        if client is not self._client:
            return  # the client was replaced
        if state == KazooState.LOST:
            self._sessions_lost += 1
        if state == KazooState.CONNECTED and not self._closed:
            self._opened = True
            self._count()
            self._connected.set()
        else:
            self._connected.clear()
        for changed in self._wakers:
            call_safely(changed)

    def _count(self) -> None:
        new = self.id != self._last_id
        self._last_id = self.id
        self._link = ConnectionStatus(connections=self._link.connections + 1, sessions=self._link.sessions + new)

    def _replace(self) -> None:
        """Replace a client that died; raises ``RestartError`` after all ``replacements``."""
        with self._replacing:
            if self.alive:
                return  # another thread was faster
            if self._closed or self._replaced >= self.replacements:
                raise RestartError(f"the client of ZooKeeper at {self.connection} is dead; start again")
            get_logger().error("zookeeper-client-replaced", connection=self.connection, reason="it is dead")
            self._replaced += 1
            self._rebuild()

    def _note_silence(self) -> None:
        self._silence.begin()
        client = self._client
        if self._silence.too_long:
            self._renew(client, f"no server has answered for {self._silence.patience:g} seconds")
        elif self._silence.is_doubtful and (older := self._older_data(client)):
            self._renew(client, older)

    def _older_data(self, client: Any) -> str:
        """Return that the servers have older data than the client has seen, so that they refuse it; else empty."""
        found = newest_transaction(self._hosts, self._encryption(), timeout=self.call_timeout)
        if found is None or found >= client.last_zxid:
            return ""
        return (
            f"the servers went back: expected transaction {client.last_zxid:#x} or a later one, found {found:#x};"
            " ZooKeeper was wiped or restored from an old backup, or this is another ensemble"
        )

    def _renew(self, client: Any, reason: str) -> None:
        """Replace a client that gets no answer; raises ``RestartError`` after all ``replacements``."""
        with self._replacing:
            if client is not self._client:
                return  # another thread was faster
            if self._silence.renewals >= self.replacements:
                raise RestartError(f"ZooKeeper at {self.connection}: {reason}, nor a client before; start again")
            get_logger().error("zookeeper-client-replaced", connection=self.connection, reason=reason)
            self._silence.renew()
            self._rebuild()

    def _rebuild(self) -> None:
        self._sessions_lost += 1
        self._opened = False  # kazoo counts a client as closed until it is connected
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
            self._note_silence()
            raise UnreachableError(f"ZooKeeper at {self.connection} does not answer")

    def _get_ready(self, deadline: float) -> None:
        self._wait_connected(deadline)
        lost = self._sessions_lost
        if self._synced_after != lost:
            # The server of a new session may lag behind the previous server. The new session may be lost, too.
            self._answer(self._client.sync_async("/"), deadline)
            self._synced_after = lost

    def _answer(self, result: Any, deadline: float, doing: str = "use it") -> Any:
        """Return kazoo's answer; the caller handles only missing nodes and dropped connections."""
        try:
            with self._silence.waiting():
                answer = result.get(timeout=max(0.0, deadline - time.monotonic()))
        except (exceptions.NoNodeError, exceptions.ConnectionLoss) as error:
            if isinstance(error, exceptions.NoNodeError):
                self._silence.end()
            raise
        except KazooTimeoutError as error:
            self._note_silence()
            raise UnreachableError(f"ZooKeeper at {self.connection} did not answer in time") from error
        except exceptions.KazooException as error:
            raise self._failure(error, doing) from error
        self._silence.end()
        return answer

    def _failure(self, error: exceptions.KazooException, doing: str) -> ZkdeploymentError:
        """Return our error for an error of kazoo."""
        if isinstance(error, exceptions.SessionExpiredError):
            return UnreachableError(f"the session with ZooKeeper at {self.connection} was lost")
        if isinstance(error, exceptions.NoAuthError | exceptions.AuthFailedError):
            return denied(doing)
        if isinstance(error, exceptions.UnimplementedError):
            return UnreachableError(f"ZooKeeper at {self.connection} is too old: expected 3.6 or later")
        return UnreachableError(f"ZooKeeper at {self.connection} failed: {type(error).__name__}")
