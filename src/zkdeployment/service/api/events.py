"""``GET /api/v1/events``: the changes of the fleet as server-sent events, and the hub that sends them."""

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable
from dataclasses import field
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.events.event import (
    RESET_EVENT,
    STREAM_KINDS,
    EventBatch,
    EventKind,
    FleetEvent,
    connection_event,
)
from zkdeployment.fleet.feed.feed import ZooKeeperFeed
from zkdeployment.service.access.cookies import session_token, site_of
from zkdeployment.service.access.identity import PoolReader, client_address
from zkdeployment.service.dependencies import Adapters, ServerAdapters
from zkdeployment.service.responses import ERRORS, RETRY_AFTER
from zkdeployment.service.site import ClientLimits
from zkdeployment.service.users.user import Right, User

#: The kinds that need the right to read pools. Every other kind needs the right to read the fleet.
_POOLS = frozenset({EventKind.POOL, EventKind.NODE})


@dataclass(frozen=True, slots=True)
class Audience:
    """The events that a user may see: those of the ``kinds``, and of sessions.

    ``tenant`` is the id of the tenant whose sessions these are; ``None`` stands for all tenants, 0 for none.
    """

    kinds: frozenset[EventKind]
    tenant: int | None

    def sees(self, event: FleetEvent) -> bool:
        """Return whether the user may see an event."""
        if event.kind is not EventKind.SESSION:
            return event.kind in self.kinds
        return self.tenant is None or self._owns(event)

    def of_events(self, events: Iterable[FleetEvent]) -> "Audience":
        """Return an audience that sees the same among these events, and is equal for most tenants."""
        if self.tenant is None or any(self._owns(event) for event in events):
            return self
        return Audience(self.kinds, 0)

    def _owns(self, event: FleetEvent) -> bool:
        return event.kind is EventKind.SESSION and event.body.get("tenant") == self.tenant


def audience_of(user: User) -> Audience:
    """Return the events that a user may see."""
    kinds = STREAM_KINDS
    if user.may(Right.READ_POOLS):
        kinds |= _POOLS
    if user.may(Right.READ_FLEET):
        kinds |= frozenset(EventKind) - _POOLS - {EventKind.SESSION}
    if user.may(Right.READ_ALL_SESSIONS):
        return Audience(kinds, None)
    return Audience(kinds, user.id if user.may(Right.LEASE_NODES) else 0)


#: Milliseconds after which a browser that lost its connection connects again.
RETRY = 3000

#: These kinds concern the stream itself, and are sent to all clients, also if a client asks for other kinds.
_ALWAYS = frozenset({"feed", "reset"})


def encode_event(event: FleetEvent, id_: int | None = None) -> bytes:
    """Return the text of an event; a client that received the event may resume from ``id_``."""
    data = json.dumps(event.to_json(), separators=(",", ":"))
    return format_sse_event(data_str=data, event=event.kind.value, id=None if id_ is None else str(id_))


def encode_batch(
    id_: int, events: Iterable[FleetEvent], kinds: Collection[EventKind] | None, audience: Audience
) -> bytes:
    """Return the text of the events of one batch that a client may see.

    ``kinds`` are those that the client wants, ``None`` all.

    Only the last event has the id: a client that received a part of a batch has to receive all of it again.
    """
    wanted = (event for event in events if kinds is None or event.kind in kinds or event.kind.value in _ALWAYS)
    shown = [event for event in wanted if audience.sees(event)]
    texts = [encode_event(event) for event in shown[:-1]]
    texts += [encode_event(event, id_) for event in shown[-1:]]
    return b"".join(texts)


def heartbeat(id_: int) -> bytes:
    """Return a comment that keeps the connection open; it advances the id and is not an event."""
    return format_sse_event(comment="heartbeat", id=str(id_))


def introduction() -> bytes:
    """Return the first line of a stream."""
    return format_sse_event(retry=RETRY)


#: Seconds between two checks whether the users of the streams may still read.
CHECKED = 1.0

#: The most streams of one service; further clients are asked to try again later. When there are as many as the
#: second number, only users who may act on the fleet get the rest.
MOST_STREAMS, MOST_OTHERS = 2000, 1500

#: The number of encoded batches that are kept: streams that are up to date need only the newest.
_ENCODED = 64


@dataclass(eq=False)
class Subscriber:
    """One stream: its owner, and the event that is set when the stream has something to do.

    ``owner`` is equal for streams that end together, and sees the events for ``audience``; ``permitted`` returns
    whether the owner may still read, and possibly sends a request to ZooKeeper. ``user`` and ``address`` are the
    client's; ``acts`` is whether the user may act on the fleet.
    """

    owner: Hashable
    audience: Audience
    permitted: Callable[[], bool]
    user: str = ""
    address: str = ""
    acts: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    revoked: bool = False


class EventHub:
    """The streams of one service; it is made once for each application."""

    def __init__(self, feed: ZooKeeperFeed) -> None:
        self.feed = feed
        self.lost = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscribers: set[Subscriber] = set()
        self._checker: asyncio.Task[None] | None = None
        self._encoded: OrderedDict[tuple[int, frozenset[EventKind] | None, Audience], bytes] = OrderedDict()
        feed.subscribe(self._changed)

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return len(self._subscribers)

    def has_room(self, subscriber: Subscriber, limits: ClientLimits) -> bool:
        """Return whether the limits of the user, of the address and of the service permit another stream."""
        present = self._subscribers
        if len(present) >= (MOST_STREAMS if subscriber.acts else MOST_OTHERS):
            return False
        of_user = sum(each.user == subscriber.user for each in present)
        at_address = sum(each.address == subscriber.address for each in present)
        return of_user < limits.streams_per_user and at_address < limits.connections_per_address

    def add(self, subscriber: Subscriber) -> None:
        """Wake a subscriber from now on whenever something changes; called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._subscribers.add(subscriber)
        if self._checker is None or self._checker.done():
            self._checker = self._loop.create_task(self._check_owners())

    def remove(self, subscriber: Subscriber) -> None:
        """Forget a subscriber."""
        self._subscribers.discard(subscriber)

    def text(self, batch: EventBatch, kinds: Collection[EventKind] | None, audience: Audience) -> bytes:
        """Return the text of a batch for clients that want these kinds, encoded once for all such clients."""
        audience = audience.of_events(batch.events)
        key = batch.number, None if kinds is None else frozenset(kinds), audience
        if key not in self._encoded:
            self._encoded[key] = encode_batch(batch.id, batch.events, kinds, audience)
            while len(self._encoded) > _ENCODED:
                self._encoded.popitem(last=False)
        return self._encoded[key]

    def _changed(self) -> None:
        """Pass a change on to the event loop; the feed calls this on its thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for subscriber in self._subscribers:
            subscriber.wake.set()

    async def _check_owners(self) -> None:
        """End the streams of users who were retired or logged out, while there are streams."""
        while self._subscribers:
            await asyncio.sleep(CHECKED)
            owners = {subscriber.owner: subscriber.permitted for subscriber in self._subscribers}
            try:
                gone = await run_in_threadpool(_without_permission, owners)
            except Exception:  # noqa: BLE001  the next check must not depend on it
                get_logger().exception("stream-check-failed")
                continue
            for subscriber in self._subscribers:
                if subscriber.owner in gone:
                    subscriber.revoked = True
                    subscriber.wake.set()


def hub_of(request: Request) -> EventHub:
    """Return the hub of the application that handles a request."""
    hub: EventHub = request.app.state.event_hub
    return hub


def _without_permission(owners: dict[Hashable, Callable[[], bool]]) -> frozenset[Hashable]:
    """Return the owners who may no longer read; while ZooKeeper is away, all owners may."""
    gone = set()
    for owner, permitted in owners.items():
        with contextlib.suppress(ZkdeploymentError):
            if not permitted():
                gone.add(owner)
    return frozenset(gone)


def subscriber_for(request: Request, user: User, adapters: ServerAdapters) -> Subscriber:
    """Return the subscriber for a stream of this user, who sent the request with a key or in a login session."""
    token, audience = session_token(request), audience_of(user)
    client = user.name, client_address(request), user.may(Right.ACT_ON_FLEET)
    if "authorization" in request.headers or token is None:
        return Subscriber(
            (user.name, user.key_number, audience), audience, lambda: _has_key(adapters, user), *client
        )
    return Subscriber((token, audience), audience, lambda: _has_session(adapters, token, audience), *client)


def _has_key(adapters: ServerAdapters, user: User) -> bool:
    """Return whether the user still sees the same events, and still has the key that it used."""
    now = adapters.users.user(user.name)
    if now is None or now.key_number != user.key_number or now.key_has_expired(adapters.clock.now()):
        return False
    return audience_of(now) == audience_of(user)


def _has_session(adapters: ServerAdapters, token: str, audience: Audience) -> bool:
    """Return whether the login session continues, for a user who still sees the same events."""
    user = adapters.logins.session_user(token)
    return user is not None and audience_of(user) == audience


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
                async with asyncio.timeout(SEND_LIMIT):  # wait_for may lose a cancellation in Python 3.11
                    await send(_body(text, more=True))
            async with asyncio.timeout(SEND_LIMIT):
                await send(_body(b"", more=False))
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
                async with asyncio.timeout_at(due):
                    await self._subscriber.wake.wait()
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


router = APIRouter(prefix="/api/v1", tags=["events"])

_STREAM: dict[int | str, dict[str, object]] = {
    200: {"description": "The events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
    **ERRORS,
}


@router.get("/events", response_class=Response, responses=_STREAM)
async def read_events(
    request: Request,
    user: PoolReader,
    adapters: Adapters,
    last_event_id: Annotated[str | None, Header(description="The id of the last event received.")] = None,
    after: Annotated[str | None, Query(description="The same, for a client that cannot send the header.")] = None,
    kinds: Annotated[list[EventKind] | None, Query(description="The wanted kinds; all without it.")] = None,
) -> Response:
    """Send an event for each change of the fleet and of the pools, until the client or the service ends.

    Tenants get the changes of pools and nodes, and of their own sessions.

    The data of an event are a JSON object with the ``id`` of what changed and a few facts. The first event,
    `feed`, has the age of the service's data. After `reset`, load everything again.
    """
    hub = hub_of(request)
    adapters.feed.snapshot()  # answers 503 before the first reading
    subscriber = subscriber_for(request, user, adapters)
    if not hub.has_room(subscriber, site_of(request).limits):
        raise HTTPException(
            503,
            f"there are too many event streams of the user {user}, of its address, or in all; close some, and try"
            " again later",
            {"Retry-After": str(RETRY_AFTER)},
        )
    resume = after if last_event_id is None else last_event_id
    return EventStream(hub, subscriber, resume=resume, kinds=kinds)
