"""The HTTP server: uvicorn in a thread of its own, with limits of time and size for each connection."""

from __future__ import annotations

import resource
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from zkdeployment.base.log import get_logger
from zkdeployment.service.site import ClientLimits

if TYPE_CHECKING:
    import asyncio
    import socket
    import ssl
    from collections.abc import Awaitable, Callable


#: Seconds in which a client has to send the head of a request, and again its body.
HEAD_LIMIT = 10.0
BODY_LIMIT = 60.0

#: The files that the service needs beside its connections: at least this number, and this part of all files.
_OTHER_FILES, _OTHER_PART = 64, 4

#: The most connections, even if the system permits more open files.
_MOST = 10_000


class ConnectionLimits:
    """The open connections of a server; everything here runs in its event loop.

    An address may have ``per_address`` connections; only proxies (``is_proxy``) may have more. If the server has
    too many connections, it closes the oldest one of the address with the most connections.
    """

    def __init__(self, per_address: int, is_proxy: Callable[[str], bool] = lambda _: False) -> None:
        self._per_address, self._is_proxy = per_address, is_proxy
        self._open: dict[LimitedProtocol, str] = {}  # in the order in which they were opened
        self._counts: Counter[str] = Counter()
        self.most = most_connections()

    def add(self, connection: LimitedProtocol, address: str) -> bool:
        """Count a connection; return ``False`` if its address has too many."""
        if self._counts[address] >= self._per_address and not self._is_proxy(address):
            return False
        self._open[connection] = address
        self._counts[address] += 1
        if len(self._open) > self.most:
            ((greedy, _),) = self._counts.most_common(1)
            oldest = next(each for each, address in self._open.items() if address == greedy)
            self.remove(oldest)
            oldest.drop("there are too many connections")
        return True

    def remove(self, connection: LimitedProtocol) -> None:
        """Forget a connection that has ended."""
        address = self._open.pop(connection, None)
        if address is not None:
            self._counts[address] -= 1
            self._counts += Counter()  # drops addresses without connections


def most_connections() -> int:
    """Return the number of connections that may be open, so that files remain for everything else."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST
    return max(1, min(_MOST, files - max(_OTHER_FILES, files // _OTHER_PART)))


class LimitedProtocol(H11Protocol):
    """A connection that ends when its client does not send a request in time."""

    connection_limits: ConnectionLimits

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._awaited: object = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or close it if its address has too many."""
        super().connection_made(transport)
        address = "" if self.client is None else self.client[0]
        if self.connection_limits.add(self, address):
            self._limit_time()
        else:
            self.drop("its address has too many connections")

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._limit_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.connection_limits.remove(self)
        self._await(None)
        super().connection_lost(exc)

    def drop(self, reason: str) -> None:
        """Close the connection at once."""
        get_logger().info(
            "connection-dropped", client=None if self.client is None else self.client[0], reason=reason
        )
        self.transport.abort()

    def _limit_time(self) -> None:
        """Start the time limit for the part of a request that comes next; end it when all has come."""
        state = self.conn.their_state
        self._await(state if state in {h11.IDLE, h11.SEND_BODY} else None)

    def _await(self, part: object) -> None:
        if part is self._awaited:
            return
        self._awaited = part
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if part is not None:
            limit, name = (HEAD_LIMIT, "head") if part is h11.IDLE else (BODY_LIMIT, "body")
            self._timer = self.loop.call_later(limit, self.drop, f"the {name} of a request did not come in time")


def limited_protocol(limits: ConnectionLimits) -> type[LimitedProtocol]:
    """Return the protocol for the connections of one server."""
    return type("LimitedProtocolOfServer", (LimitedProtocol,), {"connection_limits": limits})


#: Seconds that a stopping server gives requests in progress; then it closes their connections.
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
