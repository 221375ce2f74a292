"""The protocol of one connection: uvicorn's, with time limits for requests and limits of the connections."""

from __future__ import annotations

import resource
from collections import Counter
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from zkdeployment.log import get_logger

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

#: Seconds in which a client has to send the head of a request, and then its body.
HEAD_LIMIT = 10.0
BODY_LIMIT = 60.0

#: Files that the service needs beside its connections: at least so many, and a part of all.
_OTHER_FILES, _OTHER_PART = 64, 4

#: The most connections, however many files may be open.
_MOST = 10_000


class ConnectionLimits:
    """The open connections of a server; everything here runs in its event loop.

    An address may have ``per_address`` connections, unless ``is_proxy`` returns that it is a proxy's. If all
    connections together are too many, the oldest one of the address with the most connections makes room.
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
    """Return how many connections may be open, so that files remain for everything else."""
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
