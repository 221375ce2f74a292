"""Decides when a deployment that waits asks ZooKeeper again whether it may continue.

Thousands of hosts may wait for one lock. A host that waits therefore reads the cluster version and the other
conditions of its deployment once, with watches, and again only when one of these watches fired.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zkdeployment.daemons.jitter import jittered

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.ports.process import Clock

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
