"""Servers that accept connections and never answer."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading


class HangingServer:
    """Accepts every connection on ``port``, reads nothing and answers nothing; ``accepted`` counts them."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._accept, name="hanging-server", daemon=True)
        self._thread.start()

    @property
    def accepted(self) -> int:
        """The number of connections so far."""
        return len(self._open)

    def close(self) -> None:
        """Close all connections; may be called twice."""
        self._wake.close()
        self._thread.join()
        for connection in (*self._open, self._listener, self._woken):
            with contextlib.suppress(OSError):
                connection.close()
        self._selector.close()

    def _accept(self) -> None:
        while all(key.fileobj is self._listener for key, _ in self._selector.select()):
            self._open.append(self._listener.accept()[0])
