"""A TCP proxy between clients and a server, which simulates faults of the network."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def switched_off_server() -> Iterator[str]:
    """Yield an address that does not answer, not even to refuse a connection: the backlog is full."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        yield f"127.0.0.1:{listener.getsockname()[1]}"


class Proxy:
    """Forwards ``address`` to a server, with the faults that the test sets.

    ``cut()``: connections are closed and new ones refused at once. ``freeze()``: they stay open and silent (a
    partition, a stopped server). ``lose()``: what goes one way, or both, is swallowed. ``delay()``: all arrives
    late. ``heal()``: forwarding goes on.

    ``accepted`` counts the connections that were taken. The proxy listens on the port ``listen`` (0: a free one)
    of the address ``interface``.
    """

    def __init__(self, host: str, port: int, *, listen: int = 0, interface: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._interface = interface
        self._listener = socket.create_server((interface, listen))
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0
        self._frozen = False
        self._down = False
        self._delay = 0.0
        self._lost: frozenset[bool] = frozenset()
        self._clients: set[socket.socket] = set()
        self._spoilt: set[socket.socket] = set()
        self._late: deque[tuple[float, socket.socket, bytes]] = deque()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The address of the proxy, ``HOST:PORT``."""
        return f"{self._interface}:{self.port}"

    def cut(self) -> None:
        """Close all present and future connections."""
        with self._lock:
            self._down = True
            self._drop_all()

    def drop(self) -> None:
        """Close all present connections; future connections work."""
        with self._lock:
            self._drop_all()

    def freeze(self) -> None:
        """Forward nothing, but keep connections open."""
        with self._lock:
            self._frozen = True

    def lose(self, *, requests: bool = True, answers: bool = True) -> None:
        """Discard the data of clients, of the server, or of both; connections are still accepted."""
        with self._lock:
            self._lost = frozenset(way for way, lost in ((True, requests), (False, answers)) if lost)

    def delay(self, seconds: float) -> None:
        """Delay all data by this many seconds, in each direction."""
        with self._lock:
            self._delay = seconds

    def heal(self) -> None:
        """Forward again, including delayed data; connections with discarded data are closed."""
        with self._lock:
            self._down = self._frozen = False
            self._delay, self._lost = 0.0, frozenset()
            for connection in self._spoilt:
                if connection in self._pairs:  # otherwise the connection has ended already
                    self._drop(connection)
            self._spoilt.clear()

    def close(self) -> None:
        """Stop the proxy."""
        self._stopped.set()
        self._thread.join()
        self._drop_all()
        self._selector.close()
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while not self._stopped.is_set():
            events = self._selector.select(0.002 if self._late else 0.02)
            with self._lock:
                if self._frozen:
                    self._stopped.wait(0.01)
                    continue
                for key, _ in events:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._pairs:
                        self._receive(key.fileobj)
                self._deliver()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        self.accepted += 1
        if self._down:
            client.close()
            return
        try:
            server = socket.create_connection(self._target, timeout=1)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        self._clients.add(client)
        for sender, other in ((client, server), (server, client)):
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[sender] = other
            self._selector.register(sender, selectors.EVENT_READ)

    def _receive(self, source: socket.socket) -> None:
        try:
            data = source.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(source)  # otherwise its end is reported repeatedly
        if data and (source in self._clients) in self._lost:
            self._spoilt.add(source)
        else:
            self._late.append((time.monotonic() + self._delay, source, data))

    def _deliver(self) -> None:
        while self._late and self._late[0][0] <= time.monotonic():
            _, source, data = self._late.popleft()
            if source not in self._pairs:
                continue
            try:
                if data:
                    self._pairs[source].sendall(data)
                    continue
            except OSError:
                pass
            self._drop(source)

    def _drop(self, connection: socket.socket) -> None:
        for end in (connection, self._pairs[connection]):
            del self._pairs[end]
            self._clients.discard(end)
            with contextlib.suppress(KeyError):  # it had ended already
                self._selector.unregister(end)
            end.close()

    def _drop_all(self) -> None:
        while self._pairs:
            self._drop(next(iter(self._pairs)))
