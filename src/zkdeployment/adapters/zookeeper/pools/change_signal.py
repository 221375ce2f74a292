"""Signals that a record of the pools was written, to any number of waiting threads with one watch."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from zkdeployment.adapters.shared_calls import turn
from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.feed.shared_read import late_read

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session

#: Seconds for which a waiting thread stays after a change.
_TOGETHER = 0.1

#: Seconds that a thread waits for the read of another thread.
_PATIENCE = 5.0


class ChangeSignal:
    """Waits for new versions of the node that every transaction of the pools writes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._arming = threading.Lock()  # held during a request; never by the watch
        self._condition = threading.Condition()
        self._fired = 0
        self._version: int | None = None  # of the node while the watch is set
        session.on_change(self._fire)

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until the node gets another version; return whether it did.

        Changes that follow closely count as one, so that many waiting requests do not read all the time.
        """
        deadline = time.monotonic() + timeout
        fired, version = self._watched()
        while (remaining := deadline - time.monotonic()) > 0:
            with self._condition:
                self._condition.wait_for(lambda: self._fired != fired, remaining)  # noqa: B023  used at once
            fired, present = self._watched()
            if present != version:
                time.sleep(_TOGETHER)
                return True
        return False

    def _watched(self) -> tuple[int, int]:
        """Return how often the watch has fired, and a version of the node whose next change fires it."""
        with turn(self._arming, _PATIENCE, late_read):
            with self._condition:
                fired, version = self._fired, self._version
            if version is not None:
                return fired, version
            node = self._session.get(paths.POOL_CHANGES, watch=self._fire)
            version = 0 if node is None else node.version
            with self._condition:
                if self._fired == fired and node is not None:
                    self._version = version
            return fired, version

    def _fire(self, _event: object = None) -> None:
        with self._condition:
            self._fired += 1
            self._version = None
            self._condition.notify_all()
