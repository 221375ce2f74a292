"""Sends the events of the feed to the receivers of webhooks, in order and each in a thread of its own.

One of the services, which is elected, sends them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from zkdeployment.base.errors import LockLostError, UnreachableError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.http import HttpClient, HttpError
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.events.event import RESET_EVENT, STREAM_KINDS, EventBatch, EventKind, EventLog, FleetEvent
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import ContenderLock
from zkdeployment.zookeeper.transactions import Check, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.zookeeper.session import Session

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


class WebhookOutcome(Enum):
    """The outcome of a request to a receiver."""

    ACCEPTED = "accepted"
    FAILED = "failed"  # a later attempt may succeed
    REFUSED = "refused"  # the receiver will never accept this event


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """The outcome of a request; ``reason`` has neither the URL nor the key.

    ``pause`` is the number of seconds in which the receiver wants no request.
    """

    outcome: WebhookOutcome
    reason: str = ""
    pause: float = 0.0


class WebhookReceiver:
    """Sends the events of ``webhook`` with ``send`` while this service is elected.

    ``progressed`` (which must not block) is called after each event that needs no further attempt.
    """

    def __init__(
        self,
        webhook: Webhook,
        send: Callable[[Webhook, WebhookEvent], WebhookAnswer],
        clock: Clock,
        progressed: Callable[[], None],
    ) -> None:
        self.webhook = webhook
        self._send = send
        self._clock = clock
        self._progressed = progressed
        self._changed = threading.Condition()
        self._outbox: WebhookOutbox | None = None
        self._elected = False
        self._closed = False
        self._failures = 0
        self._due = 0.0
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def start(self) -> None:
        """Begin to send added events."""
        self._thread.start()

    def close(self) -> None:
        """Stop beginning requests."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def join(self, timeout: float) -> None:
        """Wait for the request in progress, but not longer than ``timeout`` seconds."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    def begin(self, transaction: int) -> None:
        """Forget all events; later calls add the events after ``transaction``."""
        with self._changed:
            self._outbox, self._failures, self._due = WebhookOutbox(transaction), 0, 0.0

    def set_elected(self, *, elected: bool) -> None:
        """Send only while ``elected``."""
        with self._changed:
            self._elected = elected
            self._changed.notify()

    def add(self, batches: Iterable[EventBatch], confirmed: int) -> None:
        """Add batches of events, which complete the changes up to transaction ``confirmed``."""
        with self._changed:
            if self._outbox is None:
                return
            former = self._outbox.dropped
            outbox = self._outbox.added(batches, self.webhook, self._clock.monotonic())
            self._outbox = replace(outbox, read=max(outbox.read, confirmed))
            if former == 0 < self._outbox.dropped:
                get_logger().warning("webhook-events-dropped", receiver=self.webhook.origin)
            self._changed.notify()

    @property
    def acknowledged(self) -> int:
        """The last transaction whose changes the receiver got."""
        with self._changed:
            return 0 if self._outbox is None else self._outbox.acknowledged

    def _run(self) -> None:
        while (item := self._next()) is not None:
            answer = self._send(self.webhook, item)
            with self._changed:
                self._settle(item, answer)

    def _next(self) -> WebhookEvent | None:
        """Wait for the next event to send; ``None`` at the end."""
        with self._changed:
            while not self._closed:
                pause: float | None = None
                if self._elected and self._outbox is not None and self._outbox.waiting:
                    pause = self._due - self._clock.monotonic()
                    if pause <= 0:
                        self._outbox = self._outbox.expired(self._clock.monotonic())
                        return self._outbox.waiting[0]
                self._changed.wait(pause)
        return None

    def _settle(self, item: WebhookEvent, answer: WebhookAnswer) -> None:
        """Remove an event that needs no further attempt; after a failure, delay the next attempt."""
        log = get_logger().bind(receiver=self.webhook.origin)
        if answer.outcome is WebhookOutcome.FAILED:
            self._failures += 1
            self._due = self._clock.monotonic() + max(retry_delay(self._failures), answer.pause)
            if self._failures == 1:
                log.warning("webhook-failed", reason=answer.reason)
            return
        if answer.outcome is WebhookOutcome.REFUSED:
            log.warning("webhook-event-refused", event_kind=item.event.kind.value, reason=answer.reason)
        elif self._failures:
            log.info("webhook-recovered", dropped=0 if self._outbox is None else self._outbox.dropped)
        self._failures, self._due = 0, 0.0
        if self._outbox is not None:
            self._outbox = replace(self._outbox.without(item), dropped=0)
        self._progressed()


#: Seconds between two checks of the election, and the least time between two records of acknowledged events.
_INTERVAL = 2.0

#: Seconds between two records without events.
_IDLE_INTERVAL = 60.0

#: Seconds between attempts to be elected while ZooKeeper is away.
_AGAIN = 1.0

#: Seconds for each wait in the queue of the election, and for the requests in progress at the end.
_QUEUED = 1.0
_CLOSING = 2.0


class WebhookDispatcher:
    """Sends the events of ``feed`` to ``webhooks`` while this service is elected, in threads of its own.

    ``encode`` returns the body and the headers of the request for an event.
    """

    def __init__(
        self,
        webhooks: Iterable[Webhook],
        *,
        feed: ZooKeeperFeed,
        lead: ZooKeeperWebhookLead,
        sender: HttpWebhookSender,
        clock: Clock,
        encode: Callable[[WebhookEvent], tuple[bytes, Mapping[str, str]]],
    ) -> None:
        self._feed, self._lead, self._sender, self._clock = feed, lead, sender, clock
        self._encode = encode
        self._receivers = [WebhookReceiver(webhook, self._send, clock, self._note) for webhook in webhooks]
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._number = 0
        self._progress = False
        self._recorded: dict[str, int] = {}
        self._recorded_at = 0.0
        self._logged = ""
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        """Begin to contend for the election."""
        self._feed.subscribe(self._wake.set)
        for receiver in self._receivers:
            receiver.start()
        self._thread.start()

    def close(self) -> None:
        """Stop sending, and let another service be elected."""
        for receiver in self._receivers:
            receiver.close()
        deadline = time.monotonic() + _CLOSING
        for receiver in self._receivers:
            receiver.join(max(0.0, deadline - time.monotonic()))
        self._closed.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSING)

    def _send(self, webhook: Webhook, item: WebhookEvent) -> WebhookAnswer:
        body, headers = self._encode(item)
        return self._sender.send(webhook.url, body, headers)

    def _note(self) -> None:
        self._progress = True

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                if self._is_elected():
                    self._begin()
                    self._dispatch()
            except LockLostError as error:
                get_logger().warning("webhooks-lead-lost", reason=str(error))
            except ZkdeploymentError as error:
                self._report(str(error))
                self._closed.wait(_AGAIN)
            except Exception:  # noqa: BLE001  the other parts of the service continue, and this thread tries again
                get_logger().exception("webhooks-failed")
                self._closed.wait(_AGAIN)
            finally:
                self._set_elected(elected=False)
        self._lead.release()

    def _is_elected(self) -> bool:
        """Contend for a moment, once the fleet was read."""
        if not self._feed.recent_events().base:
            self._wake.wait(_QUEUED)
            self._wake.clear()
            return False
        return self._lead.acquire(_QUEUED)

    def _begin(self) -> None:
        """Continue after the last events that the previously elected service sent."""
        former, log = self._lead.acknowledged(), self._feed.recent_events()
        last, now = last_transaction(log), self._clock.now()
        for receiver in self._receivers:
            transaction = former.get(receiver.webhook.digest)
            receiver.begin(last if transaction is None else min(last, transaction))
            receiver.add(unsent_batches(log, transaction, now), 0)
        self._number = log.last
        self._record()
        get_logger().info("webhooks-lead-acquired")

    def _dispatch(self) -> None:
        """Pass on events until the end, or until ``LockLostError``; pause while ZooKeeper is away."""
        checked = self._clock.monotonic()
        self._set_elected(elected=True)
        while not self._closed.is_set():
            self._wake.clear()
            self._pass_on()
            if self._clock.monotonic() - checked >= _INTERVAL:
                try:
                    self._confirm()
                except UnreachableError as error:
                    self._set_elected(elected=False)
                    self._report(str(error))
                    self._closed.wait(_AGAIN)
                    continue
                self._report("")
                self._set_elected(elected=True)
                checked = self._clock.monotonic()
            self._wake.wait(_INTERVAL)
        self._record()

    def _pass_on(self) -> None:
        """Pass new batches to the receivers."""
        confirmed = self._feed.snapshot().zxid  # read before the log, so that the log has every earlier change
        log = self._feed.recent_events()
        batches = log.after(self._number)
        if batches is None:
            batches = (reset_batch(last_transaction(log), self._clock.now()),)
        for receiver in self._receivers:
            receiver.add(batches, confirmed)
        self._number = log.last

    def _confirm(self) -> None:
        """Record the acknowledged events, or at least check that this service is still elected."""
        outdated = self._clock.monotonic() - self._recorded_at >= _IDLE_INTERVAL
        if self._progress or outdated:
            self._record()
        else:
            self._lead.check()

    def _record(self) -> None:
        self._progress = False
        acknowledged = {receiver.webhook.digest: receiver.acknowledged for receiver in self._receivers}
        if acknowledged != self._recorded:
            self._lead.acknowledge(acknowledged)
        self._recorded, self._recorded_at = acknowledged, self._clock.monotonic()

    def _set_elected(self, *, elected: bool) -> None:
        for receiver in self._receivers:
            receiver.set_elected(elected=elected)

    def _report(self, problem: str) -> None:
        """Log a problem once."""
        if problem and not self._logged:
            get_logger().warning("webhooks-paused", reason=problem)
        self._logged = problem


#: Seconds for a request.
_TIMEOUT = 5.0

#: Statuses with which a receiver rejects an event for good. Others may be temporary, such as 404 during an
#: upgrade.
_REFUSALS = frozenset({400, 413, 415, 422})


class HttpWebhookSender:
    """Requests without redirects, from any thread; only the status of an answer counts.

    ``ca`` is a file of certificates to trust (``None``: those of the system).
    """

    def __init__(self, ca: Path | None = None) -> None:
        self._http = HttpClient(ca)

    def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> WebhookAnswer:
        """Send one request and return its outcome within a few seconds; never raises."""
        try:
            answer = self._http.request("POST", url, timeout=_TIMEOUT, most=0, body=body, headers=headers)
        except HttpError as error:
            return WebhookAnswer(WebhookOutcome.FAILED, f"the receiver cannot be reached: {error}")
        if not answer.problem:
            return WebhookAnswer(WebhookOutcome.ACCEPTED)
        outcome = WebhookOutcome.REFUSED if answer.status in _REFUSALS else WebhookOutcome.FAILED
        return WebhookAnswer(outcome, answer.problem, answer.retry_after(time.time()))


class ZooKeeperWebhookLead:
    """One service's contention; ``identity`` is its name in the queue.

    Every write fails unless the contender's node still exists, so that a service whose session has expired writes
    nothing. Only one thread may call the methods. Except for ``release``, they raise ``UnreachableError`` while
    ZooKeeper is away.
    """

    def __init__(self, session: Session, identity: str) -> None:
        self._session = session
        self._lock = ContenderLock(session, paths.WEBHOOKS, identity)

    def acquire(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the election of this service; return whether it is elected."""
        return self._lock.acquire(timeout)

    def acknowledged(self) -> Mapping[str, int]:
        """Return the last transaction whose changes each receiver got, by the digest of its URL."""
        node = self._session.get(paths.WEBHOOKS)
        recorded = {} if node is None else node.properties.get("acknowledged")
        if not isinstance(recorded, dict):
            return {}
        return {digest: number for digest, number in recorded.items() if type(number) is int}

    def acknowledge(self, transactions: Mapping[str, int]) -> None:
        """Replace the value of ``acknowledged``; raises ``LockLostError`` if this service is no longer elected."""
        node = self._lock.path
        if node is None:
            raise LockLostError("this service is not elected to send webhooks")
        data = json.dumps({"acknowledged": dict(sorted(transactions.items()))}).encode()
        try:
            self._session.commit(Check(node, 0), Set(paths.WEBHOOKS, data))
        except TransactionError as error:
            raise LockLostError("another service was elected to send webhooks: the session expired") from error

    def check(self) -> None:
        """Raise ``LockLostError`` if this service is no longer elected."""
        self._lock.check()

    def release(self) -> None:
        """End this service's contention, so that another service can be elected; never raises."""
        self._lock.release()
