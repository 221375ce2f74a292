"""The machine's clock (implements ``ports.Clock``)."""

from __future__ import annotations

import time


class SystemClock:
    """The system time and the monotonic time of the machine."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
