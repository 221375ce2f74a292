"""Time limits that grow while a machine has more work than processors."""

from __future__ import annotations

import os
import time

#: The largest factor by which a busy machine stretches a time limit.
_LARGEST = 10.0


def slowdown() -> float:
    """Return the average number of programs per processor that wanted to run in the last minute, at least 1."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return 1.0
    return max(1.0, load / len(os.sched_getaffinity(0)))


class Deadline:
    """A time limit of ``seconds`` for programs that share the processors with other work.

    A second counts only as much as a program gets of it: with a load of 22 on two processors, 11 seconds count as
    one. The limit is over after ten times ``seconds`` in any case.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._begun = self._counted = time.monotonic()
        self._used = 0.0

    @property
    def passed(self) -> bool:
        """Whether the time limit is over."""
        now = time.monotonic()
        self._used += (now - self._counted) / slowdown()
        self._counted = now
        return self._used > self.seconds or now - self._begun > _LARGEST * self.seconds

    def __str__(self) -> str:
        elapsed = self._counted - self._begun
        if elapsed < 2 * self._used:
            return f"{elapsed:.0f} s"
        return (
            f"{elapsed:.0f} s on a machine that is too busy to judge (it had time for {self._used:.0f} s of work)"
        )
