"""Waiting for the predecessor in a queue with a single request, across any number of calls.

In a queue of a thousand hosts, each host watches only its predecessor and reads nothing until that watch fires.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session


class QueueWatch:
    """A watch on one node, valid until it fires or the session ends. Not thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._session_id: int | None = None
        self._fired = threading.Event()

    @property
    def is_active(self) -> bool:
        """Whether the watch belongs to the current session and has not fired; sends no request."""
        return self._session_id is not None and self._session_id == self._session.id and not self._fired.is_set()

    def set(self, path: str, session_id: int | None) -> Node | None:
        """Watch another node, which was read in the session with this id; in a later session the watch is void.

        Return the node; if it no longer exists, the watch is not active.
        """
        fired = self._fired = threading.Event()  # a new event: an earlier watch that still fires has no effect
        node = self._session.get(path, lambda _: fired.set())
        self._session_id = None if node is None else session_id
        return node

    def wait_for_turn(
        self, timeout: float, *, is_waiting: Callable[[], bool], is_first: Callable[[], bool]
    ) -> bool:
        """Wait until the contender is first in its queue, for at most ``timeout`` seconds; return whether it is.

        ``is_waiting`` returns whether the contender is queued and its watch is active. ``is_first`` reads the
        queue and sets the watch on the predecessor, if there is one.
        """
        deadline = time.monotonic() + timeout
        while True:
            if not is_waiting() and is_first():
                return True
            if is_waiting() and not self.wait(deadline - time.monotonic()):
                return False

    def wait(self, seconds: float) -> bool:
        """Wait until the watch fires, for at most ``seconds``; return whether it fired."""
        return self._fired.wait(max(0.0, seconds))
