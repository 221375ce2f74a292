"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(condition: Callable[[], object], awaited: str, timeout: float = 60.0) -> None:
    """Return when ``condition()`` is true; fail the test naming ``awaited`` after ``timeout`` seconds."""
    start = time.monotonic()
    while not condition():
        waited = time.monotonic() - start
        if waited > timeout:
            raise AssertionError(f"waited {timeout:g} s in vain: {awaited}")
        # To look all the time would slow down what is waited for.
        time.sleep(min(max(waited / 10, 0.005), 0.05))
