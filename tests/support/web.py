"""HTTP servers for tests: one with fixed responses, one that never responds."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class _Server(ThreadingHTTPServer):
    answers: Mapping[str, tuple[int, bytes]]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """Respond from the table."""
        status, body = self.server.answers.get(self.path, (404, b"nothing here"))
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
    server = _Server(("127.0.0.1", 0), _Handler)
    server.answers = answers
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def silent_server() -> Iterator[int]:
    """Accept connections without a response; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]
