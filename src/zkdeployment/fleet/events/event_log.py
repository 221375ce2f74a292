"""The recent events, from which a client resumes after an interrupted connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.fleet.events.event import RESET_EVENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.fleet.events.event import FleetEvent

#: The most events of one reading that are passed on. After more changes at once, clients load everything again.
MOST_AT_ONCE = 500

#: How many events are kept for clients that resume.
KEPT = 5000


@dataclass(frozen=True, slots=True)
class EventBatch:
    """The events of one reading, in order.

    ``id`` is the last transaction that the reading certainly contains; clients resume from it. ``upto`` is the
    last transaction that the reading can contain. ``number`` counts the batches of this service. ``time`` is that
    of the reading, in seconds since the epoch.
    """

    number: int
    id: int
    upto: int
    events: tuple[FleetEvent, ...]
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class EventLog:
    """The recent batches of events, oldest first: at most ``KEPT`` events, however fast the fleet changes.

    Changes up to transaction ``base`` can be missing in ``batches``, later ones cannot. ``last`` is the number of
    the newest batch.
    """

    base: int = 0
    batches: tuple[EventBatch, ...] = ()
    last: int = 0

    def appended(self, id_: int, upto: int, events: Sequence[FleetEvent], time: float = 0.0) -> EventLog:
        """Return the log with a batch of these events; the oldest batches are dropped when there are too many."""
        shown = tuple(events) if len(events) <= MOST_AT_ONCE else (RESET_EVENT,)
        batches = (*self.batches, EventBatch(self.last + 1, id_, upto, shown, time))
        base, kept = self.base, sum(len(batch.events) for batch in batches)
        start = 0
        while kept > KEPT and start < len(batches) - 1:
            base, kept = max(base, batches[start].upto), kept - len(batches[start].events)
            start += 1
        return EventLog(base, batches[start:], self.last + 1)

    def after(self, number: int) -> tuple[EventBatch, ...] | None:
        """Return the batches after the one with this number; ``None`` if some of them were dropped."""
        if number >= self.last:
            return ()
        if not self.batches or self.batches[0].number > number + 1:
            return None
        return self.batches[number + 1 - self.batches[0].number :]

    def since(self, id_: int) -> tuple[EventBatch, ...] | None:
        """Return the batches that can contain a change after transaction ``id_``, wherever a client received it.

        ``None`` means that older changes are no longer known. A batch may repeat what the client knows already.
        """
        if id_ < self.base:
            return None
        return tuple(batch for batch in self.batches if batch.upto > id_)
