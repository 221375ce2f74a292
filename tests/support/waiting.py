"""Waiting for a condition instead of sleeping, and a clock that tests set."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.sandbox.processes import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable


#: Seconds that tests wait: longer than every default time limit of the program, such as the lock delay of 60 s.
#: As in all time limits of tests, seconds on a busy machine count less.
PATIENCE = 150.0

#: Seconds as a time limit of a program or a library under test, where the time limit of the test ends first.
UNLIMITED = 36000.0


def wait_until(condition: Callable[[], object], awaited: str, timeout: float = PATIENCE) -> None:
    """Return when ``condition()`` is true; after ``timeout`` seconds, fail the test, naming the event."""
    deadline, pause = Deadline(timeout), 0.005
    while not condition():
        if deadline.passed:
            raise AssertionError(f"waited {deadline} in vain: {awaited}")
        # Frequent checks would slow down the programs under test.
        time.sleep(pause)
        pause = min(1.1 * pause, 0.05)


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
