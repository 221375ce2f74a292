"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


#: Seconds that tests wait: longer than every default time limit of the program, such as the lock delay of 60 s.
PATIENCE = 150.0


def wait_until(condition: Callable[[], object], awaited: str, timeout: float = PATIENCE) -> None:
    """Return when ``condition()`` is true; after ``timeout`` seconds, fail the test, naming the event."""
    start = time.monotonic()
    while not condition():
        waited = time.monotonic() - start
        if waited > timeout:
            raise AssertionError(f"waited {timeout:g} s in vain: {awaited}")
        # Frequent checks would slow down the programs under test.
        time.sleep(min(max(waited / 10, 0.005), 0.05))
