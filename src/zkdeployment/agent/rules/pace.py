"""The pace at which a waiting host sends requests: in the queue of a lock, and before it may continue.

A thousand hosts may wait for one lock. Watches notify a waiting host of its turn and of a change of the cluster
version. Two facts have no watch, because a watch would wake all waiting hosts whenever one of them gets its
turn: the name of the lock's holder, and whether another lock has become free. Hosts read these at intervals that
double, the later the farther back they are in the queue.

Thousands of hosts may wait for one lock. A host that waits therefore reads the cluster version and the other
conditions of its deployment once, with watches, and again only when one of these watches fired.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.cycles import jittered

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.machine.clock import Clock


#: Seconds between two checks of the notes of watches, and between two reads of a host that reads in each turn.
TURN = 2.0

_MAX_TURNS = 30  # between two checks of other locks


def asks_for_holder(turn: int, ahead: int, known: int | None) -> bool:
    """Return whether to read the lock's holder in this turn; ``ahead`` counts the hosts ahead in the queue.

    ``known`` is that number when the holder was last read, ``None`` before. The next host in the queue watches the
    holder itself. A holder that a lock delay keeps from using the lock reads in each turn what it waits for.
    """
    if ahead < 2 or ahead != known:
        return ahead == 0 or ahead != known
    return _is_doubling(turn, ahead)


def asks_for_others(turn: int, ahead: int) -> bool:
    """Return whether to check in this turn whether another lock is free: at least once a minute.

    The hosts at the head of the queue check soon and often at first: no free lock stays unused for longer than the
    first of those that need it has waited.
    """
    if turn >= _MAX_TURNS:
        return turn % _MAX_TURNS == 0
    return _is_doubling(turn, min(max(1, ahead), _MAX_TURNS))


def _is_doubling(turn: int, first: int) -> bool:
    """Whether a turn is 0, ``first``, or a multiple of that by a power of two."""
    multiple, rest = divmod(turn, first)
    return rest == 0 and multiple & (multiple - 1) == 0


_PATIENCE = 300.0  # seconds until the conditions are read again although no watch fired


class Recheck:
    """Whether the conditions of one deployment are to be read again.

    ``session`` returns the id of the current session with ZooKeeper: watches end with their session.
    """

    def __init__(self, clock: Clock, session: Callable[[], int | None]) -> None:
        self._clock = clock
        self._session = session
        self._changed = threading.Event()
        self._changed.set()
        self._watching: int | None = None
        self._due = 0.0

    def note_change(self) -> None:
        """Note that a condition may have changed; may be called on any thread."""
        self._changed.set()

    @property
    def is_due(self) -> bool:
        """Whether the conditions may have changed since they were last read; sends no request."""
        return self._changed.is_set() or self._session() != self._watching or self._clock.monotonic() >= self._due

    def begin(self) -> Callable[[], None]:
        """Return the function to be called at the next change; call this before the conditions are read."""
        self._changed.clear()
        self._watching = self._session()
        self._due = self._clock.monotonic() + jittered(_PATIENCE)
        return self.note_change
