"""The event hub: passes changes of the feed to the streams of all clients, and ends streams of users who left.

The feed calls from its own thread; everything else here runs in the event loop of the HTTP server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from zkdeployment.errors import ZkdeploymentError
from zkdeployment.log import get_logger
from zkdeployment.web.streams.event_text import encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from fastapi import Request

    from zkdeployment.adapters.zookeeper.feed.feed import ZooKeeperFeed
    from zkdeployment.fleet.events.event import EventKind
    from zkdeployment.fleet.events.event_log import EventBatch
    from zkdeployment.model.logins.client_limits import ClientLimits
    from zkdeployment.web.streams.audience import Audience

#: Seconds between two checks whether the users of the streams may still read.
CHECKED = 1.0

#: The most streams of one service; further clients are asked to try again later. Those who may act on the fleet
#: have the rest for themselves when the streams of all others reach the second number.
MOST_STREAMS, MOST_OTHERS = 2000, 1500

#: How many encoded batches are kept: streams that are up to date need only the newest.
_ENCODED = 64


@dataclass(eq=False)
class Subscriber:
    """One stream: whose it is, and the event that is set when it has something to do.

    ``owner`` is equal for streams that end together, and sees the events for ``audience``; ``permitted`` returns
    whether the owner may still read, and may send a request to ZooKeeper. ``user`` and ``address`` are the
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
        """Return whether another stream may begin: for its user, for its address, and in all."""
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
        """Return the text of a batch for clients that want these kinds; it is encoded once for all of them."""
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
        """End the streams of users who were retired or logged out, for as long as there are streams."""
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
    """Return the owners who may no longer read; while ZooKeeper is away, everybody still may."""
    gone = set()
    for owner, permitted in owners.items():
        with contextlib.suppress(ZkdeploymentError):
            if not permitted():
                gone.add(owner)
    return frozenset(gone)
