"""The events that one webhook still has to get, and when a failed request is repeated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.fleet.events.event import RESET_EVENT, EventKind
from zkdeployment.fleet.events.event_log import EventBatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.fleet.events.event import FleetEvent
    from zkdeployment.fleet.events.event_log import EventLog
    from zkdeployment.fleet.webhooks.webhook import Webhook

#: The most events that wait for a receiver. If there are more, the oldest are dropped.
MOST_WAITING = 1000

#: Seconds between the first two attempts, and at most between two attempts.
FIRST_DELAY = 1.0
LONGEST_DELAY = 900.0

#: Seconds after which a waiting event is dropped.
GIVEN_UP = 86400.0


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """An event that waits for a receiver, with the transaction and the time of the reading that showed it.

    Every change up to transaction ``before`` is in earlier events. ``since`` is when the event began to wait, by a
    clock that is never set back.
    """

    event: FleetEvent
    transaction: int
    time: float
    before: int
    since: float


@dataclass(frozen=True, slots=True)
class WebhookOutbox:
    """The waiting events of a webhook, oldest first.

    ``read`` is the last transaction whose changes were added, ``dropped`` the number of events that were too many.
    """

    read: int
    waiting: tuple[WebhookEvent, ...] = ()
    dropped: int = 0

    @property
    def acknowledged(self) -> int:
        """The last transaction whose changes the receiver got; another service continues after it."""
        return self.waiting[0].before if self.waiting else self.read

    def added(self, batches: Iterable[EventBatch], webhook: Webhook, now: float) -> WebhookOutbox:
        """Return the outbox with the events of these batches that the webhook gets."""
        waiting, read = [*self.waiting], self.read
        for batch in batches:
            waiting += [
                WebhookEvent(event, batch.id, batch.time, read, now)
                for event in batch.events
                if event.kind is EventKind.RESET or event.kind.value in webhook.kinds
            ]
            read = batch.id
        added = WebhookOutbox(read, tuple(waiting), self.dropped)
        return added if len(waiting) <= MOST_WAITING else added._replaced(len(waiting) - MOST_WAITING + 1, now)

    def expired(self, now: float) -> WebhookOutbox:
        """Return the outbox without the events that waited too long."""
        number = sum(item.since <= now - GIVEN_UP for item in self.waiting)
        return self._replaced(number, now) if number else self

    def _replaced(self, number: int, now: float) -> WebhookOutbox:
        """Drop the oldest events; the receiver is asked to load everything again instead."""
        oldest, waiting = self.waiting[:number], self.waiting[number:]
        reset = replace(oldest[-1], event=RESET_EVENT, before=oldest[0].before, since=now)
        dropped = sum(item.event.kind is not EventKind.RESET for item in oldest)
        return replace(self, waiting=(reset, *waiting), dropped=self.dropped + dropped)

    def without(self, item: WebhookEvent) -> WebhookOutbox:
        """Return the outbox without its oldest event if that is ``item``; it may have been dropped before."""
        if self.waiting and self.waiting[0] is item:
            return replace(self, waiting=self.waiting[1:])
        return self


def unsent_batches(log: EventLog, acknowledged: int | None, now: float) -> tuple[EventBatch, ...]:
    """Return what a newly elected service sends first: the batches after transaction ``acknowledged``.

    Without such a transaction there is nothing to send. If the log does not reach back far enough, the receiver is
    asked to load everything again, and gets all that the log has; ``now`` is the time of that request.
    """
    if acknowledged is None:
        return ()
    batches = log.since(acknowledged)
    if batches is None:
        return (reset_batch(log.base, now), *log.batches)
    return batches


def reset_batch(transaction: int, now: float) -> EventBatch:
    """Return a batch for receivers that missed events up to ``transaction``: load everything again."""
    return EventBatch(0, transaction, transaction, (RESET_EVENT,), now)


def last_transaction(log: EventLog) -> int:
    """Return a transaction such that every later change is in a later batch."""
    return log.batches[-1].id if log.batches else log.base


def retry_delay(attempts: int) -> float:
    """Return the seconds between the failed attempt with this number, from 1, and the next attempt."""
    return min(FIRST_DELAY * 2.0 ** min(attempts - 1, 20), LONGEST_DELAY)
