"""The port of every daemon to the time."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time."""

    def now(self) -> float:
        """Return seconds since the epoch, for display."""

    def monotonic(self) -> float:
        """Return seconds of a clock that is never set back, for measuring."""
