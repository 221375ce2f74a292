"""One receiver of webhooks: a thread that sends its events in order, so that no receiver delays another."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.fleet.webhooks.outbox import WebhookOutbox, retry_delay
from zkdeployment.log import get_logger
from zkdeployment.ports.webhooks import WebhookOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zkdeployment.fleet.events.event_log import EventBatch
    from zkdeployment.fleet.webhooks.outbox import WebhookEvent
    from zkdeployment.fleet.webhooks.webhook import Webhook
    from zkdeployment.ports.process import Clock
    from zkdeployment.ports.webhooks import WebhookAnswer


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
        """Begin to send what is added."""
        self._thread.start()

    def close(self) -> None:
        """Begin no further request."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def join(self, timeout: float) -> None:
        """Wait for the request in progress, but not longer than ``timeout`` seconds."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    def begin(self, transaction: int) -> None:
        """Forget all events; those after ``transaction`` follow."""
        with self._changed:
            self._outbox, self._failures, self._due = WebhookOutbox(transaction), 0, 0.0

    def set_elected(self, *, elected: bool) -> None:
        """Send only while ``elected``."""
        with self._changed:
            self._elected = elected
            self._changed.notify()

    def add(self, batches: Iterable[EventBatch], confirmed: int) -> None:
        """Add batches of events; every change up to transaction ``confirmed`` was added then."""
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
        """Remove an event that needs no further attempt; let the next attempt wait after a failure."""
        log = get_logger().bind(receiver=self.webhook.origin)
        if answer.outcome is WebhookOutcome.FAILED:
            self._failures += 1
            self._due = self._clock.monotonic() + retry_delay(self._failures)
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
