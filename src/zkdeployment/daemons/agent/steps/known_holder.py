"""The holder of a lock as a host in the queue knows it, for the step that the host shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from zkdeployment.daemons.queue_pace import asks_for_holder

if TYPE_CHECKING:
    from zkdeployment.ports.locks import QueuedLock
    from zkdeployment.ports.process import Clock

#: With fewer hosts ahead of it in the queue, a host watches the holder itself.
_FAR_BACK = 2


class KnownHolder:
    """The holder of ``lock``, which is read at the pace of the queue."""

    def __init__(self, lock: QueuedLock, clock: Clock) -> None:
        self._lock = lock
        self._clock = clock
        self._name: str | None = None
        self._ahead: int | None = None
        self._since = 0.0

    def read(self, turn: int) -> None:
        """Read the holder if it is due in this turn; the first call always reads it."""
        if self._name is not None and not asks_for_holder(turn, self._lock.ahead, self._ahead):
            return
        name = self._lock.holder()
        if name != self._name:
            self._name, self._since = name, self._clock.now()
        self._ahead = self._lock.ahead

    def __str__(self) -> str:
        """Return the holder, with the time when it was read first if it may be another one by now."""
        holder = f"held by {self._name or 'nobody'}"
        if self._lock.ahead < _FAR_BACK:
            return holder
        return f"{holder} as of {datetime.fromtimestamp(self._since, UTC):%Y-%m-%d %H:%M:%S} UTC"
