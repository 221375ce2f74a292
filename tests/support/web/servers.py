"""Servers for tests: of HTTP with any or fixed responses, of mail, and servers that never respond."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self


class WebServer:
    """An HTTP server on this machine; requests are handled by ``handler`` inside a ``with`` block."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.port = self._server.server_port

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the server; may be called twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    answers: Mapping[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        """Respond from the table."""
        status, body = self.answers.get(self.path, (404, b"nothing here"))
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", body.decode())
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def web_server(answers: Mapping[str, tuple[int, bytes]]) -> Iterator[str]:
    """Respond to each path with its status and body (or target of a redirection), else with 404; yield the URL."""
    with WebServer(type("Handler", (_Handler,), {"answers": answers})) as server:
        yield server.url


@contextmanager
def silent_server() -> Iterator[int]:
    """Accept connections without a response; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


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


class DrippingServer:
    """Sends ``begin`` to each connection and then byte by byte without an end, inside a ``with`` block."""

    def __init__(self, begin: bytes = b"HTTP/1.1 200 O") -> None:
        self._begin = begin
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._drips: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def accepted(self) -> int:
        """The number of connections so far."""
        return len(self._drips)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in (self._thread, *self._drips):
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._drips.append(threading.Thread(target=self._drip, args=(connection,), daemon=True))
                self._drips[-1].start()

    def _drip(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(self._begin)
            while not self._ended.wait(0.05):
                connection.sendall(b"1")


class MailServer:
    """Listens on ``address``; ``message`` is the received message after ``join`` returned."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.message = ""
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def join(self) -> None:
        """Wait until a client has disconnected."""
        self._thread.join()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rwb") as stream:

            def say(line: bytes) -> None:
                stream.write(line + b"\r\n")
                stream.flush()

            say(b"220 test")
            for command in stream:
                verb = command[:4].upper()
                if verb == b"DATA":
                    say(b"354 go on")
                    lines = iter(stream.readline, b".\r\n")
                    self.message = b"".join(lines).decode()
                say(b"221 bye" if verb == b"QUIT" else b"250 ok")
