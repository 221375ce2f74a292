"""The pause of a daemon after cycles that failed unexpectedly. The waiting itself belongs to the daemon."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Backoff:
    """The pause in ``seconds``: 0 at first, ``first`` after one failure, doubled by each more up to ``most``."""

    first: float
    most: float
    seconds: float = 0.0

    def fail(self) -> float:
        """Record a failed cycle and return the pause after it."""
        self.seconds = min(self.most, self.seconds * 2 or self.first)
        return self.seconds

    def reset(self) -> None:
        """Record a successful cycle: there is no pause."""
        self.seconds = 0.0
