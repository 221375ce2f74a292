"""How long a daemon waits after a cycle that failed unexpectedly."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Seconds to wait: 0 before the first failure, then ``first``, doubled with each failure up to ``most``."""

    first: float
    most: float
    seconds: float = 0.0

    def fail(self) -> float:
        """Note a failure and return how long to wait."""
        self.seconds = min(self.most, self.seconds * 2 or self.first)
        return self.seconds

    def reset(self) -> None:
        """Note a cycle that did not fail."""
        self.seconds = 0.0
