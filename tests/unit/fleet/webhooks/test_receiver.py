"""When a webhook's event is sent again, and the end of the service that sends."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from support.waiting import UNLIMITED, ManualClock, wait_until
from zkdeployment.fleet.events.event import EventBatch, EventKind, FleetEvent
from zkdeployment.fleet.webhooks.sender import (
    Webhook,
    WebhookAnswer,
    WebhookDispatcher,
    WebhookOutcome,
    WebhookReceiver,
)

if TYPE_CHECKING:
    import pytest


class CountingClock(ManualClock):
    """A clock that counts how often it was read."""

    reads = 0

    def monotonic(self) -> float:
        self.reads += 1
        return super().monotonic()


def test_the_pause_that_a_receiver_asks_for_is_longer_than_the_usual_one():
    clock = CountingClock(1000.0)
    begin, sent = ManualClock.monotonic(clock), []

    def send(*_: Any) -> WebhookAnswer:
        sent.append(ManualClock.monotonic(clock) - begin)
        return WebhookAnswer(WebhookOutcome.FAILED, "busy", pause=300.0)

    receiver = WebhookReceiver(Webhook("http://r.example", frozenset({"stop"})), send, clock, lambda: None)
    receiver.begin(1)
    receiver.add([EventBatch(1, 2, 2, (FleetEvent(EventKind.STOP, "stopped"),))], 2)
    receiver.set_elected(elected=True)
    receiver.start()
    wait_until(lambda: sent, "the first attempt")
    for seconds in (0, 299, 1):
        clock.time += seconds
        reads = clock.reads
        receiver.set_elected(elected=True)
        wait_until(lambda seen=reads: clock.reads > seen, "the sender has read the clock")
    wait_until(lambda: len(sent) == 2, "the second attempt")
    receiver.close()
    assert sent == [0, 300]


def test_a_service_that_ends_leaves_the_election(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zkdeployment.fleet.webhooks.sender._CLOSING", UNLIMITED)
    begun, released = threading.Event(), threading.Event()

    def acquire(_seconds: float) -> bool:
        begun.set()
        wait_until(dispatcher._closed.is_set, "the end of the service")
        return False

    feed: Any = SimpleNamespace(subscribe=lambda _: None, recent_events=lambda: SimpleNamespace(base=1))
    lead: Any = SimpleNamespace(acquire=acquire, release=released.set)
    unused: Any = None
    clock = ManualClock(1000.0)
    dispatcher = WebhookDispatcher((), feed=feed, lead=lead, sender=unused, clock=clock, encode=unused)
    dispatcher.start()
    begun.wait()
    dispatcher.close()
    assert released.is_set()
