"""The event streams of fleets' services: an event is a reason to ask its service for a report at once.

Events are hints. They change no record, and a lost event costs only time, because each service is also asked at
intervals, and after each opening of its stream. Therefore no stream is resumed, and a service without streams is
only asked at intervals. All streams share one thread, beside a few that resolve names. The text of each stream is
bounded in size and rate.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import h11
from urllib3.util import parse_url

from zkdeployment.base.daemon.cycles import Backoff, jittered
from zkdeployment.base.errors import ServiceError
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from zkdeployment.promotion.services import FleetService, ServiceClient

#: The events that can change a report. Events of the stream itself come in any case.
_PATH = "/api/v1/events?kinds=host&kinds=publication&kinds=stop&kinds=rollout"

#: The most streams, of which each needs a file descriptor.
_MOST_STREAMS = 250

#: Seconds to open a stream, and without a line, after which a stream is broken: services send one every 15 s.
_OPENING = 10.0
_SILENCE = 40.0

#: The most bytes of a line and of an event, and of a single read, and the seconds between two reads of a stream.
_LONGEST = 1 << 16
_AT_ONCE = 1 << 14
_BETWEEN_READS = 0.05

#: Seconds between two requests that events of one fleet cause.
_BETWEEN_REQUESTS = 1.0

#: Seconds until a lost stream is opened again: at first, and at most. A stream that lasted so long was a good one.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 300.0
_LASTING = 60.0

#: Seconds without a call of ``follow`` after which the streams end: the promoter does not lead any more.
_UNUSED = 60.0


class StreamedEvent(NamedTuple):
    """An event as a service sent it; without ``data``, it is a sign of life."""

    kind: str = ""
    data: str = ""


class EventText:
    """Assembles the events of a stream from pieces of its text."""

    def __init__(self) -> None:
        self._rest = b""
        self._kind = ""
        self._data: list[str] = []
        self._length = 0

    def feed(self, piece: bytes) -> list[StreamedEvent]:
        """Return the events that a piece completes; raises ``ServiceError`` for an event that is too long."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        events = [event for line in lines if (event := self._read_line(line.removesuffix(b"\r"))) is not None]
        if len(self._rest) + self._length > _LONGEST:
            raise ServiceError(f"the stream has an event of more than {_LONGEST} bytes")
        return events

    def _read_line(self, line: bytes) -> StreamedEvent | None:
        """Return the event that ends with this line, if any."""
        if not line:
            event = StreamedEvent(self._kind, "\n".join(self._data))
            self._kind, self._data, self._length = "", [], 0
            return event
        name, _, value = line.decode("utf-8", "replace").partition(":")
        if name == "event":
            self._kind = value.removeprefix(" ")
        elif name == "data":
            self._data.append(value.removeprefix(" "))
            self._length += len(line) + 1
        return None


class HostCount:
    """Counts the hosts that converged since a service was asked, to ask again when all of them may have."""

    def __init__(self) -> None:
        self._converged = 0

    def reset(self) -> None:
        """Count from now on, because the service is asked."""
        self._converged = 0

    def is_reason(self, event: StreamedEvent, lacking: int) -> bool:
        """Return whether an event is a reason to ask; ``lacking`` hosts had not converged in the last report.

        Hosts that make progress are no reason: a fleet with thousands of hosts would be asked all the time.
        """
        if event.kind != "host":
            return bool(event.data)
        match _host_state(event.data):
            case "behind" | "deploying":
                return False
            case "converged":
                self._converged += 1
                return 0 < lacking <= self._converged
            case _:
                return True


def _host_state(data: str) -> object:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return content.get("state") if isinstance(content, dict) else None


class EventStreams:
    """Holds one event stream for each service of a fleet, where the service offers it, in a thread of its own."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client
        self._ask: Callable[[FleetService], bool] = lambda _service: True
        self._lacking: Callable[[FleetService], int] = lambda _service: 0
        self._lock = threading.Lock()
        self._wanted: frozenset[FleetService] = frozenset()
        self._used = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._changed = asyncio.Event()
        #: The number of open streams.
        self.open = 0

    def subscribe(self, ask: Callable[[FleetService], bool], lacking: Callable[[FleetService], int]) -> None:
        """Call ``ask`` after an event that may have changed the report of a service; neither call may block.

        ``ask`` returns whether it asked: it is called again a second later if not. ``lacking`` returns the number
        of hosts that had not converged in the last report.
        """
        self._ask, self._lacking = ask, lacking

    def follow(self, services: Collection[FleetService]) -> None:
        """Hold the streams of these services, and no others; does not wait.

        The streams end if this function was not called for a minute.
        """
        with self._lock:
            self._wanted, self._used = frozenset([*services][:_MOST_STREAMS]), time.monotonic()
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._changed.set)
            elif self._wanted:
                loop, self._changed = asyncio.new_event_loop(), asyncio.Event()
                thread = threading.Thread(target=self._work, args=(loop,), name="fleet-streams", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the next call tries again
                    loop.close()
                    get_logger().error("streams-failed", reason=str(error))
                else:
                    self._loop, self._thread = loop, thread

    def close(self) -> None:
        """End all streams, and wait until they have ended."""
        self.follow(())
        if self._thread is not None:
            self._thread.join(_OPENING)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._follow_all())
        finally:
            with self._lock:
                if self._loop is loop:  # after a defect of the program, the next call of follow begins again
                    self._loop = None

    async def _follow_all(self) -> None:
        """Hold the wanted streams until none is wanted."""
        tasks: dict[FleetService, asyncio.Task[None]] = {}
        while wanted := self._take_wanted():
            for service in tasks.keys() - wanted:
                tasks.pop(service).cancel()
            for service in wanted - tasks.keys():
                tasks[service] = asyncio.create_task(self._follow(service))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_UNUSED):
                    await self._changed.wait()
            self._changed.clear()

    def _take_wanted(self) -> frozenset[FleetService]:
        with self._lock:
            if time.monotonic() - self._used >= _UNUSED:
                self._wanted = frozenset()
            if not self._wanted:
                self._loop = None
            return self._wanted

    async def _follow(self, service: FleetService) -> None:
        """Hold the stream of a service, and ask it after events, until cancelled."""
        changed, hosts = asyncio.Event(), HostCount()
        asking = asyncio.create_task(self._ask_when_changed(service, changed, hosts))
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        try:
            while True:
                begun = time.monotonic()
                try:
                    await self._listen(service, changed, hosts)
                except (ServiceError, OSError, ValueError, RuntimeError, h11.RemoteProtocolError) as error:
                    # A RuntimeError means that no thread could be started for the lookup of the name.
                    get_logger().debug("stream-ended", fleet=service.fleet, reason=str(error))
                if time.monotonic() - begun >= _LASTING:
                    backoff.reset()
                await asyncio.sleep(jittered(backoff.fail(), 0.5))
        finally:
            asking.cancel()

    async def _listen(self, service: FleetService, changed: asyncio.Event, hosts: HostCount) -> None:
        """Set ``changed`` after each event that is a reason to ask, and at the end of the stream."""
        async with _opened(self._client, service) as stream:
            self.open += 1
            try:
                while True:
                    async with asyncio.timeout(_SILENCE):
                        events = await stream.read()
                    lacking = self._lacking(service)
                    for event in events:
                        if hosts.is_reason(event, lacking):
                            changed.set()
            finally:
                self.open -= 1
                changed.set()

    async def _ask_when_changed(self, service: FleetService, changed: asyncio.Event, hosts: HostCount) -> None:
        while True:
            await changed.wait()
            if self._ask(service):
                changed.clear()
                hosts.reset()
            await asyncio.sleep(_BETWEEN_REQUESTS)


@contextlib.asynccontextmanager
async def _opened(client: ServiceClient, service: FleetService) -> AsyncIterator[_Stream]:
    """Yield the open stream of a service; raises ``ServiceError``, ``OSError`` or what ``h11`` raises."""
    headers = {**client.credentials(service), "Accept": "text/event-stream", "Cache-Control": "no-store"}
    url = parse_url(f"{service.url.rstrip('/')}{_PATH}")
    encryption = client.encryption if url.scheme == "https" else None
    async with asyncio.timeout(_OPENING):
        connection = await _connected((url.host or "").strip("[]"), url.port, encryption)
        try:
            stream = _Stream(connection, url.request_uri, {"Host": url.netloc or "", **headers})
            await stream.read_head()
        except BaseException:
            connection.close()
            raise
    with connection:
        yield stream


async def _connected(host: str, port: int | None, encryption: ssl.SSLContext | None) -> socket.socket:
    """Return a connection that does not block."""
    loop = asyncio.get_running_loop()
    default = 80 if encryption is None else 443
    found = await loop.getaddrinfo(host, port or default, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(found, 1):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            await loop.sock_connect(connection, address)
            if encryption is None:
                return connection
            connection = encryption.wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)
            await _shake_hands(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and number < len(found):
                continue
            raise
        return connection
    raise ServiceError(f"{host} has no address")


async def _shake_hands(connection: ssl.SSLSocket) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            return connection.do_handshake()
        except ssl.SSLWantReadError:
            await _ready(connection, loop.add_reader, loop.remove_reader)
        except ssl.SSLWantWriteError:
            await _ready(connection, loop.add_writer, loop.remove_writer)


async def _ready(connection: socket.socket, add: Callable[..., object], remove: Callable[[int], object]) -> None:
    """Wait until a connection can be read or written."""
    ready = asyncio.Event()
    descriptor = connection.fileno()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)


class _Stream:
    """A stream on a connection that does not block; creating one sends the request."""

    def __init__(self, connection: socket.socket, target: str, headers: Mapping[str, str]) -> None:
        self._connection = connection
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST)
        self._text = EventText()
        self._due = 0.0
        request = h11.Request(method="GET", target=target, headers=[*headers.items()])
        connection.sendall((self._http.send(request) or b"") + (self._http.send(h11.EndOfMessage()) or b""))

    async def read_head(self) -> None:
        """Wait for the head of the answer; raises ``ServiceError`` unless a stream follows."""
        while not isinstance(event := self._http.next_event(), h11.Response):
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._receive())
            elif not isinstance(event, h11.InformationalResponse):
                raise ServiceError("the service closed the connection without an answer")
        kind = dict(event.headers).get(b"content-type", b"")
        if event.status_code != 200 or not kind.startswith(b"text/event-stream"):
            raise ServiceError(f"the service offers no event stream: it answered with status {event.status_code}")

    async def read(self) -> list[StreamedEvent]:
        """Wait for the next events; raises ``ServiceError`` at the end of the stream."""
        events: list[StreamedEvent] = []
        while not events:
            match self._http.next_event():
                case h11.NEED_DATA:
                    self._http.receive_data(await self._receive())
                case h11.Data(data=data):
                    events = self._text.feed(data)
                case _:
                    raise ServiceError("the service ended the event stream")
        return events

    async def _receive(self) -> bytes:
        """Wait for data, and return them; nothing at the end."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._due - loop.time())  # a service that sends without end must not occupy the thread
        while True:
            try:
                received = self._connection.recv(_AT_ONCE)
            except (ssl.SSLWantReadError, BlockingIOError):
                await _ready(self._connection, loop.add_reader, loop.remove_reader)
            else:
                self._due = loop.time() + _BETWEEN_READS
                return received
