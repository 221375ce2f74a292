"""The event stream of one client.

A stream has no queue: it remembers the number of the last batch that it sent, and takes the next ones from the log
that all streams share. A client that is too slow for that log gets ``reset``, and one that takes nothing at all is
disconnected. Therefore a slow client cannot increase the memory of its stream.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from starlette.responses import Response

from zkdeployment.fleet.events.event import RESET_EVENT, connection_event
from zkdeployment.service.streams.event_hub import encode_event, heartbeat, introduction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from starlette.types import Message, Receive, Scope, Send

    from zkdeployment.fleet.events.event import EventBatch, EventKind
    from zkdeployment.service.streams.event_hub import EventHub, Subscriber

#: Seconds without an event after which a comment keeps the connection open.
HEARTBEAT = 15.0

#: The most digits of a transaction of ZooKeeper, which has 64 bits.
_DIGITS = 19

#: Seconds in which a client has to read the events that are sent.
SEND_LIMIT = 30.0


class EventStream(Response):
    """A response that sends events until the client, the user's right or the service ends.

    ``resume`` is the id of the last event that the client knows: ``None`` for a new client, which gets the events
    from now on; with an id from which the stream cannot be resumed, the client gets ``reset``. ``kinds`` are the
    wanted kinds, ``None`` all.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        hub: EventHub,
        subscriber: Subscriber,
        *,
        resume: str | None = None,
        kinds: Collection[EventKind] | None = None,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._hub = hub
        self._subscriber = subscriber
        self._resume = resume
        self._kinds = kinds
        self._sent = 0
        self._ahead: int | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; ASGI's way to answer a request."""
        del scope
        gone = asyncio.ensure_future(_disconnected(receive))
        gone.add_done_callback(lambda _: self._subscriber.wake.set())
        self._hub.add(self._subscriber)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for text in self._texts(gone):
                await asyncio.wait_for(send(_body(text, more=True)), SEND_LIMIT)
            await asyncio.wait_for(send(_body(b"", more=False)), SEND_LIMIT)
        except TimeoutError:
            self._hub.lost += 1
        finally:
            self._hub.remove(self._subscriber)
            gone.cancel()

    async def _texts(self, gone: asyncio.Future[None]) -> AsyncIterator[bytes]:
        """Yield the text to send, until the stream ends."""
        yield self._beginning()
        clock = asyncio.get_running_loop().time
        due = clock() + HEARTBEAT
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._subscriber.wake.wait(), max(0.0, due - clock()))
            self._subscriber.wake.clear()
            if gone.done() or self._subscriber.revoked or self._hub.feed.closed:
                return
            text = self._next(idle=clock() >= due)
            if text:
                yield text
                due = clock() + HEARTBEAT

    def _beginning(self) -> bytes:
        """Return the age of the data, and the events since the client's last one."""
        snapshot = self._hub.feed.snapshot()
        log = self._hub.feed.recent_events()  # after the snapshot, so up to its id or further
        self._sent = log.last
        state = connection_event(connected=snapshot.connected, read_at=snapshot.read_at)
        if self._resume is None:
            return introduction() + encode_event(state, snapshot.zxid)
        known = _transaction(self._resume)
        batches = log.since(known)
        if batches is None:
            return introduction() + encode_event(state) + encode_event(RESET_EVENT, snapshot.zxid)
        self._ahead = known if known > self._hub.feed.last_transaction() else None
        return introduction() + encode_event(state) + self._encode(batches)

    def _next(self, *, idle: bool) -> bytes:
        """Return the wanted events since the last call; without any, a heartbeat if the stream was ``idle``."""
        snapshot = self._hub.feed.snapshot()
        log = self._hub.feed.recent_events()
        batches = log.after(self._sent)
        self._sent = log.last
        if batches is None:
            self._hub.lost += 1
            return encode_event(RESET_EVENT, snapshot.zxid)
        text = self._encode(batches)
        if text or not idle:
            return text
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead > self._hub.feed.last_transaction():
            return encode_event(RESET_EVENT, snapshot.zxid)  # the id is of another ensemble
        return heartbeat(snapshot.zxid)

    def _encode(self, batches: Collection[EventBatch]) -> bytes:
        return b"".join(self._hub.text(batch, self._kinds, self._subscriber.audience) for batch in batches)


def _transaction(text: str) -> int:
    """Return the transaction that an event's id names; -1, which no event has, for every other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else -1


def _body(text: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": text, "more_body": more}


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
