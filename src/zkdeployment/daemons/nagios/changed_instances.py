"""The instances that have changed: those that pokes have named, and those in the list that the bridge polls."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.ports.nagios import MonitoringService
    from zkdeployment.ports.process import Clock

#: The most pokes that are remembered; if there are more, everything has to be synchronized.
_MOST_POKES = 10_000


class ChangedInstances:
    """Collects pokes from any thread, each of which calls ``wake``, and polls every ``interval`` seconds if given.

    All methods but ``poke`` belong to the bridge's thread.
    """

    def __init__(
        self, service: MonitoringService, clock: Clock, interval: float | None, wake: Callable[[], None]
    ) -> None:
        self._service = service
        self._clock = clock
        self._interval = math.inf if interval is None else interval
        self._wake = wake
        self._lock = threading.Lock()
        self._poked: set[str] = set()
        self._polled_at = -math.inf

    def poke(self, instance: str) -> None:
        """Remember an instance that the service has named."""
        with self._lock:
            if len(self._poked) <= _MOST_POKES:
                self._poked.add(instance)
        self._wake()

    @property
    def overflowed(self) -> bool:
        """Whether there were too many pokes to remember."""
        with self._lock:
            return len(self._poked) > _MOST_POKES

    @property
    def due(self) -> float:
        """The time of the next poll, on the monotonic clock."""
        return self._polled_at + self._interval

    def clear(self) -> None:
        """Forget all pokes and put off the next poll, because everything is about to be synchronized."""
        self._polled_at = self._clock.monotonic()
        with self._lock:
            self._poked = set()

    def take(self) -> frozenset[str]:
        """Return the instances, and poll if that is due; raises ``ServiceError``, after which pokes are lost."""
        with self._lock:
            poked, self._poked = self._poked, set()
        now = self._clock.monotonic()
        if now < self.due:
            return frozenset(poked)
        self._polled_at = now
        return self._service.list_flagged() | poked
