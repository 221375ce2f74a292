"""ZooKeeper sessions in the raw protocol: thousands in one thread, each watching one node."""

import asyncio
import contextlib
import struct
import time

_CONNECT = struct.Struct(">iqiqi16s?")
_REPLY = struct.Struct(">iqi")
_LENGTH = struct.Struct(">i")
_GET, _PING, _CLOSE = 4, 11, -11
_EVENT = -1
#: The requested session timeout in milliseconds; the server may grant a shorter timeout.
_TIMEOUT = 30_000
#: The number of sessions that are opened at the same time.
_AT_ONCE = 200


class RawSession(asyncio.Protocol):
    """One session: ``ready`` when it is open, ``armed`` when its watch is set, ``fired`` when the node changes."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[float] = loop.create_future()
        self.armed: asyncio.Future[None] = loop.create_future()
        self.fired: asyncio.Future[float] = loop.create_future()
        self._rest = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._send(_CONNECT.pack(0, 0, _TIMEOUT, 0, 16, b"", False))

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in (self.ready, self.armed, self.fired):
            if not waiting.done():
                waiting.set_exception(exc or ConnectionResetError("the server closed the connection"))
                waiting.exception()  # marks the exception as retrieved; a later await still raises it

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        while len(data) >= 4 and len(data) >= (end := 4 + _LENGTH.unpack_from(data)[0]):
            self._receive(data[4:end])
            data = data[end:]
        self._rest = data

    def _receive(self, message: bytes) -> None:
        if not self.ready.done():
            timeout = struct.unpack_from(">ii", message)[1]
            self.ready.set_result(timeout / 1000)
            return
        number, _, error = _REPLY.unpack_from(message)
        if number == _EVENT:
            self.fired.set_result(time.perf_counter())
        elif number == 1 and error:
            self.armed.set_exception(LookupError(f"ZooKeeper's error {error}"))
        elif number == 1:
            self.armed.set_result(None)

    def watch(self, path: str) -> None:
        """Read a node and set a watch on it."""
        name = path.encode()
        self._send(struct.pack(f">iii{len(name)}s?", 1, _GET, len(name), name, True))

    def ping(self) -> None:
        """Send a ping, which keeps the session alive."""
        self._send(struct.pack(">ii", -2, _PING))

    def close(self) -> None:
        """Close the session."""
        self._send(struct.pack(">ii", 2, _CLOSE))

    def _send(self, message: bytes) -> None:
        assert self._transport is not None
        self._transport.write(_LENGTH.pack(len(message)) + message)


class Watchers:
    """Many sessions that watch one node."""

    def __init__(self, address: str, path: str) -> None:
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self._path = path
        self._sessions: list[RawSession] = []
        self._pinging: asyncio.Task[None] | None = None

    async def open(self, count: int) -> None:
        """Open sessions and set a watch in each; return when all watches are set."""
        loop = asyncio.get_running_loop()
        while (missing := count - len(self._sessions)) > 0:
            opened = await asyncio.gather(
                *(
                    loop.create_connection(RawSession, self._host, self._port)
                    for _ in range(min(missing, _AT_ONCE))
                )
            )
            sessions = [session for _, session in opened]
            timeouts = await asyncio.gather(*(session.ready for session in sessions))
            self._sessions += sessions
            self._pinging = self._pinging or asyncio.create_task(self._ping(min(timeouts) / 3))
            for session in sessions:
                session.watch(self._path)
            await asyncio.gather(*(session.armed for session in sessions))

    async def fired(self) -> float:
        """Wait until all watches fired; return the time of the last one (``perf_counter``)."""
        return max(await asyncio.gather(*(session.fired for session in self._sessions)))

    async def rearm(self) -> None:
        """Set all watches again."""
        loop = asyncio.get_running_loop()
        for session in self._sessions:
            session.armed, session.fired = loop.create_future(), loop.create_future()
            session.watch(self._path)
        await asyncio.gather(*(session.armed for session in self._sessions))

    async def close(self) -> None:
        """Close all sessions."""
        if self._pinging is not None:
            self._pinging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._pinging
        for session in self._sessions:
            session.close()

    async def _ping(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            for session in self._sessions:
                session.ping()
