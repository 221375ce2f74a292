"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(condition: Callable[[], object], what: str, timeout: float = 20.0) -> None:
    """Return when ``condition()`` is true; fail the test naming ``what`` after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s in vain: {what}")
        time.sleep(0.01)
