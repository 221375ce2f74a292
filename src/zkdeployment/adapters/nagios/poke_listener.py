"""The HTTP server that receives the pokes of the service.

A poke names an instance that has changed. The bridge fetches this instance; nothing else in the request counts, so
that anybody may send it.
"""

from __future__ import annotations

import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from zkdeployment.nagios.check import is_instance

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_BODY_LIMIT = 4096

#: Seconds for a request.
_TIMEOUT = 5.0


class PokeListener:
    """Answers POST requests on an open ``listener``; calls ``poked`` with the instance of each, on any thread."""

    def __init__(self, listener: socket.socket, poked: Callable[[str], None]) -> None:
        handler = partial(_PokeHandler, poked)
        self._server = ThreadingHTTPServer(listener.getsockname()[:2], handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listener
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="pokes", daemon=True)

    def start(self) -> None:
        """Begin to receive."""
        self._thread.start()

    def close(self) -> None:
        """Receive nothing more."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _PokeHandler(BaseHTTPRequestHandler):
    """Answers 204 to a poke, and 400 to other requests."""

    timeout = _TIMEOUT
    server_version = "zkdeployment"
    sys_version = ""

    def __init__(self, poked: Callable[[str], None], *arguments: Any) -> None:
        self._poked = poked
        super().__init__(*arguments)

    def do_POST(self) -> None:
        """Read a poke."""
        length = self.headers.get("Content-Length", "")
        instance = None
        if length.isascii() and length.isdigit() and int(length) <= _BODY_LIMIT:
            instance = _poked_instance(self.rfile.read(int(length)))
        if instance is not None:
            self._poked(instance)
        self.send_response(400 if instance is None else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing: the bridge logs what follows."""


def _poked_instance(body: bytes) -> str | None:
    try:
        poke = json.loads(body)
    except (ValueError, RecursionError):
        return None
    instance = poke.get("uuid") if isinstance(poke, dict) else None
    return instance if isinstance(instance, str) and is_instance(instance) else None
