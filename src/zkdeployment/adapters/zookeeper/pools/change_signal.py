"""The signal that something of the pools was written, for any number of waiting threads with one watch."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session


class ChangeSignal:
    """Waits for new versions of the node that every transaction of the pools writes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._arming = threading.Lock()  # held during a request; never by the watch
        self._condition = threading.Condition()
        self._fired = 0
        self._version: int | None = None  # of the node while the watch is set
        session.on_change(self._fire)

    def wait(self, version: int, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until the node has another version; return whether it has."""
        deadline = time.monotonic() + timeout
        while True:
            fired, present = self._watched()
            if present != version:
                return True
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            with self._condition:
                self._condition.wait_for(lambda: self._fired != fired, remaining)  # noqa: B023  used at once

    def _watched(self) -> tuple[int, int]:
        """Return how often the watch has fired, and a version of the node whose next change fires it."""
        with self._arming:
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
