"""What every daemon needs of the machine: time, its supervisor, mail, metrics."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time, as an argument."""

    def now(self) -> float:
        """Seconds since the epoch, for display."""

    def monotonic(self) -> float:
        """Seconds for measuring, never set back."""
