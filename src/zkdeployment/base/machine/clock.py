"""The services that a daemon needs from its machine: time, supervisor, mail and metrics."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Time."""

    def now(self) -> float:
        """Return seconds since the epoch, for display."""

    def monotonic(self) -> float:
        """Return seconds of a clock that is never set back, for measuring."""


class SystemClock:
    """The system time and the monotonic time of the machine."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
