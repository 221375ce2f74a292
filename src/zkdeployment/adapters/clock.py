"""The machine's clock (a ``Clock``)."""

from __future__ import annotations

import time


class SystemClock:
    """Time as the machine tells it."""

    def now(self) -> float:
        """Seconds since the epoch, for display."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds for measuring, never set back."""
        return time.monotonic()
