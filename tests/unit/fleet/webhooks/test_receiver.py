"""When a webhook's event is sent again."""

from __future__ import annotations

from typing import Any

from support.waiting import ManualClock, wait_until
from zkdeployment.fleet.events.event import EventBatch, EventKind, FleetEvent
from zkdeployment.fleet.webhooks.sender import Webhook, WebhookAnswer, WebhookOutcome, WebhookReceiver


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
