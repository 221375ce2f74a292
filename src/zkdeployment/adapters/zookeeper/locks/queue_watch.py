"""Waiting for the node before ours in a queue, over any number of calls, with one request.

A queue of a thousand hosts must not become a thousand hosts that read the queue again and again: each watches
its predecessor only, and reads nothing until that watch fires.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session


class QueueWatch:
    """A watch of one node that is kept until it fires or the session ends. For use by one thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._session_id: int | None = None
        self._fired = threading.Event()

    @property
    def stands(self) -> bool:
        """Whether the watch is of the current session and has not fired; asks nobody."""
        return self._session_id is not None and self._session_id == self._session.id and not self._fired.is_set()

    def set(self, path: str, session_id: int | None) -> None:
        """Watch another node, which was found in the session with this id: in a later one the watch is void.

        If that node is gone the watch does not stand.
        """
        fired = self._fired = threading.Event()  # an earlier watch, which may fire yet, does not count any more
        there = self._session.exists(path, lambda _: fired.set())
        self._session_id = session_id if there else None

    def wait(self, seconds: float) -> bool:
        """Wait until the watch fires, for some seconds at most; return whether the watch fired."""
        return self._fired.wait(max(0.0, seconds))
