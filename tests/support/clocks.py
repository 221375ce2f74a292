"""A clock that tests set; it passes the contract suite of clocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ManualClock:
    """Implements ``ports.Clock``: time stands still until a test sets ``time`` (seconds since the epoch)."""

    time: float = 1_000_000.0

    def now(self) -> float:
        """Return ``time``."""
        return self.time

    def monotonic(self) -> float:
        """Return ``time``."""
        return self.time
