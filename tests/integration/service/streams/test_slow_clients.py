"""Clients of the event stream that take nothing, or too little, on a real feed."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from starlette.types import Message

from support.builders import make_user
from support.waiting import wait_until
from support.zookeeper import write_node
from zkdeployment.base.errors import UnreachableError
from zkdeployment.fleet.events import event
from zkdeployment.fleet.feed.feed import ZooKeeperFeed
from zkdeployment.service.api import events
from zkdeployment.service.api.events import EventHub, EventStream, Subscriber, audience_of
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

EVERYTHING = audience_of(make_user("jim", Role.ADMIN))


@pytest.fixture
def feed(zookeeper: str, client: KazooClient) -> Iterator[ZooKeeperFeed]:
    client.create("/hosts", b"{}")
    running = ZooKeeperFeed(lambda: Session(zookeeper, session_timeout=6.0, call_timeout=3.0))
    running.start()
    try:
        wait_until(lambda: running.recent_events().last, "the first reading")
        yield running
    finally:
        running.close()


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def test_a_client_that_takes_nothing_is_disconnected(feed: ZooKeeperFeed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "SEND_LIMIT", 0.2)
    hub = EventHub(feed)

    async def stuck(message: Message) -> None:
        if message["type"] != "http.response.start":
            await never()

    asyncio.run(EventStream(hub, Subscriber("jim", EVERYTHING, lambda: True))({}, never, stuck))
    assert (hub.lost, hub.streams) == (1, 0)


def test_a_client_that_is_too_slow_for_the_log_gets_a_reset_instead_of_a_queue(
    feed: ZooKeeperFeed, client: KazooClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(event, "KEPT", 3)
    hub = EventHub(feed)
    sent: list[bytes] = []

    def change() -> None:
        first = feed.recent_events().last
        for number in range(6):
            seen = feed.recent_events().last
            write_node(client, f"/hosts/h{number}", {"version": "r1"})
            wait_until(lambda seen=seen: feed.recent_events().last > seen, "the event")
        assert feed.recent_events().after(first) is None

    async def slow(message: Message) -> None:
        sent.append(message.get("body", b""))
        if len(sent) == 2:
            await asyncio.to_thread(change)

    async def stream() -> None:
        task = asyncio.create_task(EventStream(hub, Subscriber("jim", EVERYTHING, lambda: True))({}, never, slow))
        await asyncio.to_thread(wait_until, lambda: len(sent) >= 3, "the next text")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(stream())
    assert sent[2].startswith(b"event: reset")
    assert hub.streams == 0


def test_a_stream_that_is_cancelled_just_when_it_has_sent_something_ends(feed: ZooKeeperFeed):
    async def stream() -> bool:
        async def cancel(message: Message) -> None:
            if message["type"] != "http.response.start":
                asyncio.get_running_loop().call_soon(task.cancel)

        whole = EventStream(EventHub(feed), Subscriber("jim", EVERYTHING, lambda: True))
        task = asyncio.create_task(whole({}, never, cancel))
        await asyncio.wait({task}, timeout=5.0)
        return task.cancelled()

    assert asyncio.run(stream())


def test_a_service_that_has_not_read_the_fleet_has_no_stream_to_begin(zookeeper: str):
    feed = ZooKeeperFeed(lambda: Session(zookeeper))
    with pytest.raises(UnreachableError):
        asyncio.run(
            EventStream(EventHub(feed), Subscriber("jim", EVERYTHING, lambda: True))({}, never, never_sends)
        )


async def never_sends(message: Message) -> None:
    del message
