"""Waits a moment until the cached fleet contains a change, so that the next answer contains it, too."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.zookeeper.feed.feed import ZooKeeperFeed
    from zkdeployment.fleet.cached_fleet import FleetReading

#: The longest wait in seconds.
_LONGEST = 1.0


def wait_for_reading(feed: ZooKeeperFeed, is_wanted: Callable[[FleetReading], bool]) -> None:
    """Return when a reading is as wanted, or after a moment."""
    changed = threading.Event()
    unsubscribe = feed.subscribe(changed.set)
    deadline = time.monotonic() + _LONGEST
    try:
        while not is_wanted(feed.snapshot().reading) and changed.wait(max(0.0, deadline - time.monotonic())):
            changed.clear()
    finally:
        unsubscribe()
