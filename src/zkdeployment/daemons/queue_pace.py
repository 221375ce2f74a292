"""How often a host in the queue of a lock asks for anything but the cluster version.

A thousand hosts may wait for one lock. A host far back has the longer to wait, and asks the less often: so all of
them together ask about as often as the first few.
"""

from __future__ import annotations

#: Seconds in a lock's queue between two looks at the cluster version: one turn.
TURN = 2.0

_RARELY = 30  # turns


def asks_for_holder(turn: int, ahead: int) -> bool:
    """Return whether to read in this turn who holds the lock; ``ahead`` hosts are before this one."""
    return turn % max(1, ahead) == 0


def asks_for_others(turn: int, ahead: int) -> bool:
    """Return whether to look in this turn whether another lock is free, which is once a minute at the least.

    The hosts in front look often, so that no free lock is left unused.
    """
    return turn % min(max(1, ahead), _RARELY) == 0
