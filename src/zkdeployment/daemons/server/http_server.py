"""The HTTP server: uvicorn in a thread of its own, so that the daemon's thread stays free for the supervisor."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import uvicorn

from zkdeployment.daemons.server.http_protocol import ConnectionLimits, limited_protocol
from zkdeployment.model.logins.client_limits import ClientLimits

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Awaitable, Callable

#: Seconds for requests in progress when the server is stopped; after them their connections are closed.
STOP_TIMEOUT = 5.0

#: The most bytes of the request line and the headers together.
_HEADER_LIMIT = 32 * 1024


class HttpServer:
    """Serves an ASGI ``application`` on an open ``listener``, encrypted if ``encryption`` is given.

    ``limits`` are those of its connections.
    """

    def __init__(
        self,
        application: Callable[..., Awaitable[None]],
        listener: socket.socket,
        encryption: ssl.SSLContext | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._listener = listener
        config = uvicorn.Config(
            application,
            interface="asgi3",
            loop="asyncio",
            http=limited_protocol(limits or ConnectionLimits(ClientLimits().connections_per_address)),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=round(STOP_TIMEOUT),
            h11_max_incomplete_event_size=_HEADER_LIMIT,
            ssl_context_factory=None if encryption is None else (lambda *_: encryption),
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="http-server", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def alive(self) -> bool:
        """Whether the server runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Accept no more connections, finish the requests in progress, and return when the server has ended.

        Requests that take longer than ``STOP_TIMEOUT`` are cancelled.
        """
        self._server.should_exit = True
        self._thread.join(2 * STOP_TIMEOUT)
