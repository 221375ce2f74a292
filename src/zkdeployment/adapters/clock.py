"""The machine's clock (a ``Clock``)."""

from __future__ import annotations

import time


class SystemClock:
    """Time as the machine tells it."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
