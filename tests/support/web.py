"""HTTP servers for tests: any in a thread, one with fixed responses, one that never responds."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

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
