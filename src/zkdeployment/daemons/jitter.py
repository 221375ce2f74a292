"""Random waits, so that thousands of daemons do not read ZooKeeper or a repository at the same moment.

Holds pure computations of seconds only; the waiting itself belongs to each daemon.
"""

from __future__ import annotations

import random


def jittered(seconds: float, share: float = 0.2) -> float:
    """Return ``seconds`` changed at random by up to ``share`` of it, up or down."""
    return seconds * random.uniform(1 - share, 1 + share)  # noqa: S311  not a secret


def spread(seconds: float) -> float:
    """Return a random delay between 0 and ``seconds``, for hosts that are all woken by one change."""
    return random.uniform(0, seconds)  # noqa: S311  not a secret
