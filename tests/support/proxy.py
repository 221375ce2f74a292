"""A TCP proxy between clients and a server, to take the network away from them."""

from __future__ import annotations

import selectors
import socket
import threading
from typing import Self


class Proxy:
    """Forwards ``address`` to a server until told otherwise.

    ``cut()``: connections are closed and new ones refused at once. ``freeze()``: they stay open and silent (a
    partition, a stopped server). ``heal()``: forwarding goes on.
    """

    def __init__(self, host: str, port: int, *, listen: int = 0) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", listen))
        self.port: int = self._listener.getsockname()[1]
        self._frozen = False
        self._down = False
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """``HOST:PORT`` to connect to."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Close all connections and every new one."""
        with self._lock:
            self._down = True
            self._drop_all()

    def drop(self) -> None:
        """Close all connections once; new ones work."""
        with self._lock:
            self._drop_all()

    def freeze(self) -> None:
        """Let nothing through, but close nothing."""
        with self._lock:
            self._frozen = True

    def heal(self) -> None:
        """Forward again, also what was held back."""
        with self._lock:
            self._down = self._frozen = False

    def close(self) -> None:
        """Stop for good."""
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
            events = self._selector.select(0.02)
            with self._lock:
                if self._frozen:
                    self._stopped.wait(0.01)
                    continue
                for key, _ in events:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._pairs:
                        self._forward(key.fileobj)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self._down:
            client.close()
            return
        try:
            server = socket.create_connection(self._target, timeout=1)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for one, other in ((client, server), (server, client)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _forward(self, source: socket.socket) -> None:
        try:
            data = source.recv(1 << 16)
            if data:
                self._pairs[source].sendall(data)
                return
        except OSError:
            pass
        self._drop(source)

    def _drop(self, one: socket.socket) -> None:
        for end in (one, self._pairs[one]):
            del self._pairs[end]
            self._selector.unregister(end)
            end.close()

    def _drop_all(self) -> None:
        while self._pairs:
            self._drop(next(iter(self._pairs)))
