"""The interval at which a host in the queue of a lock reads more than the cluster version.

A thousand hosts may wait for one lock. The farther back a host is in the queue, the less often it reads, so all
hosts together read about as often as the first few.
"""

from __future__ import annotations

#: Seconds between two reads of the cluster version in a lock's queue: one turn.
TURN = 2.0

_MAX_TURNS = 30  # between two checks of other locks


def asks_for_holder(turn: int, ahead: int) -> bool:
    """Return whether to read the lock's holder in this turn; ``ahead`` counts the hosts ahead in the queue."""
    return turn % max(1, ahead) == 0


def asks_for_others(turn: int, ahead: int) -> bool:
    """Return whether to check in this turn whether another lock is free: at least once a minute.

    The hosts at the head of the queue check often, so that no free lock stays unused.
    """
    return turn % min(max(1, ahead), _MAX_TURNS) == 0
