"""A thread of a service that works after each change of the fleet, or only while the service is elected."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from zkdeployment.base.daemon.cycles import CycleFailures, FailureKind
from zkdeployment.base.errors import ZkdeploymentError

if TYPE_CHECKING:
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.zookeeper.contender_lock import ContenderLock

#: Seconds of each wait in the queue of the election, and for the end of the thread.
_QUEUED = 1.0
_CLOSING = 2.0


class FeedThread(ABC):
    """Works after each change of ``feed``; with a ``lock``, only while this service is elected by it.

    After an error, the service gives up its election and contends again. An error is logged once while it
    persists. ``NAME`` names the thread and its logs.
    """

    NAME: ClassVar[str]

    def __init__(self, feed: ZooKeeperFeed, lock: ContenderLock | None = None) -> None:
        self._feed, self._lock = feed, lock
        paused = FailureKind(ZkdeploymentError, f"{self.NAME}-paused", logging.WARNING)
        self._log = CycleFailures([paused, FailureKind(Exception, f"{self.NAME}-failed", logging.ERROR)])
        self._wake, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.NAME, daemon=True)

    @abstractmethod
    def _work(self) -> float:
        """Work, and return the seconds until the next call if nothing changes."""

    def _begin(self) -> None:  # noqa: B027  some need it
        """Begin to work, after this service was elected."""

    def start(self) -> None:
        """Begin to work, or to contend for the election."""
        self._feed.subscribe(self._wake.set)
        self._thread.start()

    def close(self) -> None:
        """Stop the work, and let another service be elected."""
        self._closed.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSING)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                if self._is_elected():
                    self._follow()
                self._log.end()
            except Exception as error:  # noqa: BLE001  the service's other parts continue
                self._log.report(error)
                self._resign()
                self._closed.wait(_QUEUED)
        self._resign()

    def _is_elected(self) -> bool:
        """Contend for a moment, once the fleet was read."""
        if self._feed.recent_events().base:
            return self._lock is None or self._lock.acquire(_QUEUED)
        self._wake.wait(_QUEUED)
        self._wake.clear()
        return False

    def _follow(self) -> None:
        """Work until the end; raises ``LockLostError`` if this service is no longer elected."""
        self._begin()
        while not self._closed.is_set():
            self._wake.clear()
            if self._lock is not None:
                self._lock.check()
            pause = self._work()
            self._log.end()
            self._wake.wait(pause)

    def _resign(self) -> None:
        if self._lock is not None:
            self._lock.release()
