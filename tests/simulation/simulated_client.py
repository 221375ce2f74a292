"""kazoo's client on a simulated network: only the socket, the threads and the server are replaced.

Requests, watches, listeners and the states of the session are kazoo's own code.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, RuntimeInconsistency
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import Callback, EventType, KeeperState, WatchedEvent

from simulation import green
from simulation.requests import answer_read, answer_write, is_write, writes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.ensemble import Server, ServerSession
    from simulation.network import Network


class Answer:
    """kazoo's ``AsyncResult`` for green threads."""

    __slots__ = ("_links", "_ready", "_scheduler", "_waits", "exception", "value")

    def __init__(self, scheduler: green.Scheduler) -> None:
        self._scheduler = scheduler
        self._ready = False
        self._waits: list[green.Wait] = []
        self._links: list[Callable[[Answer], None]] = []
        self.value: Any = None
        self.exception: Exception | None = None

    def ready(self) -> bool:
        """Whether there is a value or an exception."""
        return self._ready

    def set(self, value: Any = None) -> None:
        """Store the value."""
        self.value, self._ready = value, True
        self._wake()

    def set_exception(self, exception: Exception) -> None:
        """Store the exception."""
        self.exception, self._ready = exception, True
        self._wake()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the value or raise the exception, when there is one."""
        if not self._ready and block:
            wait = self._scheduler.begin_wait()
            self._waits.append(wait)
            self._scheduler.block(wait, timeout)
        if not self._ready:
            raise KazooTimeoutError
        if self.exception is not None:
            raise self.exception
        return self.value

    def get_nowait(self) -> Any:
        """Return the value or raise the exception."""
        return self.get(block=False)

    def rawlink(self, callback: Callable[[Answer], None]) -> None:
        """Call ``callback`` with this answer when it is there."""
        if self._ready:
            callback(self)
        else:
            self._links.append(callback)

    def _wake(self) -> None:
        links, self._links = self._links, []
        for callback in links:
            callback(self)
        for wait in self._waits:
            self._scheduler.end(wait)


class GreenHandler:
    """kazoo's handler for green threads; callbacks run in order on one thread of the process."""

    name = "green_handler"
    timeout_exception = KazooTimeoutError

    def __init__(self, network: Network, process: green.Process) -> None:
        self._network = network
        self._process = process
        self._callbacks: deque[Callback] = deque()
        self._working = False
        self.sleep_func = network.modules.time.sleep
        self.running = False

    def start(self) -> None:
        """Start."""
        self.running = True

    def stop(self) -> None:
        """Stop."""
        self.running = False

    def event_object(self) -> green.Event:
        """Return an event."""
        return green.Event(self._network.scheduler)

    def lock_object(self) -> green.Lock:
        """Return a lock."""
        return green.Lock(self._network.scheduler)

    rlock_object = lock_object

    def async_result(self) -> Answer:
        """Return an answer that is not there yet."""
        return Answer(self._network.scheduler)

    def spawn(self, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        """Run a function on a thread."""
        self._process.check()
        self._network.scheduler.spawn(self._process, lambda: function(*args, **options))

    def dispatch_callback(self, callback: Callback) -> None:
        """Run a callback after those before it."""
        self._callbacks.append(callback)
        if not self._working and self._process.alive:
            self._working = True
            self._network.scheduler.spawn(self._process, self._work)

    def _work(self) -> None:
        while self._callbacks:
            callback = self._callbacks.popleft()
            callback.func(*callback.args)
        self._working = False


class _Ordered(dict[Any, None]):
    """A set that keeps its order, so that a seed always has the same outcome."""

    def add(self, item: Any) -> None:
        """Add an item."""
        self[item] = None

    def remove(self, item: Any) -> None:
        """Remove an item."""
        del self[item]

    discard = remove


class SimulatedClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A client of the simulated ensemble, in the process that made it."""

    def __init__(self, network: Network, process: green.Process, **options: Any) -> None:
        self._network = network
        self.process = process
        self._ensemble, self._scheduler = network.ensemble, network.scheduler
        self.number = 0  # of the connection: what belongs to an earlier one is dropped
        self.connected_to: Server | None = None
        self.server_session: ServerSession | None = None
        self.blocked_until = 0.0
        self._last_arrival = self._last_delivery = 0.0
        self._inbox: deque[tuple[Any, Any]] = deque()
        self._busy = False
        super().__init__(handler=GreenHandler(network, process), **options)
        self.state_listeners = _Ordered()
        process.on_end.append(self._die)

    # kazoo's own methods that use sockets or unordered sets

    def _reset_watchers(self) -> None:
        watchers = [
            watch
            for of in (self._child_watchers, self._data_watchers)
            for watches in of.values()
            for watch in watches
        ]
        self._child_watchers = defaultdict(_Ordered)
        self._data_watchers = defaultdict(_Ordered)
        event = WatchedEvent(EventType.NONE, self._state, None)
        for watch in watchers:
            self.handler.dispatch_callback(Callback("watch", watch, (event,)))

    def start_async(self) -> Any:
        """Connect."""
        self._stopped.clear()
        self.handler.start()
        self._network.clients.setdefault(self.process, {})[self] = None
        self._scheduler.after(self._network.latency(), self._connect)
        return self._live

    def stop(self) -> None:
        """Close the session."""
        self.process.check()
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._leave()
        self._disconnect()
        session = self.server_session
        if session is not None:
            session.on_end = lambda: None
            if self._network.reachable(self.process):
                self._ensemble.end_session(session)
            else:
                self._ensemble.miss(session)
        self._session_callback(KeeperState.CLOSED)

    def close(self) -> None:
        """Free what the client uses: nothing."""

    def _call(self, request: Any, async_object: Any) -> bool | None:
        self.process.check()
        if self._state in {KeeperState.CLOSED, KeeperState.EXPIRED_SESSION, KeeperState.AUTH_FAILED}:
            from kazoo.exceptions import ConnectionClosedError, SessionExpiredError  # noqa: PLC0415

            expired = self._state == KeeperState.EXPIRED_SESSION
            async_object.set_exception(SessionExpiredError() if expired else ConnectionClosedError())
            return False
        if is_write(request):
            self._network.before_write(self, request)
        if self.connected_to is None:
            self._queue.append((request, async_object))
        else:
            self._send(request, async_object)
        return None

    # The connection

    def _connect(self) -> None:
        if self._stopped.is_set() or not self.process.alive or self.connected_to is not None:
            return
        if self.process.frozen_until > self._scheduler.now:
            self._scheduler.at(self.process.frozen_until, self._connect)
            return
        server = self._network.choose_server(self.process)
        if server is None or server.applied < self.last_zxid:  # a server refuses a client that has seen more
            self._scheduler.after(self._network.chance.uniform(0.1, 1.0), self._connect)
            return
        if self.server_session is not None and not self.server_session.alive:
            self.server_session = None
            self._session_callback(KeeperState.EXPIRED_SESSION)
            self._session_callback(KeeperState.CONNECTING)
            self._scheduler.after(self._network.latency(), self._connect)
            return
        if self.server_session is None:
            self.server_session = self._ensemble.open_session(self._session_timeout / 1000)
        session = self.server_session
        session.on_end = self.lose_connection
        self._ensemble.hear(session)
        self._session_id, self._session_passwd = session.id, b"\1" * 16
        self.number += 1
        self.connected_to = server
        self.blocked_until = 0.0
        self._session_callback(KeeperState.CONNECTED)
        while self._queue and self.connected_to is not None:
            self._send(*self._queue.popleft())

    def lose_connection(self) -> None:
        """Drop the connection: both sides notice at once, and the client connects again."""
        if self.connected_to is None or not self.process.alive:
            return
        self._disconnect()
        if self.server_session is not None and self.server_session.alive:
            self._ensemble.miss(self.server_session)
        self._session_callback(KeeperState.CONNECTING)
        self._scheduler.after(self._network.chance.uniform(0.05, 0.5), self._connect)

    def block(self, seconds: float) -> None:
        """Hold back everything in both directions for some time, as a partition does."""
        if self.connected_to is None or self.server_session is None:
            return
        self.blocked_until = max(self.blocked_until, self._scheduler.now + seconds)
        until, number, session = self.blocked_until, self.number, self.server_session
        self._ensemble.miss(session)
        noticed = self.server_session.timeout * 2 / 3

        def notice() -> None:
            if self.number == number and self.blocked_until >= until:
                self.lose_connection()

        def heal() -> None:
            if self.number == number and self.blocked_until == until and session.alive:
                self._ensemble.hear(session)

        if seconds >= noticed:
            self._scheduler.after(noticed, notice)
        else:
            self._scheduler.at(until, heal)

    def fire(self, kind: str, path: str) -> None:
        """Take the event of a watch from the server."""
        self._deliver(lambda: self._receive_event(kind, path))

    def _disconnect(self) -> None:
        if self.connected_to is not None:
            self.connected_to.forget(self)
        self.connected_to = None
        self.number += 1
        self._inbox.clear()
        self._busy = False

    def _leave(self) -> None:
        clients = self._network.clients.get(self.process, {})
        clients.pop(self, None)
        if not clients:
            self._network.clients.pop(self.process, None)

    def _die(self) -> None:
        self._leave()
        self._disconnect()
        if self.server_session is not None and self.server_session.alive:
            self.server_session.on_end = lambda: None
            self._ensemble.miss(self.server_session)

    # Requests: to the server, and back

    def _send(self, request: Any, async_object: Any) -> None:
        self._pending.append((request, async_object, 0))
        number, server, session = self.number, self.connected_to, self.server_session
        due = max(self._last_arrival, self._scheduler.now + self._network.latency(server), self.blocked_until)
        self._last_arrival = due
        fate, elections = self._network.fate_of(self, request), self._network.elections

        def arrive() -> None:
            if self.number == number:
                if fate == "lose-request":
                    self.lose_connection()
                    return
                self._inbox.append((request, async_object))
                self._work_off()
                if fate == "lose-answer":
                    self.lose_connection()
            elif (
                fate == "outlive"
                and elections == self._network.elections
                and session is not None
                and session.alive
                and is_write(request)
            ):
                self._ensemble.write(writes_of(request), session)  # it was on its way when the connection broke

        self._network.carry(self, request, due, arrive)

    def _work_off(self) -> None:
        """Let the server execute the requests that have arrived, one after the other."""
        while self._inbox and not self._busy and self.connected_to is not None:
            request, async_object = self._inbox.popleft()
            server = self.connected_to
            if not is_write(request):
                self._ensemble.requests += 1
                self._answer(async_object, request, answer_read(request, server, self))
                continue
            writes = writes_of(request)
            if any(self._network.denies(write.path) for write in writes):
                denials = [NoAuthError(), *(RuntimeInconsistency() for _ in writes[1:])]
                self._answer(async_object, request, answer_write(request, [], denials, server))
                continue
            if writes:
                zxid, paths, failures = self._ensemble.write(writes, self.server_session)
            else:
                zxid, paths, failures = self._ensemble.zxid, [], None
            self._busy = True
            server.once_applied(zxid, self._answering(async_object, request, paths, failures))

    def _answering(self, async_object: Any, request: Any, paths: list[str], failures: Any) -> Callable[[], None]:
        number, server = self.number, self.connected_to
        assert server is not None

        def answer() -> None:
            if self.number == number:
                self._busy = False
                self._answer(async_object, request, answer_write(request, paths, failures, server))
                self._work_off()

        return answer

    def _answer(self, async_object: Any, request: Any, answer: Any) -> None:
        assert self.connected_to is not None
        zxid = self.connected_to.applied
        self._deliver(lambda: self._receive_answer(async_object, request, answer, zxid))

    def _deliver(self, receive: Callable[[], None]) -> None:
        number = self.number
        due = max(
            self._last_delivery,
            self._scheduler.now + self._network.latency(self.connected_to),
            self.blocked_until,
        )
        self._last_delivery = due

        def deliver() -> None:
            if self.number != number or not self.process.alive:
                return
            late = max(self.process.frozen_until, self.blocked_until)
            if late > self._scheduler.now:
                self._scheduler.at(late, deliver)
            else:
                receive()

        self._scheduler.at(due, deliver)

    def _receive_answer(self, async_object: Any, request: Any, answer: Any, zxid: int) -> None:
        self._pending.popleft()
        self.last_zxid = max(self.last_zxid, zxid)
        if isinstance(answer, Exception):
            async_object.set_exception(answer)
            return
        watcher = getattr(request, "watcher", None)
        if watcher:
            watches = self._child_watchers if type(request).__name__ == "GetChildren" else self._data_watchers
            watches[request.path].add(watcher)
        async_object.set(answer)

    def _receive_event(self, kind: str, path: str) -> None:
        watchers: list[Any] = []
        if kind != EventType.CHILD:
            watchers += self._data_watchers.pop(path, ())
        if kind in {EventType.DELETED, EventType.CHILD}:
            watchers += self._child_watchers.pop(path, ())
        event = WatchedEvent(kind, self._state, self.unchroot(path))
        for watch in watchers:
            self.handler.dispatch_callback(Callback("watch", watch, (event,)))
