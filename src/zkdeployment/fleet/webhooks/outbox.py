"""Webhooks: the receivers, the events that each still has to get, and events as CloudEvents."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from zkdeployment.fleet.events.event import RESET_EVENT, STREAM_KINDS, EventBatch, EventKind, EventLog, FleetEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


#: The kinds of events that a webhook can choose: all kinds but those about the stream of one client.
WEBHOOK_KINDS = tuple(kind.value for kind in EventKind if kind not in STREAM_KINDS)


@dataclass(frozen=True, slots=True)
class Webhook:
    """The URL to which events of these kinds are sent. The URL may contain a secret: do not log it."""

    url: str
    kinds: frozenset[str]

    @property
    def origin(self) -> str:
        """The part of the URL that may be logged: scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def digest(self) -> str:
        """A name for the URL that does not disclose the URL."""
        return hashlib.sha256(self.url.encode()).hexdigest()[:32]


#: The most events that wait for a receiver. The oldest ones beyond this limit are dropped.
MOST_WAITING = 1000

#: Seconds between the first two attempts, and the longest time between two attempts.
FIRST_DELAY = 1.0
LONGEST_DELAY = 900.0

#: Seconds after which a waiting event is dropped.
GIVEN_UP = 86400.0


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """An event that waits for a receiver, with the transaction and the time of the reading that found it.

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

    ``read`` is the last transaction whose changes were added, ``dropped`` the number of dropped events.
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
        """Replace the oldest events by one that asks the receiver to load everything again."""
        oldest, waiting = self.waiting[:number], self.waiting[number:]
        reset = replace(oldest[-1], event=RESET_EVENT, before=oldest[0].before, since=now)
        dropped = sum(item.event.kind is not EventKind.RESET for item in oldest)
        return replace(self, waiting=(reset, *waiting), dropped=self.dropped + dropped)

    def without(self, item: WebhookEvent) -> WebhookOutbox:
        """Return the outbox without its oldest event if that is ``item``, which may have been dropped before."""
        if self.waiting and self.waiting[0] is item:
            return replace(self, waiting=self.waiting[1:])
        return self


def unsent_batches(log: EventLog, acknowledged: int | None, now: float) -> tuple[EventBatch, ...]:
    """Return the first batches of a newly elected service: those after transaction ``acknowledged``.

    Without such a transaction there is nothing to send. If the log does not reach back far enough, the receiver is
    asked to load everything again, and gets the whole log; ``now`` is the time of that request.
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


_CONTENT_TYPE = "application/cloudevents+json"

#: The digits of the digest in the id of an event.
_DIGITS = 12

#: The header of the signature: ``sha256=`` and the HMAC-SHA256 of the body in hexadecimal digits.
_SIGNATURE = "X-Zkdeployment-Signature"


def signed_request(item: WebhookEvent, *, source: str, key: str) -> tuple[bytes, Mapping[str, str]]:
    """Return the body and the headers of the request for an event.

    ``source`` is the address of the service for people. ``key`` signs the body.
    """
    body = encode_event(item, source)
    digest = hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    return body, {"Content-Type": _CONTENT_TYPE, _SIGNATURE: f"sha256={digest}"}


def encode_event(item: WebhookEvent, source: str) -> bytes:
    """Return an event as JSON.

    Each time that a service sends the event again, the id is the same. A reading may have several events of a kind
    about one subject, such as two metrics of a rollout: their ids differ in the digest of their data. A service
    that finds the same change in a reading of the same transaction gives it the same id.
    """
    event = item.event
    kind, data = event.kind.value, event.to_json()
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:_DIGITS]
    return json.dumps(
        {
            "specversion": "1.0",
            "id": f"{item.transaction}-{kind}-{event.subject}-{digest}",
            "source": source,
            "type": f"zkdeployment.{kind}",
            "subject": event.subject,
            "time": datetime.fromtimestamp(item.time, tz=UTC).isoformat(timespec="milliseconds"),
            "datacontenttype": "application/json",
            "data": data,
        }
    ).encode()
